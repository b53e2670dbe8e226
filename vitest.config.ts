import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

// Everything runs from source: workspace packages resolve to their `@mds/source` entry. No `import` among them: it would hand
// ES modules to the `require` of packages that are written in CommonJS. Only `npm test`, which has built them, has each package take the
// others as they ship; `apps/server/test/programs-under-test.ts` says why.
const conditions = process.env['MDS_TEST_BUILT'] === '1' ? ['node'] : ['@mds/source', 'node'];

const cores = availableParallelism();
/** For files that leave processors idle a third of the time or more. As a number: a share of more than 100 % counts as 100 %. */
const MORE_THAN_CORES = cores + Math.ceil(cores / 2);

/**
 * Files whose tests spend their time waiting: for a minute without an origin, for leases to end, for a database to be unlocked. They run
 * before the others, those that take longest first, which vitest tells by their size.
 */
const waiting = [
  'apps/cli/src/journal/journal.test.ts',
  'apps/cli/test/points-of-presence.test.ts',
  'apps/cli/test/watch-kill.test.ts',
  'apps/cli/test/watch-told.test.ts',
  'apps/cli/test/watch.test.ts',
  'apps/server/src/jobs/bullmq/bull-queue-leases.test.ts',
  'apps/server/src/jobs/bullmq/bull-redis-outage.test.ts',
  'apps/server/test/edges-outage.test.ts',
  'apps/server/test/edges-wrong-settings.test.ts',
  'apps/server/test/edges.test.ts',
  'apps/server/test/hung-storage.test.ts',
  'apps/server/test/locked-database.test.ts',
  'apps/server/test/nodes-kill.test.ts',
  'apps/server/test/nodes-video.test.ts',
  'apps/server/test/redis-queue.test.ts',
  'apps/server/test/several-nodes.test.ts',
  'apps/server/test/tus.test.ts',
  'apps/server/test/video-faults.test.ts',
  'apps/server/test/wrong-storage.test.ts',
];

/**
 * Files that measure what a service does under load, in time or memory: no more of them at once than there are cores, and nothing else
 * beside them.
 */
const measuring = [
  'apps/server/src/delivery/memory-bounds.test.ts',
  'apps/server/src/status/status-board.test.ts',
  'apps/server/test/backpressure.test.ts',
  'apps/server/test/delivery-memory.test.ts',
  'apps/server/test/other-process.test.ts',
  'apps/server/test/overload.test.ts',
  'apps/server/test/responsive.test.ts',
  'apps/server/test/stop.test.ts',
  'apps/server/test/unread-log.test.ts',
  'apps/server/test/uploads-at-once.test.ts',
  'bench/simulation/real-edge.test.ts',
];

/**
 * Files that leave nothing behind in their process, and ask nothing of it such as its memory or its open files: those that one worker runs
 * share it, and what it has loaded. Loading that anew for each file is more work than most of their tests are. Those that are left out here
 * by name do change their process, or measure it.
 */
const light = [
  'apps/server/src/{control-api,db,edge,events,http,ingest,jobs,migration,read-api,regions,status,storage,uploads}/**/*.test.ts',
  'apps/server/src/delivery/**/!(delivery-cache|disk-cache|reading-threads).test.ts',
  'apps/server/src/fetches/!(web).test.ts',
  'packages/client/test/!(ingest|upload-processes|weight).test.ts',
  'packages/contract/src/**/*.test.ts',
];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    projects: [
      {
        extends: true,
        test: { name: 'waiting', include: waiting, maxWorkers: MORE_THAN_CORES, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: 'light',
          include: light,
          exclude: [...configDefaults.exclude, ...waiting, ...measuring],
          isolate: false,
          setupFiles: ['apps/server/test/shared-process-setup.ts'],
          maxWorkers: MORE_THAN_CORES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'working',
          include: [
            'packages/*/{src,test}/**/*.test.ts',
            'apps/*/{src,test}/**/*.test.ts',
            'bench/**/*.test.ts',
            'scripts/**/*.test.ts',
          ],
          exclude: [...configDefaults.exclude, ...waiting, ...measuring, ...light],
          maxWorkers: '100%',
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: { name: 'measuring', include: measuring, maxWorkers: '100%', sequence: { groupOrder: 3 } },
      },
    ],
    pool: 'forks',
    // What `npm run build` made is run as Node runs it.
    server: { deps: { external: [/\/(apps|packages)\/[^/]+\/dist\//] } },
    globalSetup: [
      'apps/server/test/run-folder-setup.ts',
      // Only where MDS_TEST_BACKENDS asks for other servers than none; see CONTRIBUTING.md.
      ...(process.env['MDS_TEST_BACKENDS'] ? ['apps/server/test/backends-setup.ts'] : []),
    ],
    // Far more than any test needs: a machine that is busy with other things must not fail one.
    testTimeout: 90_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
