import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { AppError } from './base/app-error.ts';
import type { Logger } from './base/logger.ts';
import { type ControlApiParts, mountControlApi } from './control-api/control-api.ts';
import { mountDiscovery } from './http/discovery.ts';
import { mountDocsPage } from './http/docs-page.ts';
import { mountHealth } from './http/health.ts';
import { sendProblem } from './http/problem.ts';
import { mountProblemTypes } from './http/problem-types.ts';
import { refuseBadTarget } from './http/request-path.ts';
import { type Metrics, mountMetrics } from './listener/metrics.ts';
import { mountReadApi, type ReadApiParts } from './read-api/read-api.ts';

/** The parts of the app; null for a plane that this process does not serve. */
export interface AppParts {
  logger: Logger;
  metrics: Metrics;
  /** Base address that clients use, without a trailing slash. Read at each request, as a free port is known late. */
  publicUrl(): string;
  /** Why this process should get no traffic, as a sentence for `/readyz`; null if it should. */
  notReady(): Promise<string | null>;
  read: ReadApiParts | null;
  control: Omit<ControlApiParts, 'publicUrl'> | null;
  /** Mounts the routes that replace both planes on a point of presence. */
  instead?: ((app: Express) => void) | undefined;
}

/**
 * The Express app of all planes but delivery. The request listener (listener/request-listener.ts) calls it. Paths are case-sensitive; a
 * trailing slash is tolerated. Forwarding headers are ignored.
 */
export function createApp(parts: AppParts): Express {
  const { logger, publicUrl, read, control } = parts;
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');

  app.use(helmet.xContentTypeOptions());
  // Public answers set cross-origin themselves.
  app.use(helmet.crossOriginResourcePolicy({ policy: 'same-origin' }));
  app.use((req, _res, next) => {
    refuseBadTarget(req);
    next();
  });

  if (read) mountReadApi(app, read);
  if (control) mountControlApi(app, { ...control, publicUrl });
  parts.instead?.(app);
  mountHealth(app, parts);
  mountMetrics(app, parts.metrics);
  mountDiscovery(app, { publicUrl });
  mountDocsPage(app, { publicUrl });
  mountProblemTypes(app);

  app.use((req) => {
    throw new AppError('not_found', `There is nothing at ${shown(req.path)}. GET / says what there is.`);
  });
  // Express recognizes an error handler by its four parameters.
  app.use((error: unknown, req: Request, res: Response, _next: NextFunction) => sendProblem(req, res, error, logger));
  return app;
}

/** A path for a sentence, percent-encoded as received, so that nothing in it is invisible. */
function shown(path: string): string {
  return path.length > 200 ? `${path.slice(0, 200)}…` : path;
}
