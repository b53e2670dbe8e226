import { PurgeResult } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noisePng, png } from './support/pictures.ts';
import { type Deployment, figuresOf, get, logOf, sha256, startDeployment } from './support/points-of-presence.ts';
import type { ServiceProcess } from './support/service-process.ts';

const OUTAGE_MS = 60_000;
const REGIONS = { ams: 'ams1', sin: 'sin1' } as const;

let all: Deployment;
beforeAll(async () => {
  all = await startDeployment();
  await Promise.all(Object.entries(REGIONS).map(([name, region]) => all.startEdge(name, region)));
}, 60_000);
afterAll(() => all.stop());

/** Requests paths from a node in turn until `stop`, and compares each response with its bytes. */
function askAll(of: ServiceProcess, expected: ReadonlyMap<string, string>) {
  const wrong: string[] = [];
  /** By path, the number of its latest request. */
  const latest = new Map<string, number>();
  let count = 0;
  let longestMs = 0;
  let going = true;
  const done = (async () => {
    while (going) {
      for (const [path, hash] of expected) {
        const began = performance.now();
        const { status, body, cache } = await get(of, path);
        longestMs = Math.max(longestMs, performance.now() - began);
        if (status !== 200 || cache !== 'HIT' || sha256(body) !== hash) wrong.push(`${path}: ${status} ${cache}`);
        latest.set(path, count);
        count += 1;
        await new Promise((resolve) => setTimeout(resolve, 10));
        if (!going) return;
      }
    }
  })();
  return {
    get count() {
      return count;
    },
    async stop() {
      going = false;
      await done;
      const newestFirst = [...latest].sort(([, a], [, b]) => b - a).map(([path]) => path);
      return { wrong, count, longestMs, newestFirst };
    },
  };
}

const FLOOD = 1_500;

/** Requests a path that the node cannot have, as fast as it refuses. */
async function floodWithMisses(of: ServiceProcess, path: string): Promise<void> {
  const ask = async () => {
    for (let n = 0; n < FLOOD / 10; n += 1) expect((await get(of, path)).status).toBe(503);
  };
  await Promise.all(Array.from({ length: 10 }, ask));
}

describe('an origin that was killed', () => {
  it('costs no cached request and no delivery record in a minute of outage', async () => {
    const ids = [await all.ingest(noisePng('away', 1600, 1600))];
    for (let seed = 1; seed <= 8; seed += 1) ids.push(await all.ingest(png(seed)));
    const expected = new Map<string, string>();
    for (const id of ids) {
      for (const path of [`/media/${id}/thumb.webp`, `/media/${id}/large.jpg`]) {
        expected.set(path, sha256((await get(all.origin, path)).body));
      }
    }
    for (const [name, region] of Object.entries(REGIONS)) {
      for (const path of expected.keys()) {
        const { cache, headers } = await get(all.node(name), path);
        expect([cache, headers.get('age')]).toEqual(['MISS', null]);
      }
      const misses = Object.fromEntries([...expected.keys()].map((path) => [path, 'MISS']));
      await expect.poll(() => all.assets(region), { timeout: 5_000 }).toEqual(misses);
    }
    const lastMoment = `/media/${await all.ingest(png(9))}/thumb.webp`;
    const neverAsked = `/media/${await all.ingest(png(10))}/thumb.webp`;
    const loads = Object.keys(REGIONS).map((name) => askAll(all.node(name), expected));
    // Delivered, and not yet reported when the origin dies.
    for (const name of Object.keys(REGIONS)) expect((await get(all.node(name), lastMoment)).status).toBe(200);
    const { port } = new URL(all.origin.url);
    await all.end(all.origin, 'SIGKILL');
    const began = performance.now();
    await expect(fetch(`${all.origin.url}/healthz`)).rejects.toThrow();
    for (const name of Object.keys(REGIONS)) expect((await get(all.node(name), neverAsked)).status).toBe(503);
    for (const name of Object.keys(REGIONS)) await floodWithMisses(all.node(name), neverAsked);
    const before = loads.map(({ count }) => count);
    await new Promise((resolve) => setTimeout(resolve, OUTAGE_MS - (performance.now() - began)));
    const [held = ''] = expected.keys();
    for (const name of Object.keys(REGIONS)) {
      const awayS = (performance.now() - began) / 1000;
      const { headers } = await get(all.node(name), held);
      const ageS = Number(headers.get('age'));
      // The origin confirmed it up to 30 s before it died. A cache behind this one may use it for the rest of 300 s.
      expect(ageS).toBeGreaterThanOrEqual(Math.floor(awayS));
      expect(ageS).toBeLessThan(awayS + 35);
      const [, pastS] = /ttl=-(\d+)$/.exec(headers.get('cache-status') ?? '') ?? [];
      expect(Math.abs(ageS - 30 - Number(pastS))).toBeLessThanOrEqual(1);
      const figures = await figuresOf(all.node(name));
      expect(figures.mds_edge_origin_up).toBe(0);
      expect(figures.mds_edge_events_lag_seconds).toBeGreaterThan(50);
      expect(figures.mds_edge_unreported_paths).toBeGreaterThanOrEqual(expected.size);
      expect(figures.mds_deliveries_stale_total).toBeGreaterThan(100);
      expect(figures.mds_deliveries_unavailable_total).toBe(FLOOD + 1);
    }
    const during = loads.map(({ count }, index) => count - (before[index] ?? 0));
    await all.startOrigin(port);
    // Until they notice that it is back.
    for (const name of Object.keys(REGIONS)) {
      const fetched = async () => (await get(all.node(name), neverAsked)).status;
      await expect.poll(fetched, { timeout: 15_000, interval: 100 }).toBe(200);
    }
    const ends = await Promise.all(loads.map((load) => load.stop()));
    for (const name of Object.keys(REGIONS)) {
      const warnings = logOf(all.node(name)).filter(({ msg }) => String(msg).startsWith('unavailable'));
      // One line a second. It takes a few seconds until they notice that the origin is back.
      expect(warnings.length).toBeLessThan(25);
      expect(warnings.reduce((sum, { refused }) => sum + Number(refused), 0)).toBeGreaterThan(FLOOD);
      expect(warnings[0]).toMatchObject({ latest: neverAsked, reason: expect.stringContaining('origin') });
      // A line for each refusal would make more than 1,500.
      expect(logOf(all.node(name)).length).toBeLessThan(60);
      expect(all.node(name).stderr()).not.toContain('"stack"');
      const figures = async () => figuresOf(all.node(name));
      await expect
        .poll(figures, { timeout: 10_000 })
        .toMatchObject({ mds_edge_origin_up: 1, mds_edge_events_lag_seconds: 0, mds_edge_unreported_paths: 0 });
    }

    for (const [index, { wrong, longestMs }] of ends.entries()) {
      expect(wrong).toEqual([]);
      expect(longestMs).toBeLessThan(4_000);
      expect(during[index]).toBeGreaterThan(500);
    }
    for (const [index, region] of Object.values(REGIONS).entries()) {
      const recorded = async () =>
        (await all.assetList(region)).map(({ path, cache_status }) => `${path} ${cache_status}`);
      const ofLoad = async () => (await recorded()).filter((line) => expected.has(line.split(' ')[0] ?? ''));
      // One record for each path of a region, with its latest request, in the order of these.
      const inOrder = ends[index]?.newestFirst.map((path) => `${path} HIT`);
      await expect.poll(ofLoad, { timeout: 15_000 }).toEqual(inOrder);
      expect(await recorded()).toContain(`${lastMoment} MISS`);
      expect(await recorded()).toHaveLength(expected.size + 2);
    }
    for (const name of Object.keys(REGIONS)) {
      const age = async () => (await get(all.node(name), held)).headers.get('age');
      await expect.poll(age, { timeout: 10_000 }).toBeNull();
    }
  }, 150_000);

  it('a point of presence that was killed too restarts alone and serves its cache', async () => {
    const [held, purged] = [await all.ingest(noisePng('alone', 1600, 1600)), await all.ingest(png(11))];
    const paths = [`/media/${held}/thumb.webp`, `/media/${held}/large.jpg`];
    const whole = await Promise.all(paths.map((path) => get(all.node('ams'), path)));
    expect(whole.map(({ status, cache }) => [status, cache])).toEqual([
      [200, 'MISS'],
      [200, 'MISS'],
    ]);
    const gone = `/media/${purged}/thumb.webp`;
    expect((await get(all.node('ams'), gone)).status).toBe(200);
    const { complete } = PurgeResult.parse(await all.sendJson('POST', '/cache/purge', { path: gone }));
    expect(complete).toBe(true);

    // The purge has its receipt, so it holds even if nodes die.
    await Promise.all([all.end(all.node('ams'), 'SIGKILL'), all.end(all.origin, 'SIGKILL')]);
    await all.startEdge('ams', 'ams1');
    for (const [index, path] of paths.entries()) {
      const { status, body, cache, headers } = await get(all.node('ams'), path);
      expect([path, status, cache]).toEqual([path, 200, 'HIT']);
      expect(sha256(body)).toBe(sha256(whole[index]?.body ?? Buffer.alloc(0)));
      expect(headers.get('cache-status')).toMatch(/^ams1; hit; ttl=-?\d+/);
      const part = await get(all.node('ams'), path, { range: 'bytes=3-5' });
      expect([part.status, part.body]).toEqual([206, body.subarray(3, 6)]);
    }
    expect((await get(all.node('ams'), gone)).status).toBe(503);

    const { port } = new URL(all.origin.url);
    await all.startOrigin(port);
    expect((await all.control(`/media/${held}`, { method: 'DELETE' })).status).toBe(204);
    // Cached entries are revalidated as soon as the origin is back.
    await expect
      .poll(async () => (await get(all.node('ams'), paths[0] ?? '')).status, { timeout: 10_000, interval: 50 })
      .toBe(404);
    expect((await get(all.node('ams'), gone)).status).toBe(200);
  }, 60_000);
});
