import type { AppRoute } from '@ts-rest/core';
import { isAppRoute } from '@ts-rest/core';
import { expect, it } from 'vitest';
import { api } from './index.ts';

const routes = Object.values(api.read).flatMap((resource) => Object.values(resource).filter(isAppRoute)) as AppRoute[];

it.each(routes.map((route) => [route.path, route] as const))(
  '%s lists all of its query parameters and no others',
  (_path, route) => {
    const known = Object.keys((route.query as { shape?: object } | undefined)?.shape ?? {});
    expect((route.metadata as { query?: string[] }).query).toEqual(known);
  },
);

it('has the seven resources of the interface', () => {
  expect(routes).toHaveLength(7);
});
