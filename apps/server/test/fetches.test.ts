import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sendFile, startSource } from '../src/fetches/scripted-source.fixture.ts';
import { png } from './support/pictures.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

/** More than is written in the first second. */
const picture = png(7, 1600, 1200);

let dataDir: string;
let service: ServiceProcess;
const start = async (env: Record<string, string> = {}) => {
  service = await spawnService({ dataDir, env: { MDS_LOG_LEVEL: 'trace', MDS_FETCH_ALLOW: '127.0.0.1', ...env } });
  return service;
};
const request = (path: string, init: RequestInit = {}) =>
  fetch(`${service.url}/control/v1${path}`, {
    ...init,
    headers: { authorization: `Bearer ${service.token}`, 'content-type': 'application/json', ...init.headers },
  });
const post = (body: unknown, headers: Record<string, string> = {}) =>
  request('/media', { method: 'POST', body: JSON.stringify(body), headers });

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-fetches-'));
});
afterEach(async () => {
  if (service.child.exitCode === null && service.child.signalCode === null) await service.end('SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

describe('ingest from a URL', () => {
  it('continues after kill -9, and the file arrives byte-exact', async () => {
    let release = () => undefined as unknown;
    const source = await startSource((req, res, n) => {
      if (n > 1) return sendFile(req, res, { bytes: picture, etag: '"v"' });
      res.writeHead(200, { etag: '"v"', 'content-length': picture.length }).write(picture.subarray(0, 30_000));
      release = () => res.destroy();
    });
    await start();
    const accepted = await post({ source_url: source.url('/large.png') });
    expect(accepted.status).toBe(202);
    const { id } = (await accepted.json()) as { id: string };
    const status = async () => (await (await request(`/fetches/${id}`)).json()) as Record<string, unknown>;
    await expect.poll(status, { timeout: 20_000 }).toMatchObject({ status: 'fetching', received_bytes: 30_000 });
    await service.end('SIGKILL');
    release();
    await start();
    await expect.poll(status, { timeout: 30_000 }).toMatchObject({ status: 'done', received_bytes: picture.length });
    expect(source.requests).toEqual(['GET /large.png', 'GET /large.png bytes=30000-']);
    const { media_id: mediaId } = await status();
    const client = createClient({ baseUrl: service.url, token: service.token });
    expect(await client.control.media.verify(String(mediaId))).toMatchObject({ original: 'sound' });
    expect(await client.control.media.get(String(mediaId))).toMatchObject({
      filename: 'large.png',
      bytes: picture.length,
    });
  }, 90_000);

  it('keeps the secrets of a URL out of logs, responses and problems', async () => {
    const source = await startSource((req, res) => {
      if (req.url?.startsWith('/good')) sendFile(req, res, { bytes: picture });
      else if (req.url?.startsWith('/moved'))
        res.writeHead(302, { location: 'http://127.0.0.1:1/?hop=SECRET-hop' }).end();
      else res.writeHead(404).end();
    });
    await start();
    const seen: string[] = [];
    const wait = { prefer: 'wait=30' };
    const port = new URL(source.url('/')).port;
    for (const url of [
      source.url('/good.png?signature=SECRET-query#SECRET-fragment'),
      source.url('/missing?signature=SECRET-query'),
      source.url('/moved?signature=SECRET-query'),
      `http://user:SECRET-password@127.0.0.1:${port}/`,
      'http://10.0.0.1/?signature=SECRET-query',
      'https://SECRET host/',
    ]) {
      const response = await post({ source_url: url }, wait);
      seen.push(`${response.status} ${await response.text()}`);
    }
    seen.push(await (await request('/fetches')).text());
    expect(seen.map((text) => text.slice(0, 3))).toEqual(['201', '502', '422', '422', '422', '400', '{"o']);
    await service.end('SIGTERM');
    expect(service.stderr()).toContain('fetched');
    expect(service.stderr()).toContain('source_refused');
    for (const text of [...seen, service.stderr()]) expect(text).not.toContain('SECRET');
  }, 60_000);

  it('fault 9: without an allow-list, no internal address or name is reached', async () => {
    const inside = await startSource((_, res) => res.end('secret'));
    await start({ MDS_FETCH_ALLOW: '' });
    const { port } = new URL(inside.url('/'));
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '0', '2130706433']) {
      const response = await post({ source_url: `http://${host}:${port}/` }, { prefer: 'wait=30' });
      expect([host, response.status, ((await response.json()) as { code: string }).code]).toEqual([
        host,
        422,
        'source_not_allowed',
      ]);
    }
    // The service itself, whose token must not leak.
    const itself = await post({ source_url: `${service.url}/api/v1/status` }, { prefer: 'wait=30' });
    expect(itself.status).toBe(422);
    expect(inside.requests).toEqual([]);
  }, 60_000);
});
