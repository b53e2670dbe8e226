// `npm run test:backends [-- vitest arguments]`: every test over whole services, on PostgreSQL and S3 instead of SQLite and the disk.
import { endToEndFiles } from './end-to-end.mjs';
import { ON_POSTGRES_AND_S3, runTests } from './run-tests.mjs';
import { ensureBuilt, ensureInstalled, main } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt();
  const { files, ownServers } = endToEndFiles();
  console.log(`Left to npm test, as they start servers of their own: ${ownServers.join(', ')}`);
  await runTests([[{ args: [...files, ...process.argv.slice(2)], env: ON_POSTGRES_AND_S3 }]]);
});
