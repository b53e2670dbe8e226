import type { Logger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { IngestSettings } from '../ingest/settings.ts';
import type { StagingSpace } from '../ingest/staging-space.ts';
import { createDownload } from './download.ts';
import { createFetchRunner, type FetchRunner } from './fetch-runner.ts';
import type { FetchSettings } from './settings.ts';
import { createWeb } from './web.ts';

/** Makes runners of fetches: a runner that was stopped cannot be started again. */
export function composeFetches(parts: {
  settings: FetchSettings & Pick<IngestSettings, 'maxUploadBytes'>;
  repositories: Pick<Repositories, 'fetches' | 'media' | 'shared'>;
  ingest: Ingest;
  space: StagingSpace;
  dataDir: { uploadsDir: string };
  logger: Logger;
}): { createRunner(): FetchRunner } {
  const { settings, repositories, ingest, space, dataDir, logger } = parts;
  const { fetches, media, shared } = repositories;
  const download = createDownload({
    source: createWeb({ allow: settings.fetchAllow }),
    space,
    maxBytes: settings.maxUploadBytes,
  });
  return {
    createRunner: () =>
      createFetchRunner({
        ...{ fetches, media, ingest, download, shared, logger },
        uploadsDir: dataDir.uploadsDir,
        concurrency: settings.fetchConcurrency,
        timeoutMs: settings.fetchTimeoutS * 1000,
      }),
  };
}
