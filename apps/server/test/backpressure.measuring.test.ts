import { once } from 'node:events';
import { connect } from 'node:net';
import { Problem } from '@mds/contract';
import { afterEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from './support/app-fixture.ts';
import { png } from './support/pictures.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';

let service: ServiceFixture | undefined;
let app: AppFixture | undefined;
afterEach(async () => {
  await service?.stop();
  await app?.stop();
  service = undefined;
  app = undefined;
});

describe('fault 20: a full queue', () => {
  it('refuses an upload before its body is sent, and accepts it when there is room', async () => {
    // Without a worker, no job leaves the queue.
    service = await startService({ MDS_ROLES: 'api,edge', MDS_MAX_QUEUED_JOBS: '2' });
    const { client, url, token } = service;
    const queued = [await client.control.media.ingest(png(1)), await client.control.media.ingest(png(2))];

    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /control/v1/media HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n`,
    );
    const [answer] = (await once(socket.setEncoding('utf8'), 'data')) as [string];
    socket.destroy();
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toMatch(/^Retry-After: 30\r$/m);
    expect(answer).toContain('"code":"overloaded"');
    expect(answer).toContain('MDS_MAX_QUEUED_JOBS');

    // Resumable uploads and fetches are refused, too.
    const headers = { authorization: `Bearer ${token}`, 'tus-resumable': '1.0.0', 'upload-length': '1000' };
    expect((await fetch(`${url}/control/v1/uploads`, { method: 'POST', headers })).status).toBe(503);
    const body = JSON.stringify({ source_url: 'http://127.0.0.1:9/a.png' });
    const json = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    expect((await fetch(`${url}/control/v1/media`, { method: 'POST', headers: json, body })).status).toBe(503);

    // Reads and operators are not affected.
    expect((await client.media.list()).data).toHaveLength(2);
    await client.control.media.delete(queued[0]?.media.id ?? '');
    const post = () =>
      fetch(`${url}/control/v1/media`, {
        method: 'POST',
        body: png(3),
        headers: { authorization: `Bearer ${token}` },
      }).then(({ status }) => status);
    await expect.poll(post, { interval: 100, timeout: 10_000 }).toBe(201);
  });
});

describe('the rate limit of a token', () => {
  const ask = (path = '/media', token: string = TOKENS.operate, init: RequestInit = {}) =>
    (app as AppFixture).control(path, { ...init, token });

  it('allows its requests per minute, reports how many are left and when to retry', async () => {
    app = await startApp({ control: { rateLimit: 3 } });
    const left: (string | null)[] = [];
    for (let i = 0; i < 3; i++) {
      const response = await ask();
      expect(response.status).toBe(200);
      expect(response.headers.get('ratelimit-policy')).toMatch(/^"token"; q=3; w=60; pk=:[\w+/=]+:$/);
      left.push(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1] ?? null);
    }
    expect(left).toEqual(['2', '1', '0']);

    const refused = await ask('/media', TOKENS.operate, { method: 'POST', body: png(1) });
    expect(refused.status).toBe(429);
    const retryAfter = Number(refused.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(0);
    expect(retryAfter).toBeLessThanOrEqual(60);
    expect(Problem.parse(await refused.json())).toMatchObject({
      code: 'rate_limited',
      detail: `This token may send 3 requests a minute. Try again in ${retryAfter} seconds.`,
    });
    expect(app.ingested).toEqual([]);
    expect(JSON.stringify(app.log)).not.toContain('foresaw');
  });

  it('leaves other tokens, readers and health checks alone', async () => {
    app = await startApp({ control: { rateLimit: 1 } });
    await ask();
    expect((await ask()).status).toBe(429);
    expect((await ask('/media', TOKENS.ingest)).status).toBe(200);
    for (const path of ['/api/v1/media', '/healthz', '/metrics']) {
      const response = await app.get(path);
      expect([path, response.status, response.headers.get('ratelimit')]).toEqual([path, 200, null]);
    }
    // A wrong token gets 401, and uses nothing of a valid one.
    expect((await ask('/media', 'not-a-token-of-this-service')).status).toBe(401);
  });

  it('does not interrupt uploads that have begun, or reports of points of presence', async () => {
    app = await startApp({ control: { rateLimit: 1 } });
    await ask();
    for (const [method, path] of [
      ['PATCH', '/uploads/upl_1'],
      ['HEAD', '/uploads/upl_1'],
      ['POST', '/edges/fra1/report'],
    ] as const) {
      expect((await ask(path, TOKENS.operate, { method })).status, `${method} ${path}`).not.toBe(429);
    }
    expect((await ask('/uploads', TOKENS.operate, { method: 'POST' })).status).toBe(429);
  });

  it('is off by default', async () => {
    app = await startApp();
    for (let i = 0; i < 50; i++) expect((await ask()).headers.get('ratelimit')).toBeNull();
  });

  it('is set by MDS_RATE_LIMIT', async () => {
    service = await startService({ MDS_ROLES: 'api', MDS_RATE_LIMIT: '2' });
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) {
      const headers = { authorization: `Bearer ${service.token}` };
      statuses.push((await fetch(`${service.url}/control/v1/media`, { headers })).status);
    }
    expect(statuses).toEqual([200, 200, 429, 429]);
  });
});
