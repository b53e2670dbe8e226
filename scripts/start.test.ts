import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

it('npm start stops its service if only npm gets the signal, as in containers', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'mds-npm-start-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 }));
  const npm = spawn('npm', ['start'], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'ignore'],
    // A process group of its own, so that a failed test leaves no process.
    detached: true,
    env: { ...process.env, MDS_PORT: '0', MDS_DATA_DIR: dataDir, MDS_LOG_LEVEL: 'silent' },
  });
  onTestFinished(() => endGroup(npm.pid));
  let url = '';
  for await (const line of createInterface({ input: npm.stdout })) {
    if (!line.startsWith('{')) continue;
    url = JSON.parse(line).url;
    break;
  }
  const lives = () =>
    fetch(`${url}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    );
  expect(await lives()).toBe(true);
  npm.kill('SIGTERM');
  await expect.poll(lives, { timeout: 20_000 }).toBe(false);
});

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // The whole group has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
