// `npm run typecheck`: every workspace from source; no build is needed.
import { ensureInstalled, main, pnpm } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await pnpm(['exec', 'turbo', 'run', 'typecheck', '--output-logs=errors-only']);
});
