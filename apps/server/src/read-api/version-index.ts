import { api, buildDeliveryPath, type IndexedResource, type VersionIndex } from '@mds/contract';
import type { AppRoute } from '@ts-rest/core';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';
import { metadataOf, routesOf } from '../http/contract-routes.ts';
import type { CurrentProject } from '../http/current-project.ts';
import { DOCS_PATH, OPENAPI_PATH } from '../http/discovery.ts';
import type { StatusBoard } from '../status/status-board.ts';

function presentResource(route: AppRoute): Presented<IndexedResource> {
  const { cacheControl, query } = metadataOf(route);
  return {
    href: route.path,
    methods: ['GET', 'HEAD'],
    query: query ?? [],
    cache_control: cacheControl ?? 'no-store',
    description: route.description ?? '',
  };
}

/** `GET /api/v1`: the resources of this version. Addresses are paths relative to the service's base address. */
export function createVersionIndexHandlers(parts: {
  currentProject: CurrentProject;
  statusBoard: Pick<StatusBoard, 'document'>;
}) {
  const { index: _itself, ...listed } = api.read;
  const resources = Object.fromEntries(
    Object.entries(listed).flatMap(([name, router]) => routesOf(router).map((route) => [name, presentResource(route)])),
  );
  const links: Presented<VersionIndex['links']> = {
    openapi: OPENAPI_PATH,
    docs: DOCS_PATH,
    manifest: buildDeliveryPath({ kind: 'manifest', id: '{id}' }),
  };
  return initServer().router(api.read.index, {
    get: async ({ req }) => {
      const project = await parts.currentProject(req);
      const body: Presented<VersionIndex> = {
        object: 'index',
        version: 'v1',
        project: project.id,
        region: (await parts.statusBoard.document()).region,
        resources,
        links,
      };
      return { status: 200, body };
    },
  });
}
