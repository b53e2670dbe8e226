import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { png } from './pictures.ts';
import { spawnService } from './service-process.ts';

const run = promisify(execFile);

describe('how the service ends', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mds-stop-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

  /** Ids of the processes below one, as far as they are its own. */
  const descendants = async (pid: number): Promise<number[]> => {
    const { stdout } = await run('ps', ['-e', '-o', 'pid=,ppid=']);
    const rows = stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number));
    const below = (parent: number): number[] =>
      rows.flatMap(([child, of]) => (of === parent && child !== undefined ? [child, ...below(child)] : []));
    return below(pid);
  };
  const lives = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  it('fault 15: SIGTERM is obeyed at once by all of it, whoever holds a silent connection, and nothing is left in the way of the next', async () => {
    const service = await spawnService({ dataDir });
    const client = createClient({ baseUrl: service.url, token: service.token });
    const { media } = await client.control.media.ingest(png(1, 300, 200));
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 30_000 });
    const { port, hostname } = new URL(service.url);
    const silent: Socket[] = ['', 'GET / HT', 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'].map((text) => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined).write(text);
      return socket;
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    const family = await descendants(service.child.pid ?? 0);
    expect(family.length).toBeGreaterThan(1);

    const began = performance.now();
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(performance.now() - began).toBeLessThan(10_000);
    for (const socket of silent) socket.destroy();
    expect(existsSync(join(dataDir, 'service.json'))).toBe(false);
    await expect.poll(() => family.filter(lives), { timeout: 5_000 }).toEqual([]);
  });

  it.each([0, 300, 1500])(
    'kill -9 %i ms after it listens leaves no worker and no engine child behind',
    async (ms) => {
      const service = await spawnService({ dataDir });
      await new Promise((resolve) => setTimeout(resolve, ms));
      const family = await descendants(service.child.pid ?? 0);
      expect(family.length).toBeGreaterThan(0);
      await service.end('SIGKILL');
      await expect.poll(() => family.filter(lives), { timeout: 20_000, interval: 200 }).toEqual([]);
    },
    60_000,
  );
});
