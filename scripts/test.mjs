// `npm test [-- vitest arguments]`: installs and builds what is missing, then runs the tests. Without arguments it runs all, and repeats
// some of those over whole services on PostgreSQL and S3.
import { ALWAYS_ON_BOTH } from './end-to-end.mjs';
import { ON_POSTGRES_AND_S3, runTests } from './run-tests.mjs';
import { CommandFailed, ensureBuilt, ensureInstalled, main, run } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt(); // the services that tests start are what ships
  const args = process.argv.slice(2);
  await runTests(...(args.length > 0 ? [[[{ args }]]] : await everything()));
});

/**
 * All tests in three stages. Waiting tests come first and alone: they watch for late answers, which a busy machine gives, too. Measuring
 * ones come last and alone. The repetition on PostgreSQL and S3 runs beside the rest.
 */
async function everything() {
  const isMeasuring = (file) => file.includes('.measuring.');
  const onBoth = (await hasServers()) ? ALWAYS_ON_BOTH : [];
  const onServers = (files) => (files.length > 0 ? [{ args: files, env: ON_POSTGRES_AND_S3 }] : []);
  return [
    [[{ args: ['--project=waiting'] }]],
    [[{ args: ['--project=working', '--project=light'] }], onServers(onBoth.filter((file) => !isMeasuring(file)))],
    [[{ args: ['--project=measuring'] }, ...onServers(onBoth.filter(isMeasuring))]],
  ];
}

/** Whether this machine has PostgreSQL and an S3 server. The search reports what is missing. */
async function hasServers() {
  const argv = ['--conditions=@mds/source', '--import', 'tsx', 'apps/server/test/support/backend-servers.ts', '--look'];
  try {
    await run(process.execPath, argv);
    return true;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    console.error(`Skipped on PostgreSQL and S3, which are not on this machine: ${ALWAYS_ON_BOTH.join(', ')}`);
    return false;
  }
}
