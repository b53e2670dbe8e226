import { Problem } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../test/support/app-fixture.ts';
import { AppError } from './base/app-error.ts';

let app: AppFixture;

beforeAll(async () => {
  app = await startApp({
    delivery: {
      async handle(req, res) {
        if (req.url?.endsWith('/broken.webp')) throw new Error('SELECT secret FROM /var/lib/mds');
        if (req.url?.endsWith('/none.webp')) throw new AppError('rendition_not_found', 'There is no such rendition.');
        res.end(`delivered ${req.url}`);
      },
    },
    read: {
      formats: {
        accepted: async () => {
          throw new Error('at Object.<anonymous> (/srv/mds/db.ts:3:4) SQLITE_BUSY');
        },
      },
    },
  });
});
afterAll(() => app.stop());

async function problemOf(response: Response, status: number, code: string): Promise<Problem> {
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  const problem = Problem.parse(await response.json());
  expect(problem).toMatchObject({ code, status });
  expect(problem.detail.length).toBeGreaterThan(20);
  return problem;
}

describe('request ids', () => {
  it('are taken from a valid X-Request-Id and returned, in errors too', async () => {
    const ok = await app.get('/api/v1', { headers: { 'x-request-id': 'trace-1.A_b' } });
    expect(ok.headers.get('x-request-id')).toBe('trace-1.A_b');
    const bad = await app.get('/nowhere', { headers: { 'x-request-id': 'trace-2' } });
    expect((await problemOf(bad, 404, 'not_found')).request_id).toBe('trace-2');
    expect(app.log.some(({ requestId }) => requestId === 'trace-2')).toBe(true);
  });

  it.each(['has space', 'x'.repeat(65), '{"a":1}', 'ü'])(
    'replace an id that could forge a log line: %j',
    async (id) => {
      const response = await app.get('/api/v1', { headers: { 'x-request-id': Buffer.from(id).toString('latin1') } });
      expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/);
    },
  );
});

describe('conditional requests', () => {
  it.each(['/api/v1', '/api/v1/media', '/api/v1/regions', '/api/v1/assets', '/api/v1/renditions', '/openapi.json'])(
    '%s has a strong ETag, returns 304 for it, and has the same headers for HEAD',
    async (path) => {
      const first = await app.get(path);
      const body = await first.arrayBuffer();
      const etag = first.headers.get('etag') ?? '';
      expect(etag).toMatch(/^"[\w-]+"$/);
      for (const field of [etag, `W/${etag}`, `"a,b", ${etag}`, '*']) {
        const again = await app.get(path, { headers: { 'if-none-match': field } });
        expect([field, again.status, await again.text()]).toEqual([field, 304, '']);
        expect(again.headers.get('etag')).toBe(etag);
        expect(again.headers.get('cache-control')).toBe(first.headers.get('cache-control'));
        expect(again.headers.get('content-type')).toBeNull();
      }
      const other = await app.get(path, { headers: { 'if-none-match': '"other"' } });
      expect(other.status).toBe(200);
      const head = await app.get(path, { method: 'HEAD' });
      expect(head.status).toBe(200);
      expect(await head.text()).toBe('');
      for (const name of ['etag', 'cache-control', 'content-type', 'content-length']) {
        expect([name, head.headers.get(name)]).toEqual([name, first.headers.get(name)]);
      }
      expect(Number(head.headers.get('content-length'))).toBe(body.byteLength);
    },
  );

  it('show a write at once to a client that revalidates', async () => {
    const before = await app.get('/api/v1/media');
    const etag = before.headers.get('etag') ?? '';
    await app.addMedia();
    const after = await app.get('/api/v1/media', { headers: { 'if-none-match': etag } });
    expect(after.status).toBe(200);
    expect(after.headers.get('etag')).not.toBe(etag);
  });

  it('never let a cache keep the status', async () => {
    const response = await app.get('/api/v1/status', { headers: { 'if-none-match': '*' } });
    expect(response.status).toBe(200);
    expect(response.headers.get('etag')).toBeNull();
    expect(response.headers.get('cache-control')).toBe('no-store');
  });
});

describe('methods', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    '%s on a read-only path returns 405 with the allowed methods',
    async (method) => {
      for (const path of ['/api/v1', '/api/v1/media', '/api/v1/status', '/media/x/y.webp']) {
        const response = await app.get(path, { method });
        await problemOf(response, 405, 'method_not_allowed');
        expect(response.headers.get('allow')).toBe('GET, HEAD');
        expect(response.headers.get('cache-control')).toBe('no-store');
      }
    },
  );

  it('are all listed in Allow for a path of the control API', async () => {
    const response = await app.control('/media', { method: 'PATCH' });
    await problemOf(response, 405, 'method_not_allowed');
    expect(response.headers.get('allow')).toBe('GET, HEAD, POST');
  });
});

describe('paths', () => {
  it('match with an extra slash at the end, but not in other spellings', async () => {
    expect((await app.get('/api/v1/')).status).toBe(200);
    expect((await app.get('/api/v1/media/')).status).toBe(200);
    for (const path of ['/API/v1', '/api/V1', '/api/v1//media', '/api/v1/Media', '/api/v1/%6dedia', '/api']) {
      await problemOf(await app.get(path), 404, 'not_found');
    }
  });

  it('of another version return 404 with a pointer to v1', async () => {
    const problem = await problemOf(await app.get('/api/v2/media'), 404, 'not_found');
    expect(problem.detail).toContain('v2');
    expect(problem.detail).toContain('/api/v1');
  });

  it('with broken percent-encoding return 400 everywhere', async () => {
    for (const path of ['/%', '/api/v1/%E0%A4%A', '/media/%zz', '/control/v1/media/%']) {
      await problemOf(await app.get(path), 400, 'invalid_request');
    }
  });

  it('include the type of every problem, which returns its meaning', async () => {
    const { type } = await problemOf(await app.get('/nowhere'), 404, 'not_found');
    const meaning = await app.get(type);
    expect(await meaning.json()).toEqual({ code: 'not_found', status: 404, title: 'Not found' });
  });
});

describe('errors', () => {
  it.each(['/api/v1/formats', '/media/x/broken.webp'])(
    'of unknown causes hide paths, SQL and stacks, which are only logged: %s',
    async (path) => {
      const response = await app.get(path);
      const problem = await problemOf(response, 500, 'internal_error');
      expect(response.headers.get('cache-control')).toBe('no-store');
      expect(JSON.stringify(problem)).not.toMatch(/SELECT|SQLITE|\/srv|\/var|\.ts/);
      const line = app.log.find(({ requestId, err }) => requestId === problem.request_id && err);
      expect(JSON.stringify(line)).toMatch(/SELECT|SQLITE/);
    },
  );

  it('for a missing rendition stay in caches for seconds only', async () => {
    const response = await app.get('/media/x/none.webp');
    await problemOf(response, 404, 'rendition_not_found');
    expect(response.headers.get('cache-control')).toBe('public, max-age=5');
  });
});

describe('every response', () => {
  it('has nosniff, so that browsers do not guess its type', async () => {
    for (const path of [
      '/api/v1',
      '/docs',
      '/docs/assets/start.js',
      '/nowhere',
      '/media/x/none.webp',
      '/healthz',
      '/',
    ]) {
      expect([path, (await app.get(path)).headers.get('x-content-type-options')]).toEqual([path, 'nosniff']);
    }
  });
});

describe('the log', () => {
  it('never contains a token, and leaves probes out', async () => {
    await app.control('/media');
    await app.get('/healthz', { headers: { authorization: `Bearer ${TOKENS.operate}` } });
    await app.get('/control/v1/media', { headers: { authorization: 'Bearer wrong-but-secret' } });
    const text = JSON.stringify(app.log);
    expect(text).toContain('/control/v1/media');
    expect(text).not.toContain(TOKENS.operate);
    expect(text).not.toContain('wrong-but-secret');
    expect(text).not.toContain('/healthz');
  });
});

describe('pages of other origins', () => {
  it.each(['/api/v1/media', '/media/x/none.webp', '/api/v1/media?limit=0', '/openapi.json'])(
    'may read %s and the headers that players need',
    async (path) => {
      const response = await app.get(path, { headers: { origin: 'https://shop.test' } });
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      expect(response.headers.get('cross-origin-resource-policy')).toBe('cross-origin');
      for (const name of ['ETag', 'Link', 'X-Request-Id', 'Content-Range', 'Cache-Status', 'X-Cache']) {
        expect(response.headers.get('access-control-expose-headers')).toContain(name);
      }
      const preflight = await app.get(path, {
        method: 'OPTIONS',
        headers: { origin: 'https://shop.test', 'access-control-request-method': 'GET' },
      });
      expect(preflight.status).toBe(204);
      expect(preflight.headers.get('access-control-allow-methods')).toBe('GET, HEAD, OPTIONS');
      // Players send fields of their own, and pages those of their traces.
      expect(preflight.headers.get('access-control-allow-headers')).toBe('*');
      for (const { headers } of [response, preflight]) {
        expect(headers.get('timing-allow-origin')).toBe('*');
        expect(headers.get('x-request-id')).toMatch(/^req_/);
      }
    },
  );

  it('may not use the control API in the name of their visitors', async () => {
    const response = await app.control('/media', { headers: { origin: 'https://evil.test' } });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
    const preflight = await app.get('/control/v1/media', {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.test', 'access-control-request-method': 'POST' },
    });
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe('the endpoints for operators', () => {
  it('report if the service is alive and ready, and why it is not', async () => {
    expect((await app.get('/healthz')).status).toBe(200);
    expect((await app.get('/readyz')).status).toBe(200);
    app.notReady = 'The service is stopping.';
    const response = await app.get('/readyz');
    const problem = await problemOf(response, 503, 'unavailable');
    expect(problem.detail).toContain('stopping');
    expect(response.headers.get('retry-after')).toBe('5');
    expect((await app.get('/healthz')).status).toBe(200);
    app.notReady = null;
  });

  it('count responses by route, without labels from callers', async () => {
    await app.get('/api/v1/media?limit=3');
    await app.get('/an/invented/path');
    const text = await (await app.get('/metrics')).text();
    expect(text).toMatch(/mds_http_requests_total\{method="GET",route="\/api\/v1\/media",status="200"\} \d/);
    expect(text).toMatch(/mds_jobs\{state="queued"\} \d/);
    expect(text).not.toContain('invented');
  });
});

describe('the pages for newcomers', () => {
  it('include a reference that loads no external resource and runs no inline script', async () => {
    const response = await app.get('/docs');
    const page = await response.text();
    expect(page).not.toMatch(/https?:\/\//);
    expect(page).not.toMatch(/<script(?![^>]*src=)/);
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("default-src 'none'");
    const loaded = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
    expect(loaded.length).toBeGreaterThan(3);
    for (const path of loaded) expect([path, (await app.get(path)).status]).toEqual([path, 200]);
    for (const path of ['/docs/assets/package.json', '/docs/assets/..%2fpackage.json']) {
      expect((await app.get(path)).status).toBe(404);
    }
  });

  it('are linked from the root and from the API catalogue (RFC 9727)', async () => {
    const catalog = await app.get('/.well-known/api-catalog');
    expect(catalog.headers.get('content-type')).toMatch(/^application\/linkset\+json/);
    expect(await catalog.json()).toMatchObject({
      linkset: [{ anchor: 'https://media.example.test/api/v1', 'service-desc': [{ type: 'application/json' }] }],
    });
    expect(await (await app.get('/')).json()).toMatchObject({ api: 'https://media.example.test/api/v1' });
    const browser = await app.get('/', { headers: { accept: 'text/html,*/*' } });
    expect([browser.status, browser.headers.get('location')]).toEqual([302, '/docs']);
  });
});
