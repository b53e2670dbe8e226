import type {
  controlApi,
  controlCacheApi,
  controlRegionsApi,
  eventsApi,
  fetchesApi,
  jobsApi,
  migrationsApi,
  readApi,
  workersApi,
} from '@mds/contract';
import type { AppRoute, ClientInferRequest, ClientInferResponses } from '@ts-rest/core';

declare const contractRoute: unique symbol;

/**
 * Method and path of one route of the contract, tied to it by type: what a call takes and answers is
 * inferred from `R`. The schemas themselves stay out of the program: nothing here is validated at run time, so
 * that a newer server's fields and values pass.
 */
export interface Route<R extends AppRoute> {
  readonly method: R['method'];
  readonly path: R['path'];
  readonly [contractRoute]?: R;
}

type RoutesOf<T> = { readonly [K in keyof T]: T[K] extends AppRoute ? Route<T[K]> : RoutesOf<T[K]> };

/** Path parameters, query, headers and body that the contract has for a route. */
export type RequestOf<R extends AppRoute> = Pick<
  ClientInferRequest<R>,
  Extract<keyof ClientInferRequest<R>, 'params' | 'query' | 'headers' | 'body'>
>;

type Success = 200 | 201 | 202 | 204;

/** What the contract has a route answer when it goes well. */
export type AnswerOf<R extends AppRoute> = Extract<ClientInferResponses<R>, { status: Success }>;

/** The read API. Does not compile when a route of the contract is missing here, or has another method or path. */
export const readRoutes: RoutesOf<typeof readApi> = {
  media: { list: { method: 'GET', path: '/api/v1/media' } },
  regions: { list: { method: 'GET', path: '/api/v1/regions' } },
  assets: { list: { method: 'GET', path: '/api/v1/assets' } },
  status: { get: { method: 'GET', path: '/api/v1/status' } },
  index: { get: { method: 'GET', path: '/api/v1' } },
  formats: { list: { method: 'GET', path: '/api/v1/formats' } },
  renditions: { list: { method: 'GET', path: '/api/v1/renditions' } },
};

/** The control API; every route needs a token. */
export const controlRoutes: RoutesOf<typeof controlApi> = {
  ingest: { method: 'POST', path: '/control/v1/media' },
  list: { method: 'GET', path: '/control/v1/media' },
  get: { method: 'GET', path: '/control/v1/media/:id' },
  explain: { method: 'GET', path: '/control/v1/media/:id/explain' },
  retry: { method: 'POST', path: '/control/v1/media/:id/retry' },
  verify: { method: 'POST', path: '/control/v1/media/:id/verify' },
  delete: { method: 'DELETE', path: '/control/v1/media/:id' },
};

/** The part of the control API that is about fetches; `create` shares its path with the upload of a file. */
export const fetchesRoutes: RoutesOf<typeof fetchesApi> = {
  create: { method: 'POST', path: '/control/v1/media' },
  list: { method: 'GET', path: '/control/v1/fetches' },
  get: { method: 'GET', path: '/control/v1/fetches/:fetch' },
  cancel: { method: 'DELETE', path: '/control/v1/fetches/:fetch' },
};

/** The part of the control API that is about the queue of jobs. */
export const jobsRoutes: RoutesOf<typeof jobsApi> = {
  list: { method: 'GET', path: '/control/v1/jobs' },
};

/** The part of the control API that is about workers. */
export const workersRoutes: RoutesOf<typeof workersApi> = {
  list: { method: 'GET', path: '/control/v1/workers' },
};

/** The part of the control API that is about regions. */
export const controlRegionsRoutes: RoutesOf<typeof controlRegionsApi> = {
  list: { method: 'GET', path: '/control/v1/regions' },
  get: { method: 'GET', path: '/control/v1/regions/:code' },
  put: { method: 'PUT', path: '/control/v1/regions/:code' },
  delete: { method: 'DELETE', path: '/control/v1/regions/:code' },
  forgetNode: { method: 'DELETE', path: '/control/v1/nodes/:node' },
};

/** The part of the control API that is about caches. */
export const controlCacheRoutes: RoutesOf<typeof controlCacheApi> = {
  purge: { method: 'POST', path: '/control/v1/cache/purge' },
};

/** The part of the control API that is about moving a deployment. */
export const migrationsRoutes: RoutesOf<typeof migrationsApi> = {
  create: { method: 'POST', path: '/control/v1/migrations' },
  get: { method: 'GET', path: '/control/v1/migrations/current' },
  cancel: { method: 'DELETE', path: '/control/v1/migrations/current' },
};

/** The stream of events, which is part of the control API, and no answer that ends. */
export const eventsRoutes: RoutesOf<typeof eventsApi> = {
  stream: { method: 'GET', path: '/control/v1/events' },
};
