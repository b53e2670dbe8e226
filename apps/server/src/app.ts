import type { IncomingMessage, ServerResponse } from 'node:http';
import { DELIVERY_CACHE_CONTROL, DELIVERY_PREFIX } from '@mds/contract';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { type ControlApiParts, mountControlApi } from './control-api/control-api.ts';
import { createAccessLog } from './http/access-log.ts';
import { AppError } from './http/app-error.ts';
import { allowEveryOrigin } from './http/cors.ts';
import { mountDiscovery } from './http/discovery.ts';
import { mountDocsPage } from './http/docs-page.ts';
import { mountHealth } from './http/health.ts';
import { methodNotAllowed } from './http/methods.ts';
import { type Metrics, mountMetrics } from './http/metrics.ts';
import { observeRequests } from './http/observe.ts';
import { sendProblem } from './http/problem.ts';
import { mountProblemTypes } from './http/problem-types.ts';
import { refuseBadTarget } from './http/request-path.ts';
import type { Logger } from './logger.ts';
import { mountReadApi, type ReadApiParts } from './read-api/read-api.ts';

/** What the app is made of; null for a plane that this process does not serve. */
export interface AppParts {
  logger: Logger;
  metrics: Metrics;
  /** Base address that clients use, without a trailing slash; asked per request, as a free port is known late. */
  publicUrl(): string;
  /** Why this process should get no traffic, as a sentence for `/readyz`; null when it should. */
  notReady(): Promise<string | null>;
  read: ReadApiParts | null;
  control: Omit<ControlApiParts, 'publicUrl'> | null;
  delivery: DeliveryPart | null;
}

/** Answers GET and HEAD under `/media`; rejects with an AppError before anything is sent. */
export interface DeliveryPart {
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
}

/**
 * The Express app of all planes; it listens to nothing. Paths are case-sensitive; a trailing slash is tolerated. Forwarding
 * headers are not believed.
 */
export function createApp(parts: AppParts): Express {
  const { logger, delivery, publicUrl, read, control } = parts;
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');

  app.use(createAccessLog(logger));
  app.use(observeRequests(parts.metrics));
  app.use(helmet.xContentTypeOptions());
  // Public answers say cross-origin themselves.
  app.use(helmet.crossOriginResourcePolicy({ policy: 'same-origin' }));
  app.use((req, _res, next) => {
    refuseBadTarget(req);
    next();
  });

  if (delivery) mountDelivery(app, delivery, logger);
  if (read) mountReadApi(app, read);
  if (control) mountControlApi(app, { ...control, publicUrl });
  mountHealth(app, parts);
  mountMetrics(app, parts.metrics);
  mountDiscovery(app, { publicUrl });
  mountDocsPage(app, { publicUrl });
  mountProblemTypes(app);

  app.use((req) => {
    throw new AppError('not_found', `There is nothing at ${shown(req.path)}. GET / says what there is.`);
  });
  // Express knows an error handler by its four parameters.
  app.use((error: unknown, req: Request, res: Response, _next: NextFunction) => sendProblem(req, res, error, logger));
  return app;
}

/**
 * Hands delivery paths over. Not mounted under its prefix, as that would cut it off the URL; the raw path decides, so that
 * an encoded one is never taken for a rendition.
 */
function mountDelivery(app: Express, delivery: DeliveryPart, logger: Logger): void {
  app.use(DELIVERY_PREFIX, allowEveryOrigin);
  app.use((req, res, next) => {
    if (!req.path.startsWith(`${DELIVERY_PREFIX}/`)) {
      next();
      return;
    }
    if (req.method !== 'GET' && req.method !== 'HEAD') throw methodNotAllowed(req, 'GET, HEAD');
    delivery.handle(req, res).catch((error: unknown) => sendProblem(req, res, shortLived(error), logger));
  });
}

/** A rendition that is not there may be there soon; until then caches keep the question away for a moment. */
function shortLived(error: unknown): unknown {
  if (!(error instanceof AppError) || error.status !== 404) return error;
  return new AppError(error.code, error.message, {
    cause: error,
    headers: { 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound, ...error.headers },
    ...(error.issues ? { issues: error.issues } : {}),
  });
}

/** A path for a sentence; percent-encoded as it came, so that nothing in it is invisible. */
function shown(path: string): string {
  return path.length > 200 ? `${path.slice(0, 200)}…` : path;
}
