import type { RegionDetail } from '@mds/contract';
import { expect, it } from 'vitest';
import { ConflictError, createClient, InvalidRequestError, MissingTokenError, NotFoundError } from '../src/index.ts';
import { readBody, rejection, sendJson, sendProblem, startServer } from './http-server.ts';

const fra1: RegionDetail = {
  code: 'fra1',
  name: 'Frankfurt',
  zone: 'europe-central',
  country: 'DE',
  status: 'operational',
  maintenance: false,
  nodes: [{ id: 'edge-7:4f1c9a02', alive: true, last_seen_at: '2026-01-31T08:15:00Z' }],
};

it('reads all regions or one, with the nodes that serve them', async () => {
  await using server = await startServer((request, response) =>
    sendJson(response, 200, request.url?.endsWith('fra1') ? fra1 : { object: 'list', data: [fra1] }),
  );
  const { control } = createClient({ baseUrl: server.url, token: 'secret' });
  expect(await control.regions.list()).toEqual({ object: 'list', data: [fra1] });
  expect((await control.regions.get('fra1')).nodes[0]?.alive).toBe(true);
  expect(server.requests).toEqual(['GET /control/v1/regions', 'GET /control/v1/regions/fra1']);
  expect(server.headers.map(({ authorization }) => authorization)).toEqual(['Bearer secret', 'Bearer secret']);
});

it('writes only the given fields of a region, and reports whether it is new', async () => {
  const bodies: unknown[] = [];
  await using server = await startServer(async (request, response, n) => {
    bodies.push(JSON.parse((await readBody(request)).toString()));
    sendJson(response, n === 1 ? 201 : 200, { ...fra1, maintenance: n > 1 });
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await control.regions.put('fra1')).toEqual({ region: fra1, created: true });
  const changed = await control.regions.put('fra1', { maintenance: true });
  expect([changed.created, changed.region.maintenance]).toEqual([false, true]);
  expect(bodies).toEqual([{}, { maintenance: true }]);
  expect(server.requests).toEqual(['PUT /control/v1/regions/fra1', 'PUT /control/v1/regions/fra1']);
  expect(server.headers[0]?.['content-type']).toBe('application/json');
});

it('writes a region again with its body if the answer was lost', async () => {
  const bodies: string[] = [];
  await using server = await startServer(async (request, response, n) => {
    bodies.push((await readBody(request)).toString());
    if (n === 1) request.socket.destroy();
    else sendJson(response, 200, fra1);
  });
  await createClient({ baseUrl: server.url, token: 't' }).control.regions.put('fra1', { name: 'Frankfurt' });
  expect(bodies).toEqual(['{"name":"Frankfurt"}', '{"name":"Frankfurt"}']);
});

it('forgets a region: 409 if it is still served, 404 if it is unknown', async () => {
  await using server = await startServer((request, response) => {
    if (request.url?.endsWith('ams1')) response.writeHead(204).end();
    else if (request.url?.endsWith('fra1')) sendProblem(response, 409, 'region_in_use');
    else sendProblem(response, 404, 'region_not_found');
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await control.regions.delete('ams1')).toBeUndefined();
  expect(await rejection(control.regions.delete('fra1'))).toBeInstanceOf(ConflictError);
  expect(await rejection(control.regions.delete('nowhere1'))).toBeInstanceOf(NotFoundError);
});

it("a second attempt's 404 counts as done if it is the service's, not a proxy's", async () => {
  await using server = await startServer((request, response, n) => {
    if (n % 2 === 1) request.socket.destroy();
    else if (n === 2) sendProblem(response, 404, 'region_not_found');
    else response.writeHead(404, { 'content-type': 'text/html' }).end('<title>Nothing here</title>');
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await control.regions.delete('ams1');
  expect(await rejection(control.regions.delete('ams1'))).toBeInstanceOf(NotFoundError);
});

it('forgets a node whatever its name contains; a live node is a conflict', async () => {
  await using server = await startServer((request, response, n) => {
    if (request.url?.endsWith('alive')) sendProblem(response, 409, 'node_alive');
    else if (n === 1) request.socket.destroy();
    else sendProblem(response, 404, 'node_not_found');
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  // The node is gone at the second attempt, because the first one succeeded.
  await control.regions.forgetNode('vm/7:4f1c%41');
  expect(server.requests).toEqual(Array(2).fill('DELETE /control/v1/nodes/vm%2F7%3A4f1c%2541'));
  expect(await rejection(control.regions.forgetNode('gone'))).toBeInstanceOf(NotFoundError);
  expect(await rejection(control.regions.forgetNode('alive'))).toBeInstanceOf(ConflictError);
});

it('a refused region names the input; a code that changes the path is never sent', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 400, 'invalid_request'));
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await rejection(control.regions.put('xyz1'))).toBeInstanceOf(InvalidRequestError);
  await rejection(control.regions.get('..'));
  await rejection(control.regions.delete('a/../../media'));
  expect(server.requests).toEqual(['PUT /control/v1/regions/xyz1', 'DELETE /control/v1/regions/a%2F..%2F..%2Fmedia']);
});

it('a region call without a token sends nothing', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, fra1));
  const { control } = createClient({ baseUrl: server.url });
  for (const call of [control.regions.list(), control.regions.put('fra1'), control.regions.delete('fra1')]) {
    expect(await rejection(call)).toBeInstanceOf(MissingTokenError);
  }
  expect(server.requests).toEqual([]);
});
