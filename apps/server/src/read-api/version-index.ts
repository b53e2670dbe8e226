import { buildDeliveryPath, type IndexedResource, readApi, type VersionIndex } from '@mds/contract';
import type { AppRoute } from '@ts-rest/core';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';
import { metadataOf } from '../http/contract-routes.ts';
import type { CurrentProject } from '../http/current-project.ts';
import { DOCS_PATH, OPENAPI_PATH } from '../http/discovery.ts';
import type { StatusBoard } from '../status/status-board.ts';

/** Every resource but the index itself: one that the contract gains and this map lacks does not compile. */
const RESOURCES = {
  media: readApi.media.list,
  regions: readApi.regions.list,
  assets: readApi.assets.list,
  status: readApi.status.get,
  formats: readApi.formats.list,
  renditions: readApi.renditions.list,
} satisfies Record<Exclude<keyof typeof readApi, 'index'>, AppRoute>;

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

/** `GET /api/v1`: what there is under this version, and where. Addresses are paths, relative to the service's own. */
export function createVersionIndexHandlers(parts: {
  currentProject: CurrentProject;
  statusBoard: Pick<StatusBoard, 'document'>;
}) {
  const resources = Object.fromEntries(
    Object.entries(RESOURCES).map(([name, route]) => [name, presentResource(route)]),
  );
  const links: Presented<VersionIndex['links']> = {
    openapi: OPENAPI_PATH,
    docs: DOCS_PATH,
    manifest: buildDeliveryPath({ kind: 'manifest', id: '{id}' }),
  };
  return initServer().router(readApi.index, {
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
