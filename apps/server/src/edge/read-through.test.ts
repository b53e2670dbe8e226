import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseRaw, rawRequest } from '../../test/support/raw-request.ts';
import { AppError } from '../base/app-error.ts';
import { resolveRegion } from '../regions/region-setting.ts';
import { createReadThrough, mountReadThrough, type ReadThrough } from './read-through.ts';
import { type ScriptedOrigin, startScriptedOrigin } from './scripted-origin.fixture.ts';

let origin: ScriptedOrigin;
let readThrough: ReadThrough;
let server: Server;
let url: string;
let now: number;

beforeEach(async () => {
  origin = await startScriptedOrigin();
  now = 1_000;
  readThrough = createReadThrough({
    origin: origin.connection,
    region: resolveRegion('sin1'),
    monotonicNow: () => now,
  });
  const app = express();
  mountReadThrough(app, readThrough);
  app.use((error: unknown, _req: express.Request, res: express.Response, _next: express.NextFunction) => {
    res.status(error instanceof AppError ? error.status : 500).end();
  });
  server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await origin.stop();
});

const KEPT_JSON = { 'content-type': 'application/json', 'cache-control': 'public, max-age=60' };
const documentOf = (content: string) => JSON.stringify({ said: content });
const answerWith = (content: string, headers: Record<string, string> = {}) => {
  const body = documentOf(content);
  origin.answer = (req, res) => {
    const all = {
      'content-type': 'application/json',
      'cache-control': 'public, max-age=60',
      etag: `"${content}"`,
      ...headers,
    };
    if (req.headers['if-none-match'] === all.etag) res.writeHead(304, all).end();
    else res.writeHead(200, all).end(body);
  };
};
/** The content of an answer of {@link answerWith}, or the whole body of any other. */
const contentIn = (body: string): string => {
  try {
    return (JSON.parse(body) as { said?: string }).said ?? body;
  } catch {
    return body;
  }
};
const get = async (path: string, init: RequestInit = {}) => {
  const answer = await fetch(url + path, init);
  const header = (name: string) => answer.headers.get(name);
  const body = contentIn(await answer.text());
  return { status: answer.status, body, course: header('cache-status'), age: header('age') };
};

const answers = (status: number, type: string, body: string) => {
  origin.answer = (_req, res) => void res.writeHead(status, { 'content-type': type }).end(body);
};
const refuses = (status: number, code: string, instance?: string) => {
  origin.answer = (req, res) => {
    const problem = { type: `/problems/${code}`, title: 'x', detail: 'because', request_id: 'r', status, code };
    const at = instance ?? req.url?.replace(/\?.*/, '');
    res
      .writeHead(status, { 'content-type': 'application/problem+json', 'cache-control': 'no-store' })
      .end(JSON.stringify({ ...problem, instance: at }));
  };
};

const getAt = async (host: string, path: string) => {
  const { port } = server.address() as AddressInfo;
  return contentIn(
    parseRaw(
      await rawRequest(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`),
    ).body.toString(),
  );
};

describe('read-API answers at a point of presence', () => {
  it('are cached by their Cache-Control, with Age, and then revalidated by ETag', async () => {
    answerWith('1', { age: '10' });
    expect(await get('/api/v1/media')).toEqual({
      status: 200,
      body: '1',
      course: 'sin1; fwd=uri-miss; stored',
      age: '10',
    });
    now += 20_000;
    expect(await get('/api/v1/media')).toEqual({ status: 200, body: '1', course: 'sin1; hit; ttl=30', age: '30' });
    now += 30_001;
    answerWith('1');
    expect(await get('/api/v1/media')).toEqual({ status: 200, body: '1', course: 'sin1; fwd=stale; stored', age: '0' });
    expect(origin.asked).toHaveLength(2);
    now += 60_001;
    answerWith('2');
    expect((await get('/api/v1/media')).body).toBe('2');
    expect((await get('/api/v1/media', { method: 'HEAD' })).body).toBe('');
    expect((await get('/api/v1/media', { headers: { 'if-none-match': '"2"' } })).status).toBe(304);
  });

  it('are cached separately for each host and query', async () => {
    origin.answer = (req, res) => {
      res.writeHead(200, KEPT_JSON).end(documentOf(`${req.headers.host} ${req.url}`));
    };
    for (let n = 0; n < 2; n++) {
      expect(await getAt('a.test', '/api/v1/media')).toBe('a.test /api/v1/media');
      expect(await getAt('b.test', '/api/v1/media')).toBe('b.test /api/v1/media');
      expect(await getAt('b.test', '/api/v1/media?limit=1')).toBe('b.test /api/v1/media?limit=1');
    }
    expect(origin.asked).toHaveLength(3);
  });

  it.each(['no-store', 'private, max-age=60', 'public', ''])(
    'are not cached with Cache-Control: %s',
    async (cacheControl) => {
      answerWith('1', { 'cache-control': cacheControl });
      await get('/api/v1/media');
      expect(await get('/api/v1/media')).toMatchObject({ status: 200, course: 'sin1; fwd=uri-miss' });
      expect(origin.asked).toHaveLength(2);
    },
  );

  it('are served while the origin is down, unless it forbade that', async () => {
    answerWith('1');
    await get('/api/v1/media');
    answerWith('1', { 'cache-control': 'public, max-age=60, must-revalidate' });
    await get('/api/v1/formats');
    await origin.goDown();
    now += 90_000;
    expect(await get('/api/v1/media')).toEqual({ status: 200, body: '1', course: 'sin1; hit; ttl=-30', age: '90' });
    expect((await get('/api/v1/formats')).status).toBe(503);
    expect((await get('/api/v1/regions')).status).toBe(503);
    now += 86_400_000;
    expect((await get('/api/v1/media')).status).toBe(503);
  });

  it('are revalidated after an event, including answers in progress', async () => {
    answerWith('1');
    await get('/api/v1/media?limit=1');
    await get('/api/v1/formats');
    readThrough.outdate('/api/v1/media');
    answerWith('2');
    expect((await get('/api/v1/media?limit=1')).body).toBe('2');
    expect((await get('/api/v1/formats')).body).toBe('1');
    let end: (() => void) | undefined;
    origin.answer = (_req, res) => {
      end = () => void res.writeHead(200, KEPT_JSON).end(documentOf('old'));
    };
    const early = get('/api/v1/media');
    await expect.poll(() => end).toBeDefined();
    readThrough.outdate('/api/v1/media');
    end?.();
    expect((await early).body).toBe('old');
    answerWith('new');
    expect((await get('/api/v1/media')).body).toBe('new');
  });

  it('include refusals by the origin, and are only for reads', async () => {
    refuses(400, 'invalid_request');
    const refused = await get('/api/v1/media?limit=x');
    expect([refused.status, JSON.parse(refused.body)]).toMatchObject([400, { code: 'invalid_request' }]);
    expect((await get('/api/v1/media', { method: 'POST' })).status).toBe(405);
    expect(origin.asked).toHaveLength(1);
  });

  it('ignore unknown query parameters, without another request to the origin', async () => {
    answerWith('1');
    for (let n = 0; n < 20; n += 1) {
      expect((await get(`/api/v1/media?n=${n}&limit=5`)).body).toBe('1');
      expect((await get(`/api/v1/renditions?limit=${n}`)).body).toBe('1');
    }
    await get('/api/v1/media?cursor=a%20b%26&limit=5');
    await get('/api/v1/media?limit=5&cursor=a+b%26');
    // The parameter is ambiguous, so the origin decides, and refuses it.
    await get('/api/v1/media?limit=5&limit=6');
    expect(origin.asked).toEqual([
      '/api/v1/media?limit=5',
      '/api/v1/renditions',
      '/api/v1/media?limit=5&cursor=a+b%26',
      '/api/v1/media?limit=5&limit=6',
    ]);
  });

  it('are 404 without a request to the origin if the contract has no such path', async () => {
    for (const path of ['/api/v1/nope', '/api/v1/media/med_1', '/api/v2/media', '/api']) {
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    }
    expect(origin.asked).toEqual([]);
  });

  it('are refused with 504 for only-if-cached without a cached answer', async () => {
    answerWith('1');
    const onlyHeld = { headers: { 'cache-control': 'max-stale=5, only-if-cached' } };
    expect((await get('/api/v1/media', onlyHeld)).status).toBe(504);
    await get('/api/v1/media');
    expect(await get('/api/v1/media', onlyHeld)).toMatchObject({ status: 200, course: 'sin1; hit; ttl=60' });
    now += 60_000;
    expect((await get('/api/v1/media', onlyHeld)).status).toBe(504);
    expect(origin.asked).toHaveLength(1);
  });

  it.each<[string, () => void]>([
    ['a page of another program', () => answers(404, 'text/html', '<h1>Not found</h1>')],
    ['a page for every path', () => answers(200, 'text/html', '<!doctype html>')],
    ['an incomplete document', () => answers(200, 'application/json', '{"data":[')],
    ['a redirection', () => answers(301, 'text/html', '')],
    ['a 304 to an unconditional request', () => answers(304, 'text/html', '')],
    ['a service at another path', () => refuses(404, 'not_found', '/api/v1/api/v1/media')],
  ])('never come from another program at the address of the origin: %s', async (_what, stranger) => {
    answerWith('1', { etag: '' });
    await get('/api/v1/media?limit=1');
    stranger();
    expect((await get('/api/v1/media')).status).toBe(503);
    now += 61_000;
    expect(await get('/api/v1/media?limit=1')).toMatchObject({ status: 200, body: '1', course: 'sin1; hit; ttl=-1' });
    expect(readThrough.stats).toEqual({ hits: 0, misses: 1, stale: 1, unavailable: 1 });
  });

  it('are served while the origin is overloaded', async () => {
    answerWith('1');
    await get('/api/v1/media');
    refuses(503, 'overloaded');
    now += 61_000;
    for (let n = 0; n < 2; n += 1) {
      expect(await get('/api/v1/media')).toMatchObject({ status: 200, body: '1', course: 'sin1; hit; ttl=-1' });
    }
    expect(JSON.parse((await get('/api/v1/formats')).body)).toMatchObject({ status: 503, code: 'overloaded' });
  });
});
