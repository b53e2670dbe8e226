// `npm start`: installs and builds what is missing, then runs the service. Settings are environment variables (MDS_*).
import { spawn } from 'node:child_process';
import { ensureBuilt, ensureInstalled, main, ROOT } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt();
  const service = spawn(process.execPath, [`${ROOT}apps/server/dist/main.js`, ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => service.kill(signal));
  // A signal to `npm start` ends npm and its shell, which do not pass it on.
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || service.kill('SIGTERM'), 250).unref();
  process.exitCode = await new Promise((resolve) =>
    service.once('exit', (code, signal) => resolve(code ?? (signal ? 1 : 0))),
  );
});
