import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contentAt, fillDataDir, type StoredRendition } from './support/fill-data-dir.ts';
import { peakDuring, residentBytes } from './support/process-memory.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';
import { openSlowReader } from './support/slow-readers.ts';

const MIB = 1024 * 1024;
/** Memory that 200 readers, or 1,000 concurrent misses, may add. */
const MOST_MORE_BYTES = 150 * MIB;
const MEMORY_CACHE_BYTES = 64 * MIB;
const READERS = 200;
const MISSES = 1_000;
const FILM = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', bytes: 300 * MIB + 12_345, seed: 'film' };
const PICTURE_BYTES = 100_000;

describe.skipIf(process.platform !== 'linux')('memory of the service process', () => {
  let dataDir: string;
  let service: ServiceProcess;
  let film: StoredRendition;
  let pictures: StoredRendition[];
  const pid = () => service.child.pid ?? 0;

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mds-memory-'));
    const names = Array.from({ length: MISSES }, (_, index) => ({
      ...{ name: `p${index}`, extension: 'webp', contentType: 'image/webp', bytes: PICTURE_BYTES, seed: `p${index}` },
    }));
    const stored = await fillDataDir(dataDir, [{ renditions: [FILM] }, { renditions: names }]);
    [film] = stored as [StoredRendition];
    pictures = stored.slice(1);
    service = await spawnService({
      dataDir,
      env: { MDS_ROLES: 'api,edge', MDS_MEMORY_CACHE_BYTES: String(MEMORY_CACHE_BYTES) },
    });
    // The first response loads modules, compiled code and database pages, which are not measured.
    for (let i = 0; i < 20; i += 1) await (await fetch(`${service.url}/api/v1/media`)).arrayBuffer();
  }, 240_000);

  afterAll(async () => {
    await service?.end('SIGTERM');
    await rm(dataDir, { recursive: true, force: true });
  });

  it(`${READERS} slow readers do not fill the memory`, async () => {
    const before = await residentBytes(pid());
    // Each at another position of the video, so that no two wait for the same bytes.
    const starts = Array.from({ length: READERS }, (_, index) => Math.floor((index * FILM.bytes) / READERS));
    const peak = await peakDuring(pid(), async () => {
      const readers = await Promise.all(starts.map((start) => openSlowReader(service.url, film.path, start)));
      try {
        for (let turn = 0; turn < 5; turn += 1) {
          await Promise.all(readers.map((reader) => reader.take(64 * 1024)));
          await sleep(500);
        }
        for (const [index, reader] of readers.entries()) {
          const body = reader.body();
          const right = contentAt(FILM.seed, starts[index] ?? 0, body.length);
          expect(body.equals(right), `what reader ${index} got`).toBe(true);
        }
      } finally {
        for (const reader of readers) reader.leave();
      }
    });
    expect((peak - before) / MIB).toBeLessThan(MOST_MORE_BYTES / MIB);
  });

  it(`${MISSES.toLocaleString('en')} concurrent misses do not fill the memory, and each gets its bytes`, async () => {
    const before = await residentBytes(pid());
    const digests: string[] = [];
    const peak = await peakDuring(pid(), async () => {
      digests.push(...(await Promise.all(pictures.map(({ path }) => digestOf(service.url + path)))));
    });
    expect(digests).toEqual(pictures.map(({ sha256 }) => sha256));
    // The memory tier uses its share, as configured.
    expect((peak - before) / MIB).toBeLessThan((MOST_MORE_BYTES + MEMORY_CACHE_BYTES) / MIB);
  });

  it('everything is still delivered afterwards', async () => {
    expect(await digestOf(service.url + film.path)).toBe(film.sha256);
    for (const { path, sha256 } of pictures.slice(0, 50)) expect(await digestOf(service.url + path)).toBe(sha256);
    expect(errorsIn(service.stderr())).toEqual([]);
  });
});

/** Long enough for a slow machine. */
const MOST_TRIES = 20;

/** SHA-256 of a response, after as many retries as Retry-After asks for. */
async function digestOf(url: string): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    const response = await fetch(url);
    const retryAfterS = Number(response.headers.get('retry-after') ?? Number.NaN);
    if (response.status === 503 && tries < MOST_TRIES && retryAfterS > 0) {
      await response.body?.cancel();
      await sleep(retryAfterS * 1000);
      continue;
    }
    expect(response.status).toBe(200);
    const digest = createHash('sha256');
    for await (const chunk of response.body ?? []) digest.update(chunk);
    return digest.digest('hex');
  }
}

/** Log lines of errors. Refused requests are warnings. */
function errorsIn(log: string): string[] {
  const lines = log.split('\n').filter((line) => line !== '');
  return lines.filter((line) => !line.startsWith('{') || (JSON.parse(line) as { level: number }).level >= 50);
}
