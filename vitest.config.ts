import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/longest-first.mjs';

// Everything runs from source: workspace packages resolve to their `@mds/source` entry. The condition `import` is missing, because it
// would give ES modules to the `require` of CommonJS packages. `npm test` builds first, and each package imports the built others: see
// `apps/server/test/support/programs-under-test.ts`.
const conditions = process.env['MDS_TEST_BUILT'] === '1' ? ['node'] : ['@mds/source', 'node'];

const cores = availableParallelism();
/** For files that leave processors idle for a third of the time or more. A number, because vitest limits a share to 100 %. */
const MORE_THAN_CORES = cores + Math.ceil(cores / 2);

/** Tests that wait: for a minute without an origin, for leases to end, for a locked database. `npm test` runs them first, alone. */
const waiting = ['**/*.waiting.test.ts'];

/** Tests that measure a service under load, in time or memory. They run last, one file at a time. */
const measuring = ['**/*.measuring.test.ts'];

/**
 * Files that leave nothing in their process, and do not depend on its memory or its open files. They share processes and the modules that
 * these have loaded, because loading modules is more work than most of their tests. Excluded files change their process or measure it.
 */
const light = [
  'apps/cli/{src,test}/**/*.test.ts',
  'apps/server/src/{base,control-api,db,edge,events,http,ingest,jobs,listener,migration,read-api,regions,status,storage,uploads}/**/*.test.ts',
  'apps/server/src/delivery/**/!(delivery-cache|disk-cache|reading-threads).test.ts',
  'apps/server/src/fetches/!(web).test.ts',
  'apps/server/src/processing/!(format-catalogue|supervisor|worker-failures|worker-scratch).test.ts',
  'apps/server/src/{app,config}.test.ts',
  'bench/**/!(lru-theory|simulate).test.ts',
  'packages/client/test/!(ingest|upload-processes|weight).test.ts',
  'packages/contract/src/**/*.test.ts',
  'packages/transcode/src/{ffmpeg/argv,identify,presets,render}/**/*.test.ts',
  'packages/transcode/src/plan.test.ts',
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
        test: { name: 'measuring', include: measuring, maxWorkers: 1, sequence: { groupOrder: 3 } },
      },
    ],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    // Built packages run as Node.js runs them.
    server: { deps: { external: [/\/(apps|packages)\/[^/]+\/dist\//] } },
    globalSetup: [
      'scripts/run-folder.mjs',
      // See CONTRIBUTING.md.
      ...(process.env['MDS_TEST_BACKENDS'] ? ['apps/server/test/support/backends-setup.ts'] : []),
    ],
    // Far more than any test needs, so that a busy machine fails none.
    testTimeout: 90_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
