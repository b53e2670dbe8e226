import type { AppRoute, AppRouter } from '@ts-rest/core';
import { isAppRoute } from '@ts-rest/core';
import type { IRouter } from 'express';
import { refuseOtherMethods } from './methods.ts';

/** What a route of the contract says about itself. */
export interface RouteMetadata {
  cacheControl?: string;
  query?: string[];
  scope?: string;
  binaryBody?: boolean;
}

/** The metadata of a route; empty where it has none. */
export function metadataOf(route: AppRoute): RouteMetadata {
  return (route.metadata ?? {}) as RouteMetadata;
}

/** Every route of a contract, in its order. */
export function routesOf(router: AppRouter): AppRoute[] {
  return Object.values(router).flatMap((entry) => (isAppRoute(entry) ? [entry] : routesOf(entry)));
}

/** Answers 405 for the methods that the paths of a contract do not have; mounted after its endpoints. */
export function refuseMethodsOutside(router: AppRouter, app: IRouter): void {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routesOf(router)) methods.set(path, [...(methods.get(path) ?? []), method]);
  for (const [path, known] of methods) app.all(path, refuseOtherMethods(known));
}
