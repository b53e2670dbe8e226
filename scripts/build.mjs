import { ensureBuilt, ensureInstalled, main } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt();
});
