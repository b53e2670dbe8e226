import type { AppRoute, AppRouter } from '@ts-rest/core';
import { isAppRoute } from '@ts-rest/core';
import type { IRouter, RequestHandler } from 'express';
import { refuseOtherMethods } from './methods.ts';

/** The metadata that a route of the contract may have. */
export interface RouteMetadata {
  cacheControl?: string;
  query?: string[];
  scope?: string;
  binaryBody?: boolean;
}

/** The metadata of a route; empty if it has none. */
export function metadataOf(route: AppRoute): RouteMetadata {
  return (route.metadata ?? {}) as RouteMetadata;
}

/** Every route of a contract, in its order. */
export function routesOf(router: AppRouter): AppRoute[] {
  return Object.values(router).flatMap((entry) => (isAppRoute(entry) ? [entry] : routesOf(entry)));
}

/** Whether the body of a route's requests is a JSON document. */
export function takesJson(route: AppRoute): boolean {
  return 'body' in route && typeof route.body === 'object';
}

/** A plain Express handler for each route of a contract, under the same name. */
export type PlainHandlers<T> = { [K in keyof T]: T[K] extends AppRoute ? RequestHandler : PlainHandlers<T[K]> };

/** Mounts GET routes whose handlers write the response themselves, because it is raw bytes or has no end. */
export function mountStreams<T extends AppRouter>(router: T, handlers: PlainHandlers<T>, app: IRouter): void {
  for (const [name, entry] of Object.entries(router)) {
    const handler: unknown = handlers[name];
    if (isAppRoute(entry)) app.get(entry.path, handler as RequestHandler);
    else mountStreams(entry, handler as PlainHandlers<typeof entry>, app);
  }
}

/** Answers 405 for the methods that the paths of a contract do not have; mounted after its endpoints. */
export function refuseMethodsOutside(router: AppRouter, app: IRouter): void {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routesOf(router)) methods.set(path, [...(methods.get(path) ?? []), method]);
  for (const [path, known] of methods) app.all(path, refuseOtherMethods(known));
}
