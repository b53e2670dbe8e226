import type { IncomingMessage } from 'node:http';
import {
  CONTROL_API_PREFIX,
  controlApi,
  controlCacheApi,
  controlRegionsApi,
  edgeStreamsApi,
  edgesApi,
  eventsApi,
  fetchesApi,
  jobsApi,
  migrationsApi,
  TokenScope,
  workersApi,
} from '@mds/contract';
import type { AppRoute } from '@ts-rest/core';
import { createExpressEndpoints, type RequestValidationError } from '@ts-rest/express';
import type { Express, NextFunction, Request, Response } from 'express';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ProjectRepository } from '../db/project-repository.ts';
import type { EventStream } from '../events/event-stream.ts';
import { metadataOf, refuseMethodsOutside } from '../http/contract-routes.ts';
import { answerJson } from '../http/json-answers.ts';
import { invalidRequest, refuseRepeatedParameters } from '../http/validation.ts';
import type { QueueBound } from '../jobs/queue-bound.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import type { Uploads } from '../uploads/uploads.ts';
import { requireScope, requireToken, tokenOf } from './authenticate.ts';
import { type ControlCacheParts, createControlCacheHandlers } from './cache.ts';
import { type ControlEdgesParts, createControlEdgesHandlers, mountEdgeStreams } from './edges.ts';
import { mountEvents } from './events.ts';
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

/** What the control API acts on. */
export interface ControlApiParts extends ControlMediaParts {
  jobs: ControlMediaParts['jobs'] & ControlJobsParts['jobs'] & ControlWorkersParts['jobs'];
  media: ControlMediaParts['media'] & Pick<MediaRepository, 'findByIdempotencyKey'>;
  events: Pick<EventStream, 'serve'>;
  projects: Pick<ProjectRepository, 'findToken'>;
  fetches: ControlFetchesParts;
  queueBound: Pick<QueueBound, 'requireRoom'>;
  /** Requests that a token may make in a minute; 0: any number. */
  rateLimit: number;
  regions: ControlRegionsParts;
  cache: ControlCacheParts;
  migrations: ControlMigrationsParts;
  /** Who writes has to pass it. */
  writes: Pick<WriteGate, 'enter' | 'isClosedForGood'>;
  edges: ControlEdgesParts;
  uploads: Pick<Uploads, 'serve'>;
  /** Origins whose pages may upload from a browser. */
  uploadOrigins: readonly string[];
}

/** Mounts the operator's API. Nothing under its path answers without a token, not even that there is nothing. */
export function mountControlApi(app: Express, parts: ControlApiParts): void {
  mountUploadCors(app, parts.uploadOrigins);
  app.use('/control', requireToken(parts.projects), limitRate(parts.rateLimit), passGate(parts.writes));
  // Whatever brings a new media object, before any of it is read.
  app.post([`${CONTROL_API_PREFIX}/media`, `${CONTROL_API_PREFIX}/uploads`], async (req, _res, next) => {
    await parts.queueBound.requireRoom(tokenOf(req).projectId);
    next();
  });
  const options = {
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
  };
  // Two routes share this path: a body of JSON says what to fetch, any other is the file.
  app.post(fetchesApi.create.path, onlyJsonBodies, ...jsonBodies());
  createExpressEndpoints(fetchesApi, createControlFetchesHandlers(parts.fetches, parts), app, {
    ...options,
    globalMiddleware: [
      (req: Request & { tsRestRoute: AppRoute }, res: Response, next: NextFunction) =>
        req.tsRestRoute === fetchesApi.create ? onlyJsonBodies(req, res, next) : next(),
      ...options.globalMiddleware,
    ],
  });
  createExpressEndpoints(controlApi, createControlMediaHandlers(parts), app, options);
  createExpressEndpoints(jobsApi, createControlJobsHandlers(parts), app, options);
  createExpressEndpoints(workersApi, createControlWorkersHandlers(parts), app, options);
  for (const prefix of ['regions', 'cache', 'edges', 'migrations'])
    app.use(`${CONTROL_API_PREFIX}/${prefix}`, ...jsonBodies());
  createExpressEndpoints(controlRegionsApi, createControlRegionsHandlers(parts.regions), app, options);
  createExpressEndpoints(controlCacheApi, createControlCacheHandlers(parts.cache), app, options);
  createExpressEndpoints(migrationsApi, createControlMigrationsHandlers(parts.migrations), app, options);
  createExpressEndpoints(edgesApi, createControlEdgesHandlers(parts.edges), app, options);
  mountEdgeStreams(app, parts.edges);
  mountEvents(app, parts.events);
  mountUploads(app, parts.uploads);
  refuseMethodsOutside(
    {
      control: controlApi,
      fetches: fetchesApi,
      jobs: jobsApi,
      workers: workersApi,
      regions: controlRegionsApi,
      cache: controlCacheApi,
      migrations: migrationsApi,
      edges: edgesApi,
      edgeStreams: edgeStreamsApi,
      events: eventsApi,
    },
    app,
  );
}
