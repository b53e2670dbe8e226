import { createEngine, defaultPresets } from '@mds/transcode';
import { createLogger } from '../../src/base/logger.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { createWorker } from '../../src/processing/worker.ts';
import { openDataDir } from '../../src/storage/data-dir.ts';
import { createLocalObjectStore } from '../../src/storage/local-object-store.ts';

// A worker without the rest of the service, over the data folder of its test. The supervisor passes it the environment of a real worker, of
// which it needs two settings.
const dataDir = await openDataDir(process.env['MDS_DATA_DIR'] ?? '', { exclusive: false });
const repositories = openSqliteRepositories(dataDir.databaseFile);
const engine = createEngine({ concurrency: 1 });
const worker = createWorker({
  id: `worker-${process.pid}-${Date.now()}`,
  host: 'vm',
  region: 'fra1',
  jobs: repositories.jobs,
  media: repositories.media,
  pieceDigests: repositories.pieceDigests,
  store: createLocalObjectStore({ root: dataDir.objectsDir }),
  engine,
  presets: defaultPresets,
  scratchDir: dataDir.scratchDir,
  concurrency: 1,
  logger: createLogger(process.env['MDS_LOG_LEVEL'] ?? 'silent'),
});
worker.start();

const stop = () => {
  worker
    .stop({ graceMs: 2_000 })
    .then(() => engine.stop())
    .then(() => process.exit(0))
    .catch(() => process.exit(1));
};
process.on('message', () => worker.wake());
process.on('disconnect', stop);
process.on('SIGTERM', stop);
