import { api, type FormatList, READ_API_PREFIX, type Status } from '@mds/contract';
import type { Preset } from '@mds/transcode';
import { createExpressEndpoints, initServer } from '@ts-rest/express';
import type { Express } from 'express';
import { AppError } from '../base/app-error.ts';
import type { Presented } from '../base/presented.ts';
import type { AssetRepository, RegionRepository } from '../db/delivery-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ProjectRepository } from '../db/project-repository.ts';
import { metadataOf, refuseMethodsOutside } from '../http/contract-routes.ts';
import { allowEveryOrigin } from '../http/cors.ts';
import { createCurrentProject } from '../http/current-project.ts';
import { answerJson } from '../http/json-answers.ts';
import { invalidRequest, refuseRepeatedParameters } from '../http/validation.ts';
import type { FormatCatalogue } from '../processing/format-catalogue.ts';
import type { RegionMonitor } from '../regions/region-monitor.ts';
import type { StatusBoard } from '../status/status-board.ts';
import { createAssetHandlers } from './assets.ts';
import { createMediaHandlers } from './media.ts';
import { createRegionHandlers } from './regions.ts';
import { createRenditionHandlers } from './renditions.ts';
import { createVersionIndexHandlers } from './version-index.ts';

/** Parts of the read API. */
export interface ReadApiParts {
  media: Pick<MediaRepository, 'publicPage'>;
  assets: Pick<AssetRepository, 'latest'>;
  regions: Pick<RegionRepository, 'find'>;
  projects: Pick<ProjectRepository, 'byHost'>;
  regionMonitor: Pick<RegionMonitor, 'states'>;
  statusBoard: Pick<StatusBoard, 'document'>;
  formats: Pick<FormatCatalogue, 'accepted'>;
  presets: readonly Preset[];
}

/** Mounts the public read-only API: the routes of the contract, and clear answers for all other paths below `/api`. */
export function mountReadApi(app: Express, parts: ReadApiParts): void {
  const currentProject = createCurrentProject(parts.projects);
  const router = {
    media: createMediaHandlers({ media: parts.media, currentProject }),
    regions: createRegionHandlers(parts),
    assets: createAssetHandlers(parts),
    status: createStatusHandlers(parts),
    index: createVersionIndexHandlers({ statusBoard: parts.statusBoard, currentProject }),
    formats: createFormatHandlers(parts),
    renditions: createRenditionHandlers(parts),
  };
  app.use('/api', allowEveryOrigin);
  createExpressEndpoints(api.read, router, app, {
    logInitialization: false,
    globalMiddleware: [
      refuseRepeatedParameters,
      (req, res, next) => {
        answerJson(req, res, metadataOf(req.tsRestRoute).cacheControl ?? 'no-store');
        next();
      },
    ],
    requestValidationErrorHandler: (error, _req, _res, next) => next(invalidRequest(error)),
  });
  refuseMethodsOutside(api.read, app);
  app.use('/api', (req, _res, next) => {
    const version = /^\/(v\d+)(\/|$)/.exec(req.path)?.[1];
    if (version === undefined || `/api/${version}` === READ_API_PREFIX) {
      next();
      return;
    }
    throw new AppError('not_found', `There is no version ${version} of this API. Use v1, under ${READ_API_PREFIX}.`);
  });
}

/** `GET /api/v1/formats`: the formats that the engine has proved it decodes. */
function createFormatHandlers({ formats }: Pick<ReadApiParts, 'formats'>) {
  return initServer().router(api.read.formats, {
    list: async () => {
      const body: Presented<FormatList> = { object: 'list', data: await formats.accepted() };
      return { status: 200, body };
    },
  });
}

/** `GET /api/v1/status`: 200 whatever the status document reports. */
function createStatusHandlers({ statusBoard }: Pick<ReadApiParts, 'statusBoard'>) {
  return initServer().router(api.read.status, {
    get: async () => {
      const body: Presented<Status> = await statusBoard.document();
      return { status: 200, body };
    },
  });
}
