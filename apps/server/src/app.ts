import type { IncomingMessage, ServerResponse } from 'node:http';
import { DELIVERY_CACHE_CONTROL, DELIVERY_PREFIX } from '@mds/contract';
import type { Preset } from '@mds/transcode';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { mountControlApi } from './control-api/control-api.ts';
import type { Repositories } from './db/repositories.ts';
import { createAccessLog } from './http/access-log.ts';
import { AppError } from './http/app-error.ts';
import { allowEveryOrigin } from './http/cors.ts';
import { mountDiscovery } from './http/discovery.ts';
import { mountDocsPage } from './http/docs-page.ts';
import { mountHealth } from './http/health.ts';
import { methodNotAllowed } from './http/methods.ts';
import { createMetrics, mountMetrics } from './http/metrics.ts';
import { observeRequests } from './http/observe.ts';
import { sendProblem } from './http/problem.ts';
import { mountProblemTypes } from './http/problem-types.ts';
import { normaliseTarget } from './http/request-path.ts';
import type { Ingest } from './ingest/ingest.ts';
import type { MediaRemoval } from './ingest/media-removal.ts';
import type { Logger } from './logger.ts';
import type { FormatCatalogue } from './processing/format-catalogue.ts';
import { mountReadApi } from './read-api/read-api.ts';
import type { RegionIdentity } from './regions/region-identity.ts';
import type { RegionMonitor } from './regions/region-monitor.ts';
import type { StatusBoard } from './status/status-board.ts';

/** What the app is made of. */
export interface AppParts {
  /** Base address that clients use, without a trailing slash; asked per request, as a free port is known late. */
  publicUrl(): string;
  /** The region that answers. */
  region: RegionIdentity;
  repositories: Pick<Repositories, 'media' | 'projects' | 'assets' | 'regions' | 'jobs' | 'probe'>;
  ingest: Pick<Ingest, 'ingest' | 'stats'>;
  removal: MediaRemoval;
  /** There is a job again: workers look at once instead of at their next turn. */
  wakeWorkers(): void;
  /** Null where this process serves no region. */
  delivery: DeliveryPart | null;
  status: Pick<StatusBoard, 'document'>;
  formats: Pick<FormatCatalogue, 'accepted'>;
  presets: readonly Preset[];
  regionMonitor: Pick<RegionMonitor, 'states'>;
  logger: Logger;
  /** False while the service stops. */
  isReady(): boolean;
}

/** Answers GET and HEAD under `/media`; rejects with an AppError before anything is sent. */
export interface DeliveryPart {
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
  readonly stats: { hits: number; misses: number };
}

/**
 * The Express app of all planes; it listens to nothing. Paths are case-sensitive; a trailing slash is tolerated. Forwarding
 * headers are not believed.
 */
export function createApp(parts: AppParts): Express {
  const { logger, repositories, delivery, publicUrl } = parts;
  const { media, projects, assets, regions, jobs } = repositories;
  const metrics = createMetrics({
    deliveries: delivery && (() => delivery.stats),
    queue: () => jobs.counts(),
    workers: async () => (await jobs.workers()).length,
    ingest: () => parts.ingest.stats,
  });
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');

  app.use(createAccessLog(logger));
  app.use(observeRequests(metrics));
  app.use(commonHeaders);
  app.use((req, _res, next) => {
    normaliseTarget(req);
    next();
  });

  if (delivery) mountDelivery(app, delivery, logger);
  mountReadApi(app, {
    media,
    assets,
    regions,
    projects,
    regionMonitor: parts.regionMonitor,
    statusBoard: parts.status,
    formats: parts.formats,
    presets: parts.presets,
    region: parts.region,
  });
  mountControlApi(app, {
    media,
    projects,
    ingest: parts.ingest,
    removal: parts.removal,
    wakeWorkers: parts.wakeWorkers,
    publicUrl,
  });
  mountHealth(app, { isReady: parts.isReady, probe: () => repositories.probe() });
  mountMetrics(app, metrics);
  mountDiscovery(app, { publicUrl });
  mountDocsPage(app);
  mountProblemTypes(app);

  app.use((req) => {
    throw new AppError('not_found', `There is nothing at ${shown(req.path)}. GET / says what there is.`);
  });
  // Express knows an error handler by its four parameters.
  app.use((error: unknown, req: Request, res: Response, _next: NextFunction) => sendProblem(req, res, error, logger));
  return app;
}

/** What helmet sets on everything; policies for pages are set where the pages are. */
const commonHeaders = helmet({
  contentSecurityPolicy: false,
  crossOriginOpenerPolicy: false,
  // Public answers say cross-origin themselves.
  crossOriginResourcePolicy: { policy: 'same-origin' },
  originAgentCluster: false,
  // Whether there is TLS, and for how long, is for whoever terminates it to say.
  strictTransportSecurity: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

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
