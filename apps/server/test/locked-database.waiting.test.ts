import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createClient } from '@mds/client';
import { MediaDetail, Problem } from '@mds/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ownBackends } from './support/backends.ts';
import { png } from './support/pictures.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

const LOCKER = fileURLToPath(new URL('./support/database-locker.ts', import.meta.url));
/** The longest response without a write: usually 35 ms. If the event loop waited for the lock, it would be 4,950 ms. */
const PATIENCE_MS = 1_500;

describe('fault 20: another process holds the write lock of the database', () => {
  let dataDir: string;
  let service: ServiceProcess;
  let locker: ChildProcess | null;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mds-locked-'));
    locker = null;
    service = await spawnService({ dataDir });
  });
  afterEach(async () => {
    locker?.kill('SIGKILL');
    await service.end('SIGKILL');
    await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });

  /** Resolves when the lock is held; `released` resolves when it is released. */
  async function lockFor(ms: number): Promise<{ released: Promise<number> }> {
    const { MDS_DATABASE_URL: database = join(dataDir, 'mds.sqlite') } = await ownBackends(dataDir);
    const argv = ['--conditions=@mds/source', '--import', 'tsx', LOCKER, database, String(ms)];
    const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
    locker = child;
    const lines = createInterface({ input: child.stdout });
    const [line] = (await once(lines, 'line')) as [string];
    expect(line).toBe('locked');
    return { released: once(lines, 'line').then(() => performance.now()) };
  }

  /** Sends requests in sequence until `stop`. */
  function ask(path: (n: number) => string) {
    const statuses = new Set<number>();
    let going = true;
    let count = 0;
    let longestMs = 0;
    const done = (async () => {
      for (; going; count += 1) {
        const began = performance.now();
        const answer = await fetch(service.url + path(count));
        await answer.arrayBuffer();
        statuses.add(answer.status);
        longestMs = Math.max(longestMs, performance.now() - began);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    return {
      async stop() {
        going = false;
        await done;
        return { statuses: [...statuses], count, longestMs };
      },
    };
  }

  const upload = (seed: number) =>
    fetch(`${service.url}/control/v1/media?filename=${seed}.png`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.token}` },
      body: png(seed),
    });

  it('for 5 s: reads are unaffected, uploads wait, and no delivery record is lost', async () => {
    const client = createClient({ baseUrl: service.url, token: service.token });
    const { media } = await client.control.media.ingest(png(1, 700, 500));
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 30_000 });
    const hit = new URL(client.url(media, 'small', { extension: 'webp' })).pathname;
    const other = new URL(client.url(media, 'thumb', { extension: 'webp' })).pathname;
    await (await fetch(service.url + hit)).arrayBuffer();

    const { released } = await lockFor(5_000);
    const readers = [
      ask(() => hit),
      ask(() => '/api/v1/media'),
      // Not cached: another query each time.
      ask((n) => `/api/v1/media?n=${n}`),
      ask(() => '/healthz'),
    ];
    await (await fetch(service.url + other)).arrayBuffer();
    const began = performance.now();
    const uploads = await Promise.all([2, 3, 4].map(upload));
    const waitedMs = performance.now() - began;
    const releasedAt = await released;
    const answers = await Promise.all(readers.map((reader) => reader.stop()));

    for (const { statuses, count, longestMs } of answers) {
      expect(statuses).toEqual([200]);
      expect(longestMs).toBeLessThan(PATIENCE_MS);
      expect(count).toBeGreaterThan(30);
    }
    // They waited for the lock, and not much longer.
    expect(waitedMs).toBeGreaterThan(3_000);
    expect(performance.now() - releasedAt).toBeLessThan(5_000);
    expect(uploads.map(({ status }) => status)).toEqual([201, 201, 201]);
    for (const answer of uploads) {
      const { id } = MediaDetail.parse(await answer.json());
      await client.control.media.waitUntilReady(id, { timeoutMs: 30_000 });
    }
    const recorded = async () => {
      const { data } = await client.assets.list({ limit: 100 });
      return data.map(({ path, cache_status }) => [path, cache_status]);
    };
    await expect.poll(recorded, { timeout: 5_000 }).toEqual(
      expect.arrayContaining([
        [hit, 'HIT'],
        [other, 'MISS'],
      ]),
    );
  }, 60_000);

  it('for 13 s: an upload gets 503 with Retry-After, leaves nothing, and can be resent', async () => {
    const { released } = await lockFor(13_000);
    const reader = ask(() => '/api/v1/media');
    const refused = await upload(5);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
    expect(Problem.parse(await refused.json())).toMatchObject({ code: 'unavailable' });
    expect((await fetch(`${service.url}/readyz`)).status).toBe(503);
    await released;
    const { statuses, longestMs } = await reader.stop();
    expect(statuses).toEqual([200]);
    expect(longestMs).toBeLessThan(PATIENCE_MS);
    const client = createClient({ baseUrl: service.url, token: service.token });
    expect((await client.media.list()).data).toEqual([]);
    expect((await upload(5)).status).toBe(201);
    await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status, { timeout: 5_000 }).toBe(200);
  }, 60_000);
});
