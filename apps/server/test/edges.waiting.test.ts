import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { PurgeResult, RegionDetail, Status } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noisePng, png } from './support/pictures.ts';
import { type Deployment, figuresOf, get, sha256, startDeployment, TOKEN } from './support/points-of-presence.ts';

let all: Deployment;
beforeAll(async () => {
  all = await startDeployment();
  await Promise.all([all.startEdge('sin-a', 'sin1'), all.startEdge('sin-b', 'sin1'), all.startEdge('ams', 'ams1')]);
}, 60_000);
afterAll(() => all.stop());

describe('points of presence', () => {
  it('turn misses into hits, each for itself, and the asset list has both regions', async () => {
    const id = await all.ingest(png(1));
    const path = `/media/${id}/thumb.webp`;
    const whole = (await get(all.origin, path)).body;
    for (const name of ['sin-a', 'ams']) {
      const first = await get(all.node(name), path);
      const second = await get(all.node(name), path);
      expect([name, first.status, first.cache, second.cache]).toEqual([name, 200, 'MISS', 'HIT']);
      expect(first.body).toEqual(whole);
      expect(second.headers.get('cache-status')).toMatch(name === 'ams' ? /^ams1; hit/ : /^sin1; hit/);
    }
    expect((await get(all.node('ams'), path, { 'if-none-match': `"${sha256(whole)}"` })).status).toBe(304);
    const part = await get(all.node('ams'), path, { range: 'bytes=2-5' });
    expect([part.status, part.body]).toEqual([206, whole.subarray(2, 6)]);
    await expect.poll(() => all.assets('sin1'), { timeout: 5_000 }).toMatchObject({ [path]: 'HIT' });
    const other = `/media/${id}/large.jpg`;
    await get(all.node('ams'), other);
    await expect.poll(() => all.assets('ams1'), { timeout: 5_000 }).toMatchObject({ [path]: 'HIT', [other]: 'MISS' });
    expect(await all.assets('sin1')).not.toHaveProperty([other]);

    const missing = await get(all.node('ams'), `/media/${id}/nothing.webp`);
    expect([missing.status, JSON.parse(missing.body.toString())]).toMatchObject([404, { code: 'rendition_not_found' }]);
    const manifest = JSON.parse((await get(all.node('ams'), `/media/${id}/manifest.json`)).body.toString());
    expect(manifest.renditions[0].url).toMatch(new RegExp(`^${all.node('ams').url}/media/`));
  });

  it('send a large object while they fetch it, and keep it over a restart', async () => {
    const id = await all.ingest(noisePng('large', 1600, 1600));
    const path = `/media/${id}/large.jpg`;
    const whole = (await get(all.origin, path)).body;
    expect(whole.length).toBeGreaterThan(3 * 1024 * 1024);
    const [one, two] = await Promise.all([get(all.node('ams'), path), get(all.node('ams'), path)]);
    expect([sha256(one.body), sha256(two.body), one.cache]).toEqual([sha256(whole), sha256(whole), 'MISS']);
    const middle = await get(all.node('sin-b'), path, { range: 'bytes=2000000-2000009' });
    expect([middle.status, middle.body]).toEqual([206, whole.subarray(2_000_000, 2_000_010)]);

    expect(await all.end(all.node('ams'), 'SIGTERM')).toEqual({ code: 0, signal: null });
    await all.startEdge('ams', 'ams1');
    const warm = await get(all.node('ams'), path);
    expect([sha256(warm.body), warm.cache]).toEqual([sha256(whole), 'HIT']);
  });

  it('fault 18: never serve a flipped byte of their cache', async () => {
    const id = await all.ingest(noisePng('flipped', 1500, 1500));
    const path = `/media/${id}/large.jpg`;
    const whole = (await get(all.node('ams'), path)).body;
    const cache = join(all.folder, 'ams', 'cache', id);
    const [file = ''] = await readdir(cache);
    expect(file).toBe(sha256(whole));
    const handle = await open(join(cache, file), 'r+');
    for (const at of [10, 1_500_000, whole.length - 1])
      await handle.write(Buffer.from([~(whole[at] ?? 0) & 0xff]), 0, 1, at);
    await handle.close();
    expect(sha256((await get(all.node('ams'), path)).body)).toBe(sha256(whole));
  });

  it('drop what is purged, each with a receipt, and soon what is deleted', async () => {
    const [kept, deleted] = [await all.ingest(png(2)), await all.ingest(png(3))];
    const paths = [kept, deleted].map((id) => `/media/${id}/thumb.webp`);
    for (const name of all.nodes.keys()) for (const path of [...paths, ...paths]) await get(all.node(name), path);
    for (const scope of [{ media_id: kept }, { path: paths[0] }, { everything: true }]) {
      const result = PurgeResult.parse(await all.sendJson('POST', '/cache/purge', scope));
      expect(result.complete).toBe(true);
      const purged = result.receipts.map(({ region, state }) => `${region} ${state}`).sort();
      expect(purged).toEqual(['ams1 purged', 'fra1 purged', 'sin1 purged', 'sin1 purged']);
      for (const name of all.nodes.keys()) {
        const again = [await get(all.node(name), paths[0] ?? ''), await get(all.node(name), paths[0] ?? '')];
        expect([name, scope, ...again.map(({ cache }) => cache)]).toEqual([name, scope, 'MISS', 'HIT']);
      }
    }
    expect((await all.control(`/media/${deleted}`, { method: 'DELETE' })).status).toBe(204);
    for (const name of all.nodes.keys()) {
      const status = async () => (await get(all.node(name), paths[1] ?? '')).status;
      await expect.poll(status, { timeout: 2_000, interval: 20 }).toBe(404);
    }
  });

  it('answer the read API from a cache, with their own region and status', async () => {
    const list = '/api/v1/renditions';
    const [first, second] = [await get(all.node('sin-a'), list), await get(all.node('sin-a'), list)];
    expect(first.body).toEqual((await get(all.origin, list)).body);
    expect(first.headers.get('cache-status')).toBe('sin1; fwd=uri-miss; stored');
    expect(second.headers.get('cache-status')).toMatch(/^sin1; hit; ttl=\d+$/);
    expect(Number(second.headers.get('age'))).toBeGreaterThanOrEqual(0);
    expect((await get(all.node('sin-a'), list, { 'if-none-match': second.headers.get('etag') ?? '' })).status).toBe(
      304,
    );
    // An event invalidates a response long before its lifetime ends.
    const newest = async () =>
      JSON.parse((await get(all.node('sin-a'), '/api/v1/media?limit=1')).body.toString()).data[0]?.id;
    await newest();
    const id = await all.ingest(png(4));
    await expect.poll(newest, { timeout: 3_000 }).toBe(id);

    expect(JSON.parse((await get(all.node('sin-a'), '/api/v1')).body.toString())).toMatchObject({
      region: 'Singapore',
    });
    const status = async () =>
      Status.parse(JSON.parse((await get(all.node('sin-a'), '/api/v1/status')).body.toString()));
    await expect.poll(async () => (await status()).status, { timeout: 15_000 }).toBe('operational');
    expect((await status()).region).toBe('Singapore');
    expect((await status()).components.map(({ name }) => name)).toEqual(['API', 'Delivery', 'Cache', 'Origin']);
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) {
      expect([path, (await get(all.node('sin-a'), path)).status]).toEqual([path, 200]);
    }
    const figures = (await get(all.node('sin-a'), '/metrics')).body.toString();
    expect(figures).toMatch(/^mds_cache_bytes\{tier="disk"\} [1-9]/m);
    const known = await figuresOf(all.node('sin-a'));
    expect(known).toMatchObject({ mds_edge_origin_up: 1, mds_edge_events_lag_seconds: 0 });
    expect(known['mds_http_requests_total{method="GET",route="/api/v1/renditions",status="200"}']).toBeGreaterThan(1);
    expect(known['mds_edge_reads_total{cache="hit"}']).toBeGreaterThan(0);
    // Those of the previous test, and what it deleted.
    expect(known.mds_edge_purges_total).toBeGreaterThanOrEqual(4);
    const unknown = await get(all.node('sin-a'), '/api/v1/nothing');
    expect([unknown.status, JSON.parse(unknown.body.toString()).instance]).toEqual([404, '/api/v1/nothing']);
    const elsewhere = await get(all.node('sin-a'), '/control/v1/media', { authorization: `Bearer ${TOKEN}` });
    expect([elsewhere.status, elsewhere.body.toString()]).toEqual([
      421,
      expect.stringContaining(`${all.origin.url}/control/v1`),
    ]);
    expect(elsewhere.body.toString()).not.toContain(TOKEN);
    expect((await get(all.node('sin-a'), '/control/v1/media')).body.toString()).not.toContain(all.origin.url);
  });

  it('refuse misses at once while the origin is down, and report deliveries later', async () => {
    const path = `/media/${await all.ingest(png(5))}/thumb.webp`;
    const unseen = `/media/${await all.ingest(png(6))}/thumb.webp`;
    for (const wanted of [path, '/api/v1/media', '/api/v1/renditions']) await get(all.node('ams'), wanted);
    await get(all.node('sin-a'), path);
    for (const region of ['ams1', 'sin1']) {
      await expect.poll(() => all.assets(region), { timeout: 5_000 }).toMatchObject({ [path]: 'MISS' });
    }
    const { port } = new URL(all.origin.url);
    await all.end(all.origin, 'SIGKILL');
    for (let n = 0; n < 5; n++) {
      const held = [await get(all.node('ams'), path), await get(all.node('ams'), '/api/v1/media')];
      expect(held.map(({ status }) => status)).toEqual([200, 200]);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const began = performance.now();
    const absent = await get(all.node('ams'), unseen);
    expect(performance.now() - began).toBeLessThan(3_000);
    expect([absent.status, absent.headers.get('retry-after')]).toEqual([503, '5']);
    expect(JSON.parse(absent.body.toString())).toMatchObject({ code: 'unavailable' });
    expect((await get(all.node('ams'), '/readyz')).status).toBe(200);
    expect((await get(all.node('ams'), `${path.slice(0, path.lastIndexOf('/'))}/manifest.json`)).status).toBe(503);
    expect((await get(all.node('sin-a'), path)).cache).toBe('HIT');
    // Stopped before it could report its deliveries. The other one continues.
    expect(await all.end(all.node('ams'), 'SIGTERM')).toEqual({ code: 0, signal: null });

    await all.startOrigin(port);
    await all.startEdge('ams', 'ams1');
    for (const region of ['ams1', 'sin1']) {
      await expect.poll(() => all.assets(region), { timeout: 10_000 }).toMatchObject({ [path]: 'HIT' });
    }
    expect((await get(all.node('ams'), unseen)).cache).toBe('MISS');
    // A purge reaches nodes that started before the origin.
    await expect
      .poll(async () => PurgeResult.parse(await all.sendJson('POST', '/cache/purge', { path })).complete, {
        timeout: 20_000,
      })
      .toBe(true);
    expect((await get(all.node('sin-b'), unseen)).cache).toBe('MISS');
  });

  it('are reported down within 20 s, and up with their next report', async () => {
    const statusOf = (name: string) => async () => {
      const { components } = Status.parse(await (await fetch(`${all.origin.url}/api/v1/status`)).json());
      return components.find((component) => component.name === `Region ${name}`)?.status;
    };
    const shownAfterMs = async (since: number, expected: { ams1: string; sin1: string }) => {
      const options = { interval: 100, timeout: 40_000 };
      const passed = () => performance.now() - since;
      return Promise.all([
        expect
          .poll(all.states, options)
          .toEqual({ ...expected, fra1: 'operational' })
          .then(passed),
        expect.poll(statusOf('Amsterdam'), options).toBe(expected.ams1).then(passed),
        expect.poll(statusOf('Singapore'), options).toBe(expected.sin1).then(passed),
      ]);
    };
    await shownAfterMs(performance.now(), { ams1: 'operational', sin1: 'operational' });
    // They die right after a report, which is the longest time before the third missing one: deliveries are reported at once.
    const path = `/media/${await all.ingest(png(7))}/thumb.webp`;
    await Promise.all([get(all.node('ams'), path), get(all.node('sin-b'), path)]);
    for (const region of ['ams1', 'sin1']) {
      await expect.poll(() => all.assets(region), { interval: 20, timeout: 5_000 }).toHaveProperty([path]);
    }
    const died = performance.now();
    await Promise.all([all.end(all.node('ams'), 'SIGKILL'), all.end(all.node('sin-b'), 'SIGKILL')]);
    const missedAfterMs = await shownAfterMs(died, { ams1: 'major_outage', sin1: 'partial_outage' });
    // 16 to 18 s with the present intervals; checks every 5 s would take 20 to 25 s.
    expect(Math.max(...missedAfterMs)).toBeLessThanOrEqual(20_000);
    // One late report is not enough, either.
    expect(Math.min(...missedAfterMs)).toBeGreaterThan(10_000);
    const result = PurgeResult.parse(await all.sendJson('POST', '/cache/purge?wait=0', { everything: true }));
    expect(result.receipts).toContainEqual({ region: 'ams1', node: expect.any(String), state: 'silent' });

    await all.sendJson('PUT', '/regions/ams1', { maintenance: true });
    expect(await all.states()).toMatchObject({ ams1: 'under_maintenance' });
    await all.sendJson('PUT', '/regions/ams1', { maintenance: false });
    expect(await all.states()).toMatchObject({ ams1: 'major_outage' });

    await Promise.all([all.startEdge('ams', 'ams1'), all.startEdge('sin-b', 'sin1')]);
    const backAfterMs = await shownAfterMs(performance.now(), { ams1: 'operational', sin1: 'operational' });
    expect(Math.max(...backAfterMs)).toBeLessThan(10_000);
    const detail = RegionDetail.parse(await (await all.control('/regions/sin1')).json());
    expect(detail.nodes.map(({ alive }) => alive)).toEqual([true, true]);
    // A node that shuts down leaves no outage.
    await all.end(all.node('sin-b'), 'SIGTERM');
    expect(RegionDetail.parse(await (await all.control('/regions/sin1')).json()).nodes).toHaveLength(1);
  });
});
