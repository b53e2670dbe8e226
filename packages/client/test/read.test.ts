import { expect, it } from 'vitest';
import { createClient } from '../src/index.ts';
import { rejection, sendJson, startServer } from './http-server.ts';

const STATUS = {
  status: 'operational',
  version: 'v1',
  region: 'Frankfurt',
  components: [],
  updated_at: '2026-01-31T08:15:00Z',
};

it('requests exactly the addresses of the contract, with only the given options', async () => {
  await using server = await startServer((_, response) =>
    sendJson(response, 200, { object: 'list', data: [], next_cursor: null }),
  );
  const client = createClient({ baseUrl: `${server.url}/`, token: 'secret' });
  await client.media.list();
  await client.media.list({ limit: 5, cursor: 'a&b=c' });
  await client.regions.list();
  await client.assets.list({ region: 'fra1' });
  await client.formats.list();
  await client.renditions.list();
  await client.index();
  await client.status();
  expect(server.requests).toEqual([
    'GET /api/v1/media',
    'GET /api/v1/media?limit=5&cursor=a%26b%3Dc',
    'GET /api/v1/regions',
    'GET /api/v1/assets?region=fra1',
    'GET /api/v1/formats',
    'GET /api/v1/renditions',
    'GET /api/v1',
    'GET /api/v1/status',
  ]);
  expect(server.headers.map((headers) => headers.authorization)).toEqual(server.requests.map(() => undefined));
});

it('unknown fields and values of a newer service pass, so upgrades break no client', async () => {
  const newer = {
    ...STATUS,
    status: 'entangled',
    components: [{ name: 'API', status: 'napping', since: 7 }],
    extra: true,
  };
  await using server = await startServer((_, response) => sendJson(response, 200, newer));
  await expect(createClient({ baseUrl: server.url }).status()).resolves.toEqual(newer);
});

it('keeps the path of a base address, as needed behind a proxy', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, STATUS));
  await createClient({ baseUrl: `${server.url}/mds/` }).status();
  expect(server.requests).toEqual(['GET /mds/api/v1/status']);
});

it('uses the given fetch', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, STATUS));
  const seen: string[] = [];
  const client = createClient({
    baseUrl: server.url,
    userAgent: 'shop/1.0',
    fetch: (url, init) => {
      seen.push(url);
      return fetch(url, init);
    },
  });
  await client.status();
  expect(seen).toEqual([`${server.url}/api/v1/status`]);
  expect(server.headers[0]?.['user-agent']).toBe('shop/1.0');
});

it.each([
  ['', /not an address/],
  ['localhost:8080', /http:\/\/ or https:\/\//],
  ['ftp://example.com', /http:\/\/ or https:\/\//],
  ['http://example.com?x=1', /query/],
  ['http://user:hunter2@example.com', /user name or a password/],
])('refuses the base address %j before anything is sent', (baseUrl, message) => {
  expect(() => createClient({ baseUrl })).toThrow(message);
});

it('never shows a secret in a message', async () => {
  for (const make of [
    () => createClient({ baseUrl: 'http://user:hunter2@example.com' }),
    () => createClient({ baseUrl: 'http://127.0.0.1', token: 'hunter2\r\nX-Evil: 1' }),
    () => createClient({ baseUrl: 'http://127.0.0.1' }).download('http://user:hunter2@example.com/x'),
  ]) {
    const error = await rejection((async () => make())());
    expect(String(error)).toMatch(/ConfigurationError/);
    expect(String(error)).not.toContain('hunter2');
  }
});

it('get() reads any path, and sends the token only on request', async () => {
  await using server = await startServer((_, response) => void response.end('pong'));
  const client = createClient({ baseUrl: server.url, token: 'secret' });
  expect(await (await client.get('/healthz')).text()).toBe('pong');
  await (await client.get('/control/v1/media', { authorize: true })).text();
  expect(server.headers.map((headers) => headers.authorization)).toEqual([undefined, 'Bearer secret']);
  await expect(client.get('healthz')).rejects.toThrow(/begins with a slash/);
});

it('download() takes an address or a path, sends no token and passes a range on', async () => {
  await using server = await startServer((_, response) => {
    response.writeHead(206, { 'content-range': 'bytes 0-3/10' }).end('webp');
  });
  const client = createClient({ baseUrl: server.url, token: 'secret' });
  for (const target of ['/media/x/thumb.webp', `${server.url}/media/x/thumb.webp`]) {
    const response = await client.download(target, { headers: { range: 'bytes=0-3' } });
    expect([response.status, await response.text()]).toEqual([206, 'webp']);
  }
  expect(server.requests).toEqual(['GET /media/x/thumb.webp', 'GET /media/x/thumb.webp']);
  expect(server.headers.map(({ range, authorization }) => [range, authorization])).toEqual([
    ['bytes=0-3', undefined],
    ['bytes=0-3', undefined],
  ]);
});
