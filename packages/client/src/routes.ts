import type { api } from '@mds/contract';
import type { AppRoute, ClientInferRequest, ClientInferResponses } from '@ts-rest/core';

// Types alone: a call names its route as `GET /api/v1/media`, and the compiler finds its schemas in the contract's tree. The
// schemas stay out of the program, and answers are not validated, so fields and values of a newer server pass.

type RoutesIn<T> = T extends AppRoute ? T : { [K in keyof T]: RoutesIn<T[K]> }[keyof T];
type ContractRoute = RoutesIn<typeof api>;

type LineOf<R> = R extends AppRoute ? `${R['method']} ${R['path']}` : never;

/** Method and path of a route of the contract: `GET /control/v1/media/:id`. */
export type RouteLine = LineOf<ContractRoute>;

type RouteAt<L extends RouteLine, R = ContractRoute> = R extends AppRoute ? (L extends LineOf<R> ? R : never) : never;

type RequestTo<R> = R extends AppRoute
  ? Pick<ClientInferRequest<R>, Extract<keyof ClientInferRequest<R>, 'params' | 'query' | 'headers' | 'body'>>
  : never;

type Success = 200 | 201 | 202 | 204;
type AnswerTo<R> = R extends AppRoute ? Extract<ClientInferResponses<R>, { status: Success }> : never;

/** Path parameters, query, headers and body that the contract defines for a route. If two routes share the line: of either. */
export type RequestOf<L extends RouteLine> = RequestTo<RouteAt<L>>;

/** The answers of success that the contract defines for a route. If two routes share the line: of either. */
export type AnswerOf<L extends RouteLine> = AnswerTo<RouteAt<L>>;
