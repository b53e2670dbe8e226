import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ownBackends } from './support/backends.ts';
import { childrenOf } from './support/process-tree.ts';
import { BUILT } from './support/service-process.ts';

let dataDir: string;
let service: ChildProcess | undefined;
let leftBehind: number[];
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-unread-'));
  service = undefined;
  leftBehind = [];
});
afterEach(async () => {
  if (service?.exitCode === null && service.signalCode === null) service.kill('SIGKILL');
  for (const pid of leftBehind.filter(lives)) process.kill(pid, 'SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const lives = (pid: number) => existsSync(`/proc/${pid}`);

/** A service that logs all it can. @param stderr where to */
async function start(stderr: 'pipe' | number): Promise<string> {
  const stdio: StdioOptions = ['ignore', 'pipe', stderr];
  const child = spawn(process.execPath, [BUILT], {
    stdio,
    env: {
      PATH: process.env['PATH'],
      MDS_DATA_DIR: dataDir,
      MDS_PORT: '0',
      MDS_LOG_LEVEL: 'trace',
      ...(await ownBackends(dataDir)),
    },
  });
  service = child;
  if (!child.stdout) throw new Error('There is no stdout.');
  for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line).url;
  throw new Error('The service did not start.');
}

const statusOf = async (url: string) => (await fetch(url)).status;

async function endOf(child: ChildProcess | undefined): Promise<[number | null, string | null]> {
  if (!child) throw new Error('There is no service.');
  child.kill('SIGTERM');
  return (await once(child, 'exit')) as [number | null, string | null];
}

describe.skipIf(process.platform !== 'linux')('where nobody takes the log', () => {
  it('the worker of a killed service ends, although nobody reads its log', async () => {
    await start('pipe');
    const pid = service?.pid ?? 0;
    await expect.poll(() => childrenOf(pid), { timeout: 20_000 }).not.toEqual([]);
    leftBehind = await childrenOf(pid);
    service?.kill('SIGKILL');
    service?.stderr?.destroy();
    await expect.poll(() => leftBehind.filter(lives), { timeout: 20_000 }).toEqual([]);
  });

  it('a service whose log disk is full serves, and shuts down on request', async () => {
    const full = openSync('/dev/full', 'w');
    try {
      const url = await start(full);
      for (let n = 0; n < 20; n += 1) expect(await statusOf(`${url}/api/v1/media`)).toBe(200);
      expect(await endOf(service)).toEqual([0, null]);
    } finally {
      closeSync(full);
    }
  });
});
