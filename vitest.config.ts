import { defineConfig } from 'vitest/config';

// Everything runs from source: workspace packages resolve to their `@mds/source` entry. No `import` here: it would hand
// ES modules to the `require` of packages that are written in CommonJS.
const conditions = ['@mds/source', 'node'];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: [
      'packages/*/{src,test}/**/*.test.ts',
      'apps/*/{src,test}/**/*.test.ts',
      'bench/**/*.test.ts',
      'scripts/**/*.test.ts',
    ],
    pool: 'forks',
    // One more than by default: many tests wait for processes of their own. More than there are cores would be at the expense of those
    // that measure what a service does under load.
    maxWorkers: '100%',
    // Far more than any test needs: a machine that is busy with other things must not fail one.
    testTimeout: 90_000,
    hookTimeout: 60_000,
  },
});
