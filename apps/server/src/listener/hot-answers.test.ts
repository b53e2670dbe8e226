import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp } from '../../test/support/app-fixture.ts';
import { parseRaw, rawRequest } from '../../test/support/raw-request.ts';
import { makeAnswer, sendAnswer } from '../http/answer.ts';
import { prepareFields, sinkOf } from '../http/answer-sink.ts';
import { createHotAnswers } from './hot-answers.ts';
import { createRequestFigures } from './request-figures.ts';

let app: AppFixture;
/** URLs that the request listener let through to Express. */
const cold: string[] = [];

beforeAll(async () => {
  app = await startApp({
    aroundApp: (inner) => (req, res) => {
      cold.push(req.url ?? '');
      inner(req, res);
    },
  });
  for (let i = 0; i < 30; i += 1) await app.addMedia();
  await app.repositories.assets.record(
    [{ region: 'fra1', path: '/media/a', bytes: 10, cacheStatus: 'MISS', atMs: 1_800_000_000_000 }],
    100,
  );
});
afterAll(() => app.stop());
/** A write, so that no answer cached before is still valid. */
beforeEach(async () => {
  await app.repositories.projects.put({ id: 'unrelated', name: 'Unrelated', hosts: [] });
  cold.length = 0;
});

interface Whole {
  status: number;
  headers: string[];
  body: string;
}

/** An answer without `Date` and request id, which differ in each answer. */
function ask(path: string, { method = 'GET', headers = {} as Record<string, string> } = {}): Promise<Whole> {
  return new Promise((resolve, reject) => {
    const sent = request(`${app.url}${path}`, { method, headers }, (res) => {
      const pairs: string[] = [];
      for (let i = 0; i < res.rawHeaders.length; i += 2) pairs.push(`${res.rawHeaders[i]}: ${res.rawHeaders[i + 1]}`);
      let body = '';
      res.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      res.on('end', () => {
        expect(pairs.filter((pair) => pair.startsWith('X-Request-Id: '))).toHaveLength(1);
        resolve({
          status: res.statusCode ?? 0,
          headers: pairs.filter((pair) => !/^(?:Date|X-Request-Id): /.test(pair)).sort(),
          body,
        });
      });
    });
    sent.on('error', reject).end();
  });
}

const CACHEABLE = [
  '',
  '/media',
  '/media?limit=7',
  '/regions',
  '/assets',
  '/assets?region=fra1',
  '/formats',
  '/renditions',
];

describe('an answer from memory', () => {
  it.each(CACHEABLE)('is identical to the first one, in all headers: /api/v1%s', async (suffix) => {
    const path = `/api/v1${suffix}`;
    const made = await ask(path);
    expect(made.status).toBe(200);
    expect(made.headers.some((pair) => pair.startsWith('ETag: '))).toBe(true);
    const kept = await ask(path);
    expect(cold).toEqual([path]);
    expect(kept).toEqual(made);
  });

  it.each(CACHEABLE)('is identical to a new one for HEAD and If-None-Match: /api/v1%s', async (suffix) => {
    const path = `/api/v1${suffix}`;
    const etag = (await ask(path)).headers.find((pair) => pair.startsWith('ETag: '))?.slice('ETag: '.length) ?? '';
    const forms = [
      { method: 'HEAD' },
      { headers: { 'If-None-Match': etag } },
      { method: 'HEAD', headers: { 'If-None-Match': `"other", W/${etag}` } },
      { headers: { 'If-None-Match': '"other"' } },
      { headers: { 'If-None-Match': '*' } },
    ];
    cold.length = 0;
    const kept: Whole[] = [];
    for (const form of forms) kept.push(await ask(path, form));
    expect(cold).toEqual([]);
    expect(kept.map(({ status }) => status)).toEqual([200, 304, 304, 200, 304]);
    for (const [index, form] of forms.entries()) {
      // A request with a credential bypasses memory, and reads ignore the credential.
      const made = await ask(path, { ...form, headers: { ...form.headers, Authorization: 'Bearer x' } });
      expect(made).toEqual(kept[index]);
    }
    expect(cold).toHaveLength(forms.length);
  });

  it.each([
    ['made for HEAD', { method: 'HEAD' }],
    ['not sent as the caller had it', { headers: { 'If-None-Match': '*' } }],
  ])('may be one that was %s', async (_how, form) => {
    await ask('/api/v1/media', form);
    expect((await ask('/api/v1/media')).status).toBe(200);
    expect(cold).toEqual(['/api/v1/media']);
  });

  it('has the request id of its caller, never that of another', async () => {
    const id = async (given?: string) =>
      (await app.get('/api/v1/regions', given ? { headers: { 'x-request-id': given } } : {})).headers.get(
        'x-request-id',
      );
    const ids = [await id('one'), await id('two'), await id(), await id()];
    expect(ids.slice(0, 2)).toEqual(['one', 'two']);
    expect(new Set(ids).size).toBe(4);
    expect(ids[3]).toMatch(/^req_[0-9a-f]{32}$/);
    expect(cold).toEqual(['/api/v1/regions']);
  });

  it('is counted like any other', async () => {
    const counted = async () => {
      const text = await (await app.get('/metrics')).text();
      const at = (name: string, labels: string) =>
        Number(
          new RegExp(`^${name}\\{method="GET",route="/api/v1/formats"${labels}\\} (\\d+)`, 'm').exec(text)?.[1] ?? 0,
        );
      return {
        ok: at('mds_http_requests_total', ',status="200"'),
        notModified: at('mds_http_requests_total', ',status="304"'),
        timed: at('mds_http_request_duration_seconds_count', ''),
        all: at('mds_http_request_duration_seconds_bucket', ',le="\\+Inf"'),
      };
    };
    const before = await counted();
    for (let i = 0; i < 5; i += 1) await ask('/api/v1/formats');
    await ask('/api/v1/formats', { headers: { 'If-None-Match': '*' } });
    expect(cold.filter((path) => path.startsWith('/api'))).toEqual(['/api/v1/formats']);
    expect(await counted()).toEqual({
      ok: before.ok + 5,
      notModified: before.notModified + 1,
      timed: before.timed + 6,
      all: before.all + 6,
    });
  });
});

describe('the very next answer shows', () => {
  const ids = async (path = '/api/v1/media?limit=100', headers = {}) => {
    const { data } = JSON.parse((await ask(path, { headers })).body) as { data: { id: string; status: string }[] };
    return data.map(({ id }) => id);
  };

  it('that a media object was added or deleted', async () => {
    const before = await ids();
    expect(await ids()).toEqual(before);
    const added = await app.addMedia();
    expect(await ids()).toEqual([added, ...before]);
    await app.repositories.media.delete(added);
    expect(await ids()).toEqual(before);
  });

  it('that a region is set to maintenance', async () => {
    const state = async () => {
      const { data } = JSON.parse((await ask('/api/v1/regions')).body) as { data: { code: string; status: string }[] };
      return data.find(({ code }) => code === 'fra1')?.status;
    };
    expect([await state(), await state()]).toEqual(['operational', 'operational']);
    const region = await app.repositories.regions.find('fra1');
    if (!region) throw new Error('the fixture has no region');
    await app.repositories.regions.put({ ...region, maintenance: true });
    expect(await state()).toBe('under_maintenance');
    await app.repositories.regions.put(region);
    expect(await state()).toBe('operational');
  });

  it('that an asset was requested', async () => {
    await ask('/api/v1/assets');
    await app.repositories.assets.record(
      [{ region: 'fra1', path: '/media/new', bytes: 10, cacheStatus: 'HIT', atMs: 1_800_000_001_000 }],
      100,
    );
    expect((await ask('/api/v1/assets')).body).toContain('"/media/new"');
  });

  it('a report of a region in the assets, while other answers stay in memory', async () => {
    const paths = ['/api/v1/media', '/api/v1/regions', '/api/v1/assets'];
    for (const path of paths) await ask(path);
    cold.length = 0;
    await app.repositories.assets.record(
      [{ region: 'fra1', path: '/media/newer', bytes: 10, cacheStatus: 'HIT', atMs: 1_800_000_002_000 }],
      100,
    );
    for (const path of paths) await ask(path);
    expect(cold).toEqual(['/api/v1/assets']);
  });

  it('that a host moved to another project', async () => {
    const Host = 'moving.test';
    const own = await app.addMedia({ projectId: 'other' });
    expect(await ids('/api/v1/media', { Host })).not.toContain(own);
    await app.repositories.projects.put({ id: 'other', name: 'Other', hosts: ['other.test', Host] });
    expect(await ids('/api/v1/media', { Host })).toContain(own);
  });
});

describe('memory never answers with', () => {
  it('the answer for another host', async () => {
    await app.addMedia({ projectId: 'other' });
    const list = (Host: string) => ask('/api/v1/media', { headers: { Host } });
    const [mine, theirs] = [await list('a.test'), await list('other.test')];
    expect(mine.body).not.toBe(theirs.body);
    expect([await list('a.test'), await list('other.test')]).toEqual([mine, theirs]);
    expect(cold).toHaveLength(2);
  });

  it.each([
    ['the status, which nobody may keep', '/api/v1/status', {}, 200],
    ['a problem', '/api/v1/media?limit=0', {}, 400],
    ['an answer to a path that is not there', '/api/v1/nowhere', {}, 404],
    ['an answer to a request with a credential', '/api/v1/media', { headers: { Authorization: 'Bearer x' } }, 200],
    ['an answer to a request with Range', '/api/v1/media', { headers: { Range: 'bytes=0-9' } }, 200],
    ['an answer to another method', '/api/v1/media', { method: 'POST' }, 405],
  ])('%s', async (_what, path, form, status) => {
    await ask('/api/v1/media');
    cold.length = 0;
    for (let i = 0; i < 3; i += 1) expect((await ask(path, form)).status).toBe(status);
    expect(cold).toEqual([path, path, path]);
  });

  it('anything older than a second, as answers depend on more than writes', async () => {
    await ask('/api/v1/regions');
    await ask('/api/v1/regions');
    expect(cold).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await ask('/api/v1/regions');
    expect(cold).toHaveLength(2);
  });
});

describe('unusual requests get the same answer as without memory', () => {
  const raw = async (head: string, body = '') => {
    const text = await rawRequest(app.port, `${head}\r\n\r\n${body}`);
    return { ...parseRaw(text), answers: text.match(/HTTP\/1\.1 /g)?.length };
  };
  const PATH = '/api/v1/renditions';

  it('a body of a GET is skipped; Connection: close and HTTP/1.0 end the connection', async () => {
    const { body } = await ask(PATH);
    for (const [head, sent] of [
      [`GET ${PATH} HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\nConnection: close`, ''],
      [`GET ${PATH} HTTP/1.0\r\nHost: 127.0.0.1:${app.port}`, ''],
      [`GET ${PATH} HTTP/1.0`, ''],
      [`GET ${PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3`, 'abc'],
      [`GET ${PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked`, '3\r\nabc\r\n0\r\n\r\n'],
      [`GET ${PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3`, ''],
      [`GET http://x${PATH} HTTP/1.1\r\nHost: y\r\nConnection: close`, ''],
    ] as const) {
      for (let twice = 0; twice < 2; twice += 1) {
        const answer = await raw(head, sent);
        expect([head, answer.status, answer.answers]).toEqual([head, 200, 1]);
        expect([head, answer.headers['connection'], answer.body]).toEqual([head, 'close', body]);
      }
    }
  });

  it.each(['Content-Length: 3', 'Transfer-Encoding: chunked'])(
    'an unfinished body ends the connection and is never read as a request: %s',
    async (framing) => {
      for (let twice = 0; twice < 2; twice += 1) {
        const socket = connect(app.port, '127.0.0.1');
        socket.write(`GET ${PATH} HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`);
        const [head] = (await once(socket.setEncoding('latin1'), 'data')) as [string];
        socket.destroy();
        expect(head).toMatch(/^HTTP\/1\.1 200 /);
        expect(head).toContain('Connection: close\r\n');
        // Now the answer is in memory.
        await raw(`GET ${PATH} HTTP/1.1\r\nHost: x\r\nConnection: close`);
      }
    },
  );

  it('HTTP/1.1 with a missing or invalid Host is refused, even if the answer is cached', async () => {
    const delivering = await startApp({
      delivery: {
        answerFromMemory(_request, sink) {
          sink.send(200, prepareFields(['Content-Length', '0']), [], []);
          return 200;
        },
      },
    });
    try {
      const statusOf = async (port: number, path: string, version: string, host: string) =>
        parseRaw(await rawRequest(port, `GET ${path} HTTP/${version}\r\n${host}Connection: close\r\n\r\n`)).status;
      for (const [port, path] of [
        [app.port, PATH],
        [delivering.port, '/media/any/thumb.webp'],
      ] as const) {
        for (const host of ['Host: a\r\n', 'Host: a.test:8080\r\n', 'Host: [::1]:80\r\n', 'Host:\r\n']) {
          expect(await statusOf(port, path, '1.1', host), `${path} ${host}`).toBe(200);
        }
        expect(await statusOf(port, path, '1.0', ''), path).toBe(200);
        for (const host of ['', 'Host: a b\r\n', 'Host: a/c\r\n', 'Host: a:b\r\n', 'Host: u@a\r\n']) {
          expect(await statusOf(port, path, '1.1', host), `${path} ${host}`).toBe(400);
        }
      }
    } finally {
      await delivering.stop();
    }
  });

  it('pipelined requests are answered in order', async () => {
    const paths = ['/api/v1/renditions', '/api/v1/status', '/api/v1/regions', '/api/v1/renditions'];
    for (const path of paths) await ask(path, { headers: { Host: 'x' } });
    const heads = paths.map((path, index) => {
      const last = index === paths.length - 1 ? 'Connection: close\r\n' : '';
      return `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n${index}\r\n${last}\r\n`;
    });
    const text = await rawRequest(app.port, heads.join(''));
    expect([...text.matchAll(/X-Request-Id: (n\d)/g)].map(([, id]) => id)).toEqual(['n0', 'n1', 'n2', 'n3']);
  });
});

describe('memory', () => {
  it('is bounded for any number of pages, and keeps a page requested often', async () => {
    const bodyBytes = 4_000;
    let made = 0;
    const hot = createHotAnswers({
      versions: app.repositories.versions,
      figuresOf: createRequestFigures().of,
      maxBytes: 300_000,
      maxEntries: 30,
    });
    const server = createServer(async (req, res) => {
      const nowMs = performance.now();
      await hot.refresh(req, nowMs);
      if (hot.answer(req, sinkOf(res), 'id', nowMs)) return;
      made += 1;
      hot.keep(req, res, nowMs);
      Object.assign(req, { route: { path: '/api/v1/media' } });
      const body = Buffer.alloc(req.url?.endsWith('huge') ? 400_000 : bodyBytes, ' ');
      sendAnswer(req, res, makeAnswer({ body, cacheControl: 'public, max-age=60' }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const read = async (query: string) => (await fetch(`http://127.0.0.1:${port}/api/v1/media?${query}`)).arrayBuffer();
    const began = performance.now();
    for (let n = 0; n < 300; n += 1) {
      await read(`n=${n}`);
      await read('often');
    }
    const seconds = Math.ceil((performance.now() - began) / 1000);
    expect(hot.entries).toBe(30);
    expect(hot.bytes).toBeGreaterThan(30 * bodyBytes);
    expect(hot.bytes).toBeLessThanOrEqual(300_000);
    // Each page is made once, and the one requested often once a second.
    expect(made).toBeGreaterThanOrEqual(301);
    expect(made).toBeLessThanOrEqual(301 + seconds);
    await read('huge');
    expect((await read('huge')).byteLength).toBe(400_000);
    expect(hot.bytes).toBeLessThanOrEqual(300_000);
    server.closeAllConnections();
    server.close();
  });
});
