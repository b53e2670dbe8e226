import { READ_API_PREFIX, readApi } from '@mds/contract';
import type { Preset } from '@mds/transcode';
import { createExpressEndpoints } from '@ts-rest/express';
import type { Express } from 'express';
import { AppError } from '../base/app-error.ts';
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
import { createFormatHandlers } from './formats.ts';
import { createMediaHandlers } from './media.ts';
import { createRegionHandlers } from './regions.ts';
import { createRenditionHandlers } from './renditions.ts';
import { createStatusHandlers } from './status.ts';
import { createVersionIndexHandlers } from './version-index.ts';

/** What the read API reads. */
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

/** Mounts the public read-only API: the contract's routes, and clear answers for everything beside them. */
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
  createExpressEndpoints(readApi, router, app, {
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
  refuseMethodsOutside(readApi, app);
  app.use('/api', (req, _res, next) => {
    const version = /^\/(v\d+)(\/|$)/.exec(req.path)?.[1];
    if (version === undefined || `/api/${version}` === READ_API_PREFIX) {
      next();
      return;
    }
    throw new AppError(
      'not_found',
      `There is no version ${version} of this API. The version that is served is v1, under ${READ_API_PREFIX}.`,
    );
  });
}
