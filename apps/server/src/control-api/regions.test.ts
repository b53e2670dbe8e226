import { Problem, PurgeResult, RegionDetail, RegionDetailList } from '@mds/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, mediaId, startApp, TOKENS } from '../../test/app-fixture.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const send = (method: string, path: string, body?: unknown, token?: string) =>
  app.control(path, {
    method,
    ...(token === undefined ? {} : { token }),
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });

const publicCodes = async () => {
  const { data } = (await (await app.get('/api/v1/regions')).json()) as { data: { code: string; status: string }[] };
  return Object.fromEntries(data.map(({ code, status }) => [code, status]));
};

const report = (region: string, changes: object = {}, token?: string) =>
  send(
    'POST',
    `/edges/${region}/report`,
    {
      ...{ node: 'edge-1', name: 'Singapore', zone: 'asia-southeast', country: 'SG' },
      ...{ events_through: null, deliveries: [], leaving: false },
      ...changes,
    },
    token,
  );

describe('regions', () => {
  it('are added by a code of the catalogue, or described, and not listed publicly before somebody serves them', async () => {
    const added = await send('PUT', '/regions/sin1', {});
    expect([added.status, added.headers.get('location')]).toEqual([201, '/control/v1/regions/sin1']);
    expect(RegionDetail.parse(await added.json())).toMatchObject({ name: 'Singapore', status: null, nodes: [] });
    const hamburg = { name: 'Hamburg', zone: 'europe-north', country: 'DE' };
    expect((await send('PUT', '/regions/ham1', hamburg)).status).toBe(201);
    expect((await send('PUT', '/regions/ham1', { name: 'Hansestadt' })).status).toBe(200);
    expect(await (await app.control('/regions/ham1')).json()).toMatchObject({ ...hamburg, name: 'Hansestadt' });
    const all = RegionDetailList.parse(await (await app.control('/regions', { token: TOKENS.ingest })).json());
    expect(all.data.map(({ code }) => code)).toEqual(['fra1', 'ham1', 'sin1']);
    expect(all.data[0]?.nodes).toMatchObject([{ id: 'test', alive: true }]);
    expect(await publicCodes()).toEqual({ fra1: 'operational' });
  });

  it('that are in no catalogue must be described, each missing part named', async () => {
    const refused = await send('PUT', '/regions/ham1', { name: 'Hamburg' });
    const problem = Problem.parse(await refused.json());
    expect([problem.code, problem.errors?.map(({ path }) => path)]).toEqual(['invalid_request', ['zone', 'country']]);
    const wrong = Problem.parse(await (await send('PUT', '/regions/ham1', { country: 'Germany' })).json());
    expect(wrong.errors?.map(({ path }) => path)).toEqual(['country']);
    for (const [body, type, status] of [
      ['{', 'application/json', 400],
      ['{}', 'text/plain', 415],
      [JSON.stringify({ name: 'x'.repeat(5_000_000) }), 'application/json', 413],
    ] as const) {
      const answer = await app.control('/regions/ham1', { method: 'PUT', body, headers: { 'content-type': type } });
      expect([type, answer.status]).toEqual([type, status]);
      Problem.parse(await answer.json());
    }
  });

  it('show maintenance at once, in the public list and in the status document, and leave it again', async () => {
    await send('PUT', '/regions/fra1', { maintenance: true });
    expect(await publicCodes()).toEqual({ fra1: 'under_maintenance' });
    const status = async () => (await (await app.get('/api/v1/status')).json()) as { components: unknown[] };
    expect((await status()).components).toContainEqual({ name: 'Region Frankfurt', status: 'under_maintenance' });
    await send('PUT', '/regions/fra1', { maintenance: false });
    expect(await publicCodes()).toEqual({ fra1: 'operational' });
    expect((await status()).components).toContainEqual({ name: 'Region Frankfurt', status: 'operational' });
  });

  it('go with their records once nobody serves them, and not before', async () => {
    expect((await send('DELETE', '/regions/fra1')).status).toBe(409);
    expect((await send('DELETE', '/regions/sin1')).status).toBe(404);
    await report('sin1', { deliveries: [{ path: '/media/x/y.webp', bytes: 5, cache_status: 'MISS', at_ms: 1 }] });
    expect((await send('DELETE', '/regions/sin1')).status).toBe(409);
    await report('sin1', { leaving: true });
    expect((await send('DELETE', '/regions/sin1')).status).toBe(204);
    expect(await (await app.get('/api/v1/assets?region=sin1')).json()).toEqual({ object: 'list', data: [] });
  });

  it('belong to the deployment: operators of one project cannot change them, nor hear of all projects', async () => {
    expect((await send('PUT', '/regions/sin1', {}, TOKENS.other)).status).toBe(403);
    expect((await send('PUT', '/regions/sin1', {}, TOKENS.ingest)).status).toBe(403);
    expect((await send('DELETE', '/regions/fra1', undefined, TOKENS.other)).status).toBe(403);
    expect((await report('sin1', {}, TOKENS.other)).status).toBe(403);
    for (const path of [
      '/edges/sin1/events',
      '/edges/sin1/object?path=/media/x',
      '/edges/sin1/resource?path=/media/x',
    ]) {
      expect([path, (await app.control(path, { token: TOKENS.other })).status]).toEqual([path, 403]);
    }
  });
});

describe('reports of points of presence', () => {
  it('make a region known and served, and its deliveries listed', async () => {
    const delivery = { path: '/media/x/y.webp', bytes: 5, cache_status: 'MISS', at_ms: Date.now() };
    expect((await report('sin1', { deliveries: [delivery] })).status).toBe(200);
    const again = await report('sin1', { deliveries: [{ ...delivery, cache_status: 'HIT' }] });
    expect(await again.json()).toEqual({ heartbeat_ms: 5_000 });
    const assets = (await (await app.get('/api/v1/assets?region=sin1')).json()) as { data: unknown[] };
    expect(assets.data).toMatchObject([{ path: '/media/x/y.webp', bytes: 5, cache_status: 'HIT' }]);
    await expect.poll(publicCodes, { timeout: 5_000 }).toMatchObject({ sin1: 'operational' });
  });

  it('move a node that has another region now, and keep what an operator wrote of a region', async () => {
    await send('PUT', '/regions/sin1', { name: 'Lion City' });
    await report('sin1');
    await report('hkg1', { name: 'Hong Kong', zone: 'asia-east', country: 'HK' });
    const nodes = async (code: string) => RegionDetail.parse(await (await app.control(`/regions/${code}`)).json());
    expect(await nodes('sin1')).toMatchObject({ name: 'Lion City', nodes: [] });
    expect(await nodes('hkg1')).toMatchObject({ name: 'Hong Kong', nodes: [{ id: 'edge-1' }] });
  });

  it('cannot take the place of the origin, and are refused where they are not in order', async () => {
    expect((await report('sin1', { node: 'test' })).status).toBe(400);
    expect((await report('Sin1')).status).toBe(400);
    expect((await report('sin1', { deliveries: [{ path: 'x' }] })).status).toBe(400);
    expect((await send('GET', '/edges/sin1/report')).status).toBe(405);
    expect((await send('POST', '/edges/sin1/object')).status).toBe(405);
  });
});

describe('a purge', () => {
  const purge = async (body: object, wait = 0, token?: string) => {
    const answer = await send('POST', `/cache/purge?wait=${wait}`, body, token);
    expect(answer.status).toBe(200);
    return PurgeResult.parse(await answer.json());
  };

  it('reaches this node at once and gives its receipt', async () => {
    const id = await app.addMedia();
    expect(await purge({ media_id: id })).toMatchObject({
      complete: true,
      receipts: [{ region: 'fra1', node: 'test', state: 'purged' }],
    });
    await purge({ path: `/media/${id}/thumb.webp` });
    await purge({ everything: true });
    expect(app.purged).toEqual([{ mediaId: id }, { path: `/media/${id}/thumb.webp` }, 'everything']);
  });

  it('is complete when every node has said so, and says who has not', async () => {
    await report('sin1');
    const pending = await purge({ everything: true });
    expect(pending).toMatchObject({ complete: false });
    expect(pending.receipts).toContainEqual({ region: 'sin1', node: 'edge-1', state: 'pending' });
    const waiting = purge({ everything: true }, 10);
    await expect.poll(() => app.purged.length).toBe(2);
    await report('sin1', { events_through: pending.id });
    await report('sin1', { events_through: String(Number(pending.id) + 1) });
    expect(await waiting).toMatchObject({ complete: true });
  });

  it('is a project’s own where it is of its media, and refused beyond', async () => {
    const mine = await app.addMedia({ projectId: 'other' });
    await purge({ media_id: mine }, 0, TOKENS.other);
    for (const body of [{ everything: true }, { media_id: await app.addMedia() }, { media_id: mediaId() }]) {
      expect((await send('POST', '/cache/purge', body, TOKENS.other)).status).toBe(403);
    }
    for (const body of [
      {},
      { path: '/x' },
      { path: '/media/%2e' },
      { everything: false },
      { everything: true, path: '/media/x' },
    ]) {
      expect([body, (await send('POST', '/cache/purge', body)).status]).toEqual([body, 400]);
    }
    expect(app.purged).toHaveLength(1);
  });
});
