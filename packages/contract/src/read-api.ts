import { initContract } from '@ts-rest/core';
import { assetsRoutes } from './assets.ts';
import { formatsRoutes } from './formats.ts';
import { mediaRoutes } from './media.ts';
import { regionsRoutes } from './regions.ts';
import { renditionsRoutes } from './renditions.ts';
import { statusRoutes } from './status.ts';
import { versionIndexRoutes } from './version-index.ts';

const c = initContract();

/** Path prefix of the read API. */
export const READ_API_PREFIX = '/api/v1';

/** The public read-only API: exactly the seven GETs of interface.md. */
export const readApi = c.router(
  {
    media: mediaRoutes,
    regions: regionsRoutes,
    assets: assetsRoutes,
    status: statusRoutes,
    index: versionIndexRoutes,
    formats: formatsRoutes,
    renditions: renditionsRoutes,
  },
  { pathPrefix: READ_API_PREFIX, strictStatusCodes: true },
);
