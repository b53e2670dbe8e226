import { Problem, PurgeResult, RegionDetail, RegionDetailList } from '@mds/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { report, send } from './requests.fixture.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const publicCodes = async () => {
  const { data } = (await (await app.get('/api/v1/regions')).json()) as { data: { code: string; status: string }[] };
  return Object.fromEntries(data.map(({ code, status }) => [code, status]));
};

describe('regions', () => {
  it('are added by code or description, and listed publicly once a node serves them', async () => {
    const added = await send(app, 'PUT', '/regions/sin1', {});
    expect([added.status, added.headers.get('location')]).toEqual([201, '/control/v1/regions/sin1']);
    expect(RegionDetail.parse(await added.json())).toMatchObject({ name: 'Singapore', status: null, nodes: [] });
    const hamburg = { name: 'Hamburg', zone: 'europe-north', country: 'DE' };
    expect((await send(app, 'PUT', '/regions/ham1', hamburg)).status).toBe(201);
    expect((await send(app, 'PUT', '/regions/ham1', { name: 'Hansestadt' })).status).toBe(200);
    expect(await (await app.control('/regions/ham1')).json()).toMatchObject({ ...hamburg, name: 'Hansestadt' });
    const all = RegionDetailList.parse(await (await app.control('/regions', { token: TOKENS.ingest })).json());
    expect(all.data.map(({ code }) => code)).toEqual(['fra1', 'ham1', 'sin1']);
    expect(all.data[0]?.nodes).toMatchObject([{ id: 'test', alive: true }]);
    expect(await publicCodes()).toEqual({ fra1: 'operational' });
  });

  it('outside the catalogue must be described; each missing field is named', async () => {
    const refused = await send(app, 'PUT', '/regions/ham1', { name: 'Hamburg' });
    const problem = Problem.parse(await refused.json());
    expect([problem.code, problem.errors?.map(({ path }) => path)]).toEqual(['invalid_request', ['zone', 'country']]);
    const wrong = Problem.parse(await (await send(app, 'PUT', '/regions/ham1', { country: 'Germany' })).json());
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

  it('return to the values of the catalogue if set to null', async () => {
    await send(app, 'PUT', '/regions/sin1', { name: 'Lion City', zone: 'asia-south' });
    const back = await send(app, 'PUT', '/regions/sin1', { name: null });
    expect([back.status, await back.json()]).toMatchObject([200, { name: 'Singapore', zone: 'asia-south' }]);
    await send(app, 'PUT', '/regions/ham1', { name: 'Hamburg', zone: 'europe-north', country: 'DE' });
    const problem = Problem.parse(await (await send(app, 'PUT', '/regions/ham1', { name: null, zone: null })).json());
    expect(problem.errors?.map(({ path }) => path)).toEqual(['name', 'zone']);
    expect(await (await app.control('/regions/ham1')).json()).toMatchObject({ name: 'Hamburg' });
  });

  it('show maintenance at once in the public list and the status, and leave it again', async () => {
    await send(app, 'PUT', '/regions/fra1', { maintenance: true });
    expect(await publicCodes()).toEqual({ fra1: 'under_maintenance' });
    const status = async () => (await (await app.get('/api/v1/status')).json()) as { components: unknown[] };
    expect((await status()).components).toContainEqual({ name: 'Region Frankfurt', status: 'under_maintenance' });
    await send(app, 'PUT', '/regions/fra1', { maintenance: false });
    expect(await publicCodes()).toEqual({ fra1: 'operational' });
    expect((await status()).components).toContainEqual({ name: 'Region Frankfurt', status: 'operational' });
  });

  it('are removed with their records only if no node serves them', async () => {
    expect((await send(app, 'DELETE', '/regions/fra1')).status).toBe(409);
    expect((await send(app, 'DELETE', '/regions/sin1')).status).toBe(404);
    await report(app, 'sin1', { deliveries: [{ path: '/media/x/y.webp', bytes: 5, cache_status: 'MISS', at_ms: 1 }] });
    expect((await send(app, 'DELETE', '/regions/sin1')).status).toBe(409);
    await report(app, 'sin1', { leaving: true });
    expect((await send(app, 'DELETE', '/regions/sin1')).status).toBe(204);
    expect(await (await app.get('/api/v1/assets?region=sin1')).json()).toEqual({ object: 'list', data: [] });
  });

  it('belong to the deployment: operators of one project cannot change them', async () => {
    expect((await send(app, 'PUT', '/regions/sin1', {}, TOKENS.other)).status).toBe(403);
    expect((await send(app, 'PUT', '/regions/sin1', {}, TOKENS.ingest)).status).toBe(403);
    expect((await send(app, 'DELETE', '/regions/fra1', undefined, TOKENS.other)).status).toBe(403);
    expect((await report(app, 'sin1', {}, TOKENS.other)).status).toBe(403);
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
  it('make a region known and active, and list its deliveries', async () => {
    const delivery = { path: '/media/x/y.webp', bytes: 5, cache_status: 'MISS', at_ms: Date.now() };
    expect((await report(app, 'sin1', { deliveries: [delivery] })).status).toBe(200);
    const again = await report(app, 'sin1', { deliveries: [{ ...delivery, cache_status: 'HIT' }] });
    expect(await again.json()).toEqual({ heartbeat_ms: 5_000 });
    const assets = (await (await app.get('/api/v1/assets?region=sin1')).json()) as { data: unknown[] };
    expect(assets.data).toMatchObject([{ path: '/media/x/y.webp', bytes: 5, cache_status: 'HIT' }]);
    await expect.poll(publicCodes, { timeout: 5_000 }).toMatchObject({ sin1: 'operational' });
  });

  it('move a node to its new region, and keep what an operator wrote', async () => {
    await send(app, 'PUT', '/regions/sin1', { name: 'Lion City' });
    await report(app, 'sin1');
    await report(app, 'hkg1', { name: 'Hong Kong', zone: 'asia-east', country: 'HK' });
    const nodes = async (code: string) => RegionDetail.parse(await (await app.control(`/regions/${code}`)).json());
    expect(await nodes('sin1')).toMatchObject({ name: 'Lion City', nodes: [] });
    expect(await nodes('hkg1')).toMatchObject({ name: 'Hong Kong', nodes: [{ id: 'edge-1' }] });
  });

  it('cannot replace the origin, and are refused if they are invalid', async () => {
    expect((await report(app, 'sin1', { node: 'test' })).status).toBe(400);
    expect((await report(app, 'Sin1')).status).toBe(400);
    expect((await report(app, 'sin1', { deliveries: [{ path: 'x' }] })).status).toBe(400);
    expect((await send(app, 'GET', '/edges/sin1/report')).status).toBe(405);
    expect((await send(app, 'POST', '/edges/sin1/object')).status).toBe(405);
  });
});

describe('a node that is gone for good', () => {
  const nodes = async () => (await app.repositories.regions.nodes()).map(({ id }) => id).sort();
  const forget = async (node: string, token?: string) => {
    const answer = await send(app, 'DELETE', `/nodes/${encodeURIComponent(node)}`, undefined, token);
    return [answer.status, answer.status === 204 ? null : Problem.parse(await answer.json()).code];
  };
  const receipts = async () => {
    const result = PurgeResult.parse(
      await (await send(app, 'POST', '/cache/purge?wait=0', { everything: true })).json(),
    );
    return result.receipts.map(({ node, state }) => `${node} ${state}`);
  };

  it('can be forgotten, so that no purge waits for it, and returns with a report', async () => {
    await app.stop();
    app = await startApp({ beats: { intervalMs: 50, checkMs: 20 } });
    const node = 'edge/7:%41';
    await report(app, 'sin1', { node });
    expect(await forget(node)).toEqual([409, 'node_alive']);
    await expect.poll(receipts, { timeout: 5_000 }).toEqual(['test purged', `${node} silent`]);
    expect(await forget(node, TOKENS.other)).toEqual([403, 'forbidden']);
    expect(await forget(node)).toEqual([204, null]);
    expect(await nodes()).toEqual(['test']);
    expect(await receipts()).toEqual(['test purged']);
    await expect.poll(publicCodes, { timeout: 5_000 }).toEqual({ fra1: 'operational' });

    await report(app, 'sin1', { node });
    expect(await nodes()).toEqual([node, 'test']);
    await expect.poll(publicCodes, { timeout: 5_000 }).toHaveProperty('sin1');
  });

  it('answers 404 if it is unknown, and the origin itself is never forgotten', async () => {
    expect(await forget('edge-1')).toEqual([404, 'node_not_found']);
    expect(await forget('test')).toEqual([409, 'node_alive']);
    expect((await send(app, 'GET', '/nodes/test')).status).toBe(405);
  });
});
