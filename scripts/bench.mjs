// `npm run bench [-- NAME …]`: installs and builds what is missing, then measures.
import { ensureBuilt, ensureInstalled, main, ROOT, run } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt();
  await run(process.execPath, [
    '--conditions=@mds/source',
    '--import',
    'tsx',
    `${ROOT}bench/run.ts`,
    ...process.argv.slice(2),
  ]);
});
