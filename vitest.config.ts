import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/longest-first.mjs';

// Everything runs from source: workspace packages resolve to their `@mds/source` entry. No `import` among them: it would hand
// ES modules to the `require` of packages that are written in CommonJS. Only `npm test`, which has built them, has each package take the
// others as they ship; `apps/server/test/support/programs-under-test.ts` says why.
const conditions = process.env['MDS_TEST_BUILT'] === '1' ? ['node'] : ['@mds/source', 'node'];

const cores = availableParallelism();
/** For files that leave processors idle a third of the time or more. As a number: a share of more than 100 % counts as 100 %. */
const MORE_THAN_CORES = cores + Math.ceil(cores / 2);

/** Tests that wait: for a minute without an origin, for leases to end, for a database to be unlocked. They run first, the longest first. */
const waiting = ['**/*.waiting.test.ts'];

/** Tests that measure a service under load, in time or memory. At most one file for each core runs at once, and nothing beside them. */
const measuring = ['**/*.measuring.test.ts'];

/**
 * Files that leave nothing behind in their process, and ask nothing of it such as its memory or its open files: those that one worker runs
 * share it, and what it has loaded. Loading that anew for each file is more work than most of their tests are. Those that are left out here
 * by name do change their process, or measure it.
 */
const light = [
  'apps/server/src/{base,control-api,db,edge,events,http,ingest,jobs,listener,migration,read-api,regions,status,storage,uploads}/**/*.test.ts',
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
          setupFiles: ['apps/server/test/support/shared-process-setup.ts'],
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
    sequence: { sequencer: LongestFirst },
    // What `npm run build` made is run as Node runs it.
    server: { deps: { external: [/\/(apps|packages)\/[^/]+\/dist\//] } },
    globalSetup: [
      'scripts/run-folder.mjs',
      // Only where MDS_TEST_BACKENDS asks for other servers than none; see CONTRIBUTING.md.
      ...(process.env['MDS_TEST_BACKENDS'] ? ['apps/server/test/support/backends-setup.ts'] : []),
    ],
    // Far more than any test needs: a machine that is busy with other things must not fail one.
    testTimeout: 90_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
