import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ownBackends } from './support/backends.ts';
import { endWithParent } from './support/child-guard.ts';
import { noisePng, png } from './support/pictures.ts';
import { nodeArguments } from './support/programs-under-test.ts';
import { spawnService } from './support/service-process.ts';

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

  it('fault 15: SIGTERM ends all processes despite silent connections', async () => {
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
    // 0.9 s; 18.6 s if it waited for silent connections.
    expect(performance.now() - began).toBeLessThan(10_000);
    for (const socket of silent) socket.destroy();
    expect(existsSync(join(dataDir, 'service.json'))).toBe(false);
    await expect.poll(() => family.filter(lives), { timeout: 5_000 }).toEqual([]);
  });

  it('fault 15: SIGTERM as soon as the service reports its address ends it in good order', async () => {
    for (let times = 0; times < 5; times += 1) {
      const folder = join(dataDir, String(times));
      const env = { ...process.env, MDS_DATA_DIR: folder, MDS_PORT: '0', ...(await ownBackends(folder)) };
      const child = spawn(process.execPath, nodeArguments('server'), { env, stdio: ['ignore', 'pipe', 'pipe'] });
      endWithParent(child);
      const exited = once(child, 'exit');
      let log = '';
      child.stdout.on('data', (text: Buffer) => {
        if (String(text).includes('"listening"')) child.kill('SIGTERM');
      });
      child.stderr.on('data', (text: Buffer) => {
        log += text;
      });
      expect([await exited, log.includes('"stopped"')]).toEqual([[0, null], true]);
      expect(existsSync(join(folder, 'service.json'))).toBe(false);
    }
  });

  it('fault 15: SIGTERM under load breaks off no response that has begun', async () => {
    const presets = join(dataDir, 'presets.json');
    await writeFile(presets, JSON.stringify([{ name: 'print', container: 'png', effort: 0 }]));
    const service = await spawnService({ dataDir, env: { MDS_PRESETS: presets } });
    const client = createClient({ baseUrl: service.url, token: service.token });
    const { media } = await client.control.media.ingest(noisePng(1, 2400, 1500));
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    const print = client.url(media, 'print', { extension: 'png' });
    const whole = Buffer.from(await (await fetch(print)).arrayBuffer());
    expect(whole.length).toBeGreaterThan(10_000_000);

    const load = createLoad();
    load.repeat(4, () => `${service.url}/api/v1/media`);
    load.repeat(4, (n) => `${service.url}/api/v1/media?n=${n}`);
    load.repeat(4, () => `${service.url}/media/${media.id}/manifest.json`);
    // A connection for each: they keep coming during the shutdown.
    load.repeat(2, () => `${service.url}/api/v1/regions`, { keepAlive: false });
    const slow = (await once(get(print), 'response'))[0] as IncomingMessage;
    slow.pause();
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
    const readiness = load.watch(`${service.url}/readyz`);

    const began = performance.now();
    const ended = service.end('SIGTERM');
    await load.refused;
    const refusedAfterMs = performance.now() - began;
    // The large response lasts long after the listener is closed.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(service.child.exitCode).toBeNull();
    // Not `toEqual`, which would take minutes for so many bytes.
    expect((await buffer(slow)).equals(whole)).toBe(true);

    expect(await ended).toEqual({ code: 0, signal: null });
    // 2.2 s, mostly the wait above; 7.1 s if it waited for idle connections.
    expect(performance.now() - began).toBeLessThan(6_000);
    const { failures, answered } = await load.end();
    expect(failures).toEqual([]);
    expect(answered).toBeGreaterThan(100);
    expect((await readiness).at(-1)).toBe(503);
    expect(refusedAfterMs).toBeGreaterThan(400);
  }, 90_000);

  it.each([0, 300, 1500])(
    'kill -9 %i ms after it listens leaves no worker and no engine child',
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

/** Requests in sequence, until connections are refused. */
function createLoad() {
  const failures: string[] = [];
  let answered = 0;
  let reportRefusal: () => void = () => undefined;
  const refused = new Promise<void>((resolve) => {
    reportRefusal = resolve;
  });
  const running: Promise<void>[] = [];

  /** Status of a complete response; null if the connection was refused. */
  const ask = (url: string, agent: Agent): Promise<number | null> =>
    new Promise((resolve) => {
      const fail = (error: NodeJS.ErrnoException) => {
        const isNew = !request.reusedSocket;
        if (error.code === 'ECONNREFUSED') resolve(null);
        // The system had accepted the connection for a listener that closed: TCP reports it as a reset.
        else if (isNew && error.code === 'ECONNRESET') resolve(null);
        else {
          failures.push(`${url}: ${error.message}${isNew ? '' : ' on a kept connection'}`);
          resolve(0);
        }
      };
      const request = get(url, { agent }, (response) => {
        response.on('error', fail).on('end', () => resolve(response.statusCode ?? 0));
        response.resume();
      });
      request.on('error', fail);
    });

  const until = async (url: (n: number) => string, keepAlive: boolean, see: (status: number) => void) => {
    const agent = new Agent({ keepAlive, maxSockets: 1 });
    for (let n = 0; ; n += 1) {
      const status = await ask(url(n), agent);
      if (status === null || failures.length > 10) break;
      see(status);
    }
    agent.destroy();
    reportRefusal();
  };

  return {
    /** Resolves when the first connection was refused. */
    refused,

    repeat(connections: number, url: (n: number) => string, { keepAlive = true } = {}) {
      for (let i = 0; i < connections; i += 1) {
        const see = (status: number) => {
          answered += 1;
          if (status !== 200) failures.push(`${url(0)}: ${status}`);
        };
        running.push(until((n) => url(i * 1_000_000 + n), keepAlive, see));
      }
    },

    /** All distinct statuses, in order. */
    async watch(url: string) {
      const statuses = new Set<number>();
      await until(
        () => url,
        false,
        (status) => statuses.add(status),
      );
      return [...statuses];
    },

    async end() {
      await Promise.all(running);
      return { failures, answered };
    },
  };
}
