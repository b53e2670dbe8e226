import type { IncomingMessage } from 'node:http';
import { api, CONTROL_API_PREFIX, TokenScope } from '@mds/contract';
import type { AppRoute } from '@ts-rest/core';
import { createExpressEndpoints, type RequestValidationError } from '@ts-rest/express';
import type { Express, NextFunction, Response } from 'express';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ProjectRepository } from '../db/project-repository.ts';
import type { EventStream } from '../events/event-stream.ts';
import { metadataOf, mountStreams, refuseMethodsOutside, routesOf, takesJson } from '../http/contract-routes.ts';
import { answerJson } from '../http/json-answers.ts';
import { invalidRequest, refuseRepeatedParameters } from '../http/validation.ts';
import type { QueueLimit } from '../jobs/queue-limit.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import type { Uploads } from '../uploads/uploads.ts';
import { requireScope, requireToken, tokenOf } from './authenticate.ts';
import { type ControlCacheParts, createControlCacheHandlers } from './cache.ts';
import { type ControlEdgesParts, createControlEdgesHandlers, createEdgeStreamHandlers } from './edges.ts';
import { createEventHandlers } from './events.ts';
import { type ControlFetchesParts, createControlFetchesHandlers, onlyJsonBodies } from './fetches.ts';
import { type ControlJobsParts, createControlJobsHandlers } from './jobs.ts';
import { jsonBodies } from './json-body.ts';
import { type ControlMediaParts, createControlMediaHandlers } from './media.ts';
import { type ControlMigrationsParts, createControlMigrationsHandlers } from './migrations.ts';
import { limitRate } from './rate-limit.ts';
import { passGate } from './refuse-writes.ts';
import { type ControlRegionsParts, createControlRegionsHandlers } from './regions.ts';
import { mountUploadCors, mountUploads } from './uploads.ts';
import { type ControlWorkersParts, createControlWorkersHandlers } from './workers.ts';

/** Parts of the control API. */
export interface ControlApiParts extends ControlMediaParts {
  jobs: ControlMediaParts['jobs'] & ControlJobsParts['jobs'] & ControlWorkersParts['jobs'];
  media: ControlMediaParts['media'] & Pick<MediaRepository, 'findByIdempotencyKey'>;
  events: Pick<EventStream, 'serve'>;
  projects: Pick<ProjectRepository, 'findToken'>;
  fetches: ControlFetchesParts;
  queueLimit: Pick<QueueLimit, 'requireRoom'>;
  /** Requests that a token may send in a minute; 0: no limit. */
  rateLimit: number;
  regions: ControlRegionsParts;
  cache: ControlCacheParts;
  migrations: ControlMigrationsParts;
  /** Every write passes this gate. */
  writes: Pick<WriteGate, 'enter' | 'isClosedForGood'>;
  edges: ControlEdgesParts;
  uploads: Pick<Uploads, 'serve'>;
  /** Web origins whose pages may upload. */
  uploadOrigins: readonly string[];
}

/** Mounts the operator's API. No path below `/control` answers without a token, not even with 404. */
export function mountControlApi(app: Express, parts: ControlApiParts): void {
  mountUploadCors(app, parts.uploadOrigins);
  app.use('/control', requireToken(parts.projects), limitRate(parts.rateLimit), passGate(parts.writes));
  // Requests that add media are refused before their bodies are read.
  app.post([`${CONTROL_API_PREFIX}/media`, `${CONTROL_API_PREFIX}/uploads`], async (req, _res, next) => {
    await parts.queueLimit.requireRoom(tokenOf(req).projectId);
    next();
  });
  // POST /media has two routes: a JSON body names a URL to fetch, any other body is the file.
  app.post(api.control.fetches.create.path, onlyJsonBodies, ...jsonBodies());
  for (const prefix of jsonResources()) app.use(prefix, ...jsonBodies());
  const handlers = {
    // Before `media`: what is not JSON passes on to its route of the same path.
    fetches: createControlFetchesHandlers(parts.fetches, parts),
    media: createControlMediaHandlers(parts),
    jobs: createControlJobsHandlers(parts),
    workers: createControlWorkersHandlers(parts),
    regions: createControlRegionsHandlers(parts.regions),
    cache: createControlCacheHandlers(parts.cache),
    migrations: createControlMigrationsHandlers(parts.migrations),
    edges: createControlEdgesHandlers(parts.edges),
  };
  createExpressEndpoints(api.control, handlers, app, {
    logInitialization: false,
    globalMiddleware: [
      (req: IncomingMessage & { tsRestRoute: AppRoute }, res: Response, next: NextFunction) => {
        requireScope(req, TokenScope.parse(metadataOf(req.tsRestRoute).scope));
        answerJson(req, res, 'no-store');
        next();
      },
      refuseRepeatedParameters,
    ],
    requestValidationErrorHandler: (error: RequestValidationError, _req: unknown, _res: unknown, next: NextFunction) =>
      next(invalidRequest(error)),
  });
  const streams = {
    events: createEventHandlers(parts.events),
    edgeStreams: createEdgeStreamHandlers(parts.edges),
  };
  mountStreams(api.streams, streams, app);
  mountUploads(app, parts.uploads);
  refuseMethodsOutside({ control: api.control, streams: api.streams }, app);
}

/** Path prefixes of the resources that take JSON, but not of `media`, which takes files too. */
function jsonResources(): Set<string> {
  const { media: _media, fetches: _fetches, ...resources } = api.control;
  const paths = routesOf(resources).filter(takesJson);
  return new Set(paths.map(({ path }) => path.split('/').slice(0, 4).join('/')));
}
