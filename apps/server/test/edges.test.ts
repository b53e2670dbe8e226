import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AssetList, MediaDetail, PurgeResult, RegionDetail, type RegionList, Status } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noisePng, png } from './pictures.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';

const TOKEN = 'a-token-for-points-of-presence';
const PRESETS = [
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  // Of noise: several pieces.
  { name: 'large', container: 'jpeg', width: 1600, height: 1600, quality: 100 },
];

let folder: string;
let origin: ServiceProcess;
const nodes = new Map<string, ServiceProcess>();
const running = new Set<ServiceProcess>();

async function spawned(name: string, env: Record<string, string>): Promise<ServiceProcess> {
  const service = await spawnService({ dataDir: join(folder, name), env: { MDS_CONTROL_TOKEN: TOKEN, ...env } });
  running.add(service);
  return service;
}

/** The origin keeps its port over restarts, as its address does anywhere. */
const startOrigin = async (port = '0') => {
  origin = await spawned('origin', { MDS_PORT: port, MDS_PRESETS: join(folder, 'presets.json') });
};

const startEdge = async (name: string, region: string) => {
  const edge = await spawned(name, { MDS_ROLES: 'edge', MDS_ORIGIN_URL: origin.url, MDS_REGION: region });
  nodes.set(name, edge);
  return edge;
};

const end = async (service: ServiceProcess, signal: NodeJS.Signals) => {
  running.delete(service);
  return service.end(signal);
};

const node = (name: string): ServiceProcess => {
  const found = nodes.get(name);
  if (!found) throw new Error(`there is no node ${name}`);
  return found;
};

const control = (path: string, init: RequestInit = {}) =>
  fetch(`${origin.url}/control/v1${path}`, {
    ...init,
    headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${TOKEN}` },
  });

const sendJson = async (method: string, path: string, body: unknown) => {
  const answer = await control(path, {
    method,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });
  expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 201])]);
  return answer.json();
};

async function ingest(bytes: Buffer<ArrayBuffer>): Promise<string> {
  const answer = await control('/media?filename=a.png', { method: 'POST', body: bytes });
  const { id } = MediaDetail.parse(await answer.json());
  const status = async () => MediaDetail.parse(await (await control(`/media/${id}`)).json()).status;
  await expect.poll(status, { interval: 50, timeout: 60_000 }).toBe('ready');
  return id;
}

/** GETs a path of a node. */
async function get(from: ServiceProcess, path: string, headers: Record<string, string> = {}) {
  const answer = await fetch(from.url + path, { headers });
  const body = Buffer.from(await answer.arrayBuffer());
  return { status: answer.status, body, headers: answer.headers, cache: answer.headers.get('x-cache') };
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

const states = async (): Promise<Record<string, string>> => {
  const { data } = (await (await fetch(`${origin.url}/api/v1/regions`)).json()) as RegionList;
  return Object.fromEntries(data.map(({ code, status }) => [code, status]));
};

const assets = async (region: string): Promise<Record<string, string>> => {
  const { data } = (await (await fetch(`${origin.url}/api/v1/assets?region=${region}&limit=100`)).json()) as AssetList;
  return Object.fromEntries(data.map(({ path, cache_status }) => [path, cache_status]));
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-edges-'));
  await writeFile(join(folder, 'presets.json'), JSON.stringify(PRESETS));
  await mkdir(join(folder, 'origin'), { mode: 0o700 });
  await startOrigin();
  await Promise.all([startEdge('sin-a', 'sin1'), startEdge('sin-b', 'sin1'), startEdge('ams', 'ams1')]);
}, 60_000);

afterAll(async () => {
  await Promise.all([...running].map((service) => end(service, 'SIGKILL')));
  await rm(folder, { recursive: true, force: true });
});

describe('points of presence', () => {
  it('turn misses into hits, each for itself, and the assets list tells of both regions', async () => {
    const id = await ingest(png(1));
    const path = `/media/${id}/thumb.webp`;
    const whole = (await get(origin, path)).body;
    for (const name of ['sin-a', 'ams']) {
      const first = await get(node(name), path);
      const second = await get(node(name), path);
      expect([name, first.status, first.cache, second.cache]).toEqual([name, 200, 'MISS', 'HIT']);
      expect(first.body).toEqual(whole);
      expect(second.headers.get('cache-status')).toMatch(name === 'ams' ? /^ams1; hit/ : /^sin1; hit/);
    }
    expect((await get(node('ams'), path, { 'if-none-match': `"${sha256(whole)}"` })).status).toBe(304);
    const part = await get(node('ams'), path, { range: 'bytes=2-5' });
    expect([part.status, part.body]).toEqual([206, whole.subarray(2, 6)]);
    await expect.poll(() => assets('sin1'), { timeout: 5_000 }).toMatchObject({ [path]: 'HIT' });
    const other = `/media/${id}/large.jpg`;
    await get(node('ams'), other);
    await expect.poll(() => assets('ams1'), { timeout: 5_000 }).toMatchObject({ [path]: 'HIT', [other]: 'MISS' });
    expect(await assets('sin1')).not.toHaveProperty([other]);

    const missing = await get(node('ams'), `/media/${id}/nothing.webp`);
    expect([missing.status, JSON.parse(missing.body.toString())]).toMatchObject([404, { code: 'rendition_not_found' }]);
    const manifest = JSON.parse((await get(node('ams'), `/media/${id}/manifest.json`)).body.toString());
    expect(manifest.renditions[0].url).toMatch(new RegExp(`^${node('ams').url}/media/`));
  });

  it('pass a large object on while they fetch it, and keep it over a restart', async () => {
    const id = await ingest(noisePng('large', 1600, 1600));
    const path = `/media/${id}/large.jpg`;
    const whole = (await get(origin, path)).body;
    expect(whole.length).toBeGreaterThan(3 * 1024 * 1024);
    const [one, two] = await Promise.all([get(node('ams'), path), get(node('ams'), path)]);
    expect([sha256(one.body), sha256(two.body), one.cache]).toEqual([sha256(whole), sha256(whole), 'MISS']);
    const middle = await get(node('sin-b'), path, { range: 'bytes=2000000-2000009' });
    expect([middle.status, middle.body]).toEqual([206, whole.subarray(2_000_000, 2_000_010)]);

    expect(await end(node('ams'), 'SIGTERM')).toEqual({ code: 0, signal: null });
    await startEdge('ams', 'ams1');
    const warm = await get(node('ams'), path);
    expect([sha256(warm.body), warm.cache]).toEqual([sha256(whole), 'HIT']);
  });

  it('fault 18: never serve a byte that was flipped in their cache', async () => {
    const id = await ingest(noisePng('flipped', 1500, 1500));
    const path = `/media/${id}/large.jpg`;
    const whole = (await get(node('ams'), path)).body;
    const cache = join(folder, 'ams', 'cache', id);
    const [file = ''] = await readdir(cache);
    expect(file).toBe(sha256(whole));
    const handle = await open(join(cache, file), 'r+');
    for (const at of [10, 1_500_000, whole.length - 1])
      await handle.write(Buffer.from([~(whole[at] ?? 0) & 0xff]), 0, 1, at);
    await handle.close();
    expect(sha256((await get(node('ams'), path)).body)).toBe(sha256(whole));
  });

  it('drop what is purged, each with a receipt, and what is deleted within moments', async () => {
    const [kept, deleted] = [await ingest(png(2)), await ingest(png(3))];
    const paths = [kept, deleted].map((id) => `/media/${id}/thumb.webp`);
    for (const name of nodes.keys()) for (const path of [...paths, ...paths]) await get(node(name), path);
    for (const scope of [{ media_id: kept }, { path: paths[0] }, { everything: true }]) {
      const result = PurgeResult.parse(await sendJson('POST', '/cache/purge', scope));
      expect(result.complete).toBe(true);
      const purged = result.receipts.map(({ region, state }) => `${region} ${state}`).sort();
      expect(purged).toEqual(['ams1 purged', 'fra1 purged', 'sin1 purged', 'sin1 purged']);
      for (const name of nodes.keys()) {
        const again = [await get(node(name), paths[0] ?? ''), await get(node(name), paths[0] ?? '')];
        expect([name, scope, ...again.map(({ cache }) => cache)]).toEqual([name, scope, 'MISS', 'HIT']);
      }
    }
    expect((await control(`/media/${deleted}`, { method: 'DELETE' })).status).toBe(204);
    for (const name of nodes.keys()) {
      const status = async () => (await get(node(name), paths[1] ?? '')).status;
      await expect.poll(status, { timeout: 2_000, interval: 20 }).toBe(404);
    }
  });

  it('answer the read API out of a cache, and say themselves where and how they are', async () => {
    const list = '/api/v1/renditions';
    const [first, second] = [await get(node('sin-a'), list), await get(node('sin-a'), list)];
    expect(first.body).toEqual((await get(origin, list)).body);
    expect(first.headers.get('cache-status')).toBe('sin1; fwd=uri-miss; stored');
    expect(second.headers.get('cache-status')).toMatch(/^sin1; hit; ttl=\d+$/);
    expect(Number(second.headers.get('age'))).toBeGreaterThanOrEqual(0);
    expect((await get(node('sin-a'), list, { 'if-none-match': second.headers.get('etag') ?? '' })).status).toBe(304);
    // What an event makes old is asked for again, long before its lifetime ends.
    const newest = async () =>
      JSON.parse((await get(node('sin-a'), '/api/v1/media?limit=1')).body.toString()).data[0]?.id;
    await newest();
    const id = await ingest(png(4));
    await expect.poll(newest, { timeout: 3_000 }).toBe(id);

    expect(JSON.parse((await get(node('sin-a'), '/api/v1')).body.toString())).toMatchObject({ region: 'Singapore' });
    const status = async () => Status.parse(JSON.parse((await get(node('sin-a'), '/api/v1/status')).body.toString()));
    await expect.poll(async () => (await status()).status, { timeout: 15_000 }).toBe('operational');
    expect((await status()).region).toBe('Singapore');
    expect((await status()).components.map(({ name }) => name)).toEqual(['API', 'Delivery', 'Cache', 'Origin']);
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) {
      expect([path, (await get(node('sin-a'), path)).status]).toEqual([path, 200]);
    }
    const figures = (await get(node('sin-a'), '/metrics')).body.toString();
    expect(figures).toMatch(/^mds_cache_bytes\{tier="disk"\} [1-9]/m);
    const unknown = await get(node('sin-a'), '/api/v1/nothing');
    expect([unknown.status, JSON.parse(unknown.body.toString()).instance]).toEqual([404, '/api/v1/nothing']);
    const elsewhere = await get(node('sin-a'), '/control/v1/media');
    expect([elsewhere.status, elsewhere.body.toString()]).toEqual([
      421,
      expect.stringContaining(`${origin.url}/control/v1`),
    ]);
    expect(elsewhere.body.toString()).not.toContain(TOKEN);
  });

  it('lose no cached answer and no record of a delivery while the origin is away', async () => {
    const path = `/media/${await ingest(png(5))}/thumb.webp`;
    const unseen = `/media/${await ingest(png(6))}/thumb.webp`;
    for (const wanted of [path, '/api/v1/media', '/api/v1/renditions']) await get(node('ams'), wanted);
    await get(node('sin-a'), path);
    for (const region of ['ams1', 'sin1']) {
      await expect.poll(() => assets(region), { timeout: 5_000 }).toMatchObject({ [path]: 'MISS' });
    }
    const { port } = new URL(origin.url);
    await end(origin, 'SIGKILL');
    for (let n = 0; n < 40; n++) {
      const held = [await get(node('ams'), path), await get(node('ams'), '/api/v1/media')];
      expect(held.map(({ status }) => status)).toEqual([200, 200]);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const began = performance.now();
    const absent = await get(node('ams'), unseen);
    expect(performance.now() - began).toBeLessThan(1_000);
    expect([absent.status, absent.headers.get('retry-after')]).toEqual([503, '5']);
    expect(JSON.parse(absent.body.toString())).toMatchObject({ code: 'unavailable' });
    expect((await get(node('ams'), '/readyz')).status).toBe(200);
    expect((await get(node('ams'), `${path.slice(0, path.lastIndexOf('/'))}/manifest.json`)).status).toBe(503);
    expect((await get(node('sin-a'), path)).cache).toBe('HIT');
    // Stopped before it could tell what it has delivered; the other one goes on.
    expect(await end(node('ams'), 'SIGTERM')).toEqual({ code: 0, signal: null });

    await startOrigin(port);
    await startEdge('ams', 'ams1');
    for (const region of ['ams1', 'sin1']) {
      await expect.poll(() => assets(region), { timeout: 10_000 }).toMatchObject({ [path]: 'HIT' });
    }
    expect((await get(node('ams'), unseen)).cache).toBe('MISS');
    // A purge reaches the nodes that were there before the origin was.
    await expect
      .poll(async () => PurgeResult.parse(await sendJson('POST', '/cache/purge', { path })).complete, {
        timeout: 20_000,
      })
      .toBe(true);
    expect((await get(node('sin-b'), unseen)).cache).toBe('MISS');
  });

  it('are missed within 20 s when they die, and back with their next report; maintenance overrides', async () => {
    await expect
      .poll(states, { timeout: 10_000 })
      .toEqual({ ams1: 'operational', fra1: 'operational', sin1: 'operational' });
    await Promise.all([end(node('ams'), 'SIGKILL'), end(node('sin-b'), 'SIGKILL')]);
    const died = performance.now();
    await expect
      .poll(states, { interval: 250, timeout: 25_000 })
      .toEqual({ ams1: 'major_outage', fra1: 'operational', sin1: 'partial_outage' });
    expect(performance.now() - died).toBeLessThan(20_000);
    const { components } = Status.parse(await (await fetch(`${origin.url}/api/v1/status`)).json());
    expect(components).toContainEqual({ name: 'Region Amsterdam', status: 'major_outage' });
    const result = PurgeResult.parse(await sendJson('POST', '/cache/purge?wait=0', { everything: true }));
    expect(result.receipts).toContainEqual({ region: 'ams1', node: expect.any(String), state: 'silent' });

    await sendJson('PUT', '/regions/ams1', { maintenance: true });
    expect(await states()).toMatchObject({ ams1: 'under_maintenance' });
    await sendJson('PUT', '/regions/ams1', { maintenance: false });
    expect(await states()).toMatchObject({ ams1: 'major_outage' });

    await Promise.all([startEdge('ams', 'ams1'), startEdge('sin-b', 'sin1')]);
    await expect.poll(states, { timeout: 10_000 }).toMatchObject({ ams1: 'operational', sin1: 'operational' });
    const detail = RegionDetail.parse(await (await control('/regions/sin1')).json());
    expect(detail.nodes.map(({ alive }) => alive)).toEqual([true, true]);
    // One that is stopped in good order leaves no outage behind.
    await end(node('sin-b'), 'SIGTERM');
    expect(RegionDetail.parse(await (await control('/regions/sin1')).json()).nodes).toHaveLength(1);
  });
});
