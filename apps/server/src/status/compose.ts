import type { Engine } from '@mds/transcode';
import type { Logger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import type { FormatCatalogue } from '../processing/format-catalogue.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import type { RegionMonitor } from '../regions/region-monitor.ts';
import { apiProbe, databaseProbe, deliveryProbe, objectStorageProbe, processingProbe } from './probes.ts';
import { createStatusBoard, type StatusBoard } from './status-board.ts';

/** The status of a service with an API. */
export function composeStatus(parts: {
  region: RegionIdentity;
  regionMonitor: Pick<RegionMonitor, 'states' | 'onChanged'>;
  repositories: Pick<Repositories, 'probe' | 'jobs'>;
  store: { probe(): Promise<void> };
  delivery: { probe(): Promise<void> };
  engine: Engine;
  formats: FormatCatalogue;
  logger: Logger;
}): StatusBoard {
  const { region, regionMonitor, repositories, store, delivery, engine, formats, logger } = parts;
  const board = createStatusBoard({
    ...{ region, regionMonitor, logger },
    probes: [
      apiProbe(),
      databaseProbe(repositories),
      objectStorageProbe(store),
      processingProbe({ engine, jobs: repositories.jobs, formats }),
      deliveryProbe(delivery),
    ],
  });
  regionMonitor.onChanged(() => void board.refreshRegions());
  return board;
}
