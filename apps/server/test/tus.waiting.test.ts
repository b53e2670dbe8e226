import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { UPLOADS_PATH } from '@mds/contract';
import { DetailedError } from 'tus-js-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashToken } from '../src/control-api/authenticate.ts';
import { areBackendsRemote, openRepositoriesOf, openStoreOf } from './support/backends.ts';
import { cuttingProxy } from './support/cutting-proxy.ts';
import { noisePng, png } from './support/pictures.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';
import { tusUpload } from './support/tus-upload.ts';

const ORIGIN = 'https://app.example.org';
const OTHER_TOKEN = 'operator-of-another-project';

let dataDir: string;
let service: ServiceProcess;
const start = async () => {
  service = await spawnService({ dataDir, env: { MDS_UPLOAD_ORIGINS: ORIGIN, MDS_MAX_OPEN_UPLOADS: '5' } });
};
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-tus-'));
  await start();
  const { projects, close } = await openRepositoriesOf(dataDir);
  await projects.put({ id: 'other', name: 'Other', hosts: [] });
  await projects.putToken({ sha256: hashToken(OTHER_TOKEN), name: 'other', projectId: 'other', scope: 'ingest' });
  await close();
}, 60_000);
afterAll(async () => {
  await service.end('SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const ask = (path: string, init: RequestInit & { token?: string } = {}) =>
  fetch(`${service.url}${path}`, {
    ...init,
    headers: {
      authorization: `Bearer ${init.token ?? service.token}`,
      'tus-resumable': '1.0.0',
      ...(init.headers as Record<string, string>),
    },
  });
const detail = (id: string) => createClient({ baseUrl: service.url, token: service.token }).control.media.get(id);
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const large = noisePng('large', 1500, 1000);

/** Begins a PATCH over a plain connection and sends a part of what it announces. */
const sendPart = async (path: string, part: Buffer, announced: number, offset = 0) => {
  const before = await received();
  const sending = request(`${service.url}${path}`, {
    method: 'PATCH',
    agent: false,
    headers: {
      authorization: `Bearer ${service.token}`,
      ...{
        'tus-resumable': '1.0.0',
        'upload-offset': String(offset),
        'content-type': 'application/offset+octet-stream',
      },
      'content-length': String(announced),
    },
  });
  const answered = new Promise<{ status: number; offset: string }>((resolve) => {
    sending.on('response', (res) => {
      res.resume();
      resolve({ status: res.statusCode ?? 0, offset: String(res.headers['upload-offset']) });
    });
    sending.on('error', () => resolve({ status: 0, offset: '' }));
  });
  sending.write(part);
  await expect.poll(received, { timeout: 20_000 }).toBe(before + part.length);
  return { sending, answered };
};
/** Bytes that the service has written. A request for the offset would end the request that sends them. */
const received = async () => {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return Number(/^mds_uploads_received_bytes_total (\d+)$/m.exec(metrics)?.[1]);
};
const create = async (length: number, token = service.token) => {
  const created = await ask(UPLOADS_PATH, { method: 'POST', token, headers: { 'upload-length': String(length) } });
  expect(created.status).toBe(201);
  return created.headers.get('location') ?? '';
};

describe('tus-js-client without changes', () => {
  it('uploads a file, which becomes a media object and is processed', async () => {
    const picture = png(1, 300, 200);
    const { mediaId, answers } = await tusUpload(service, picture, {
      metadata: { filename: 'one.png', filetype: 'image/png', checksum: sha256(picture) },
    });
    expect(answers).toEqual(['POST 201', 'PATCH 204']);
    expect(await detail(mediaId)).toMatchObject({
      filename: 'one.png',
      sha256: sha256(picture),
      bytes: picture.length,
    });
    const client = createClient({ baseUrl: service.url, token: service.token });
    expect((await client.control.media.waitUntilReady(mediaId, { timeoutMs: 60_000 })).status).toBe('ready');
  }, 90_000);

  it.each([
    ['uploads with the bytes in the creation', { uploadDataDuringCreation: true }],
    ['uploads in chunks', { chunkSize: 1_000_000 }],
    ['uploads without a known length', { uploadLengthDeferred: true, chunkSize: 1_000_000 }],
  ])(
    '%s',
    async (how, options) => {
      const picture = noisePng(how, 900, 700);
      const { mediaId } = await tusUpload(service, picture, options);
      expect((await detail(mediaId)).sha256).toBe(sha256(picture));
    },
    30_000,
  );

  it('continues after each of five cut connections, and the file arrives byte-exact', async () => {
    const proxy = await cuttingProxy(service.url, [600_000, 900_000, 70_000, 1_200_000, 3000]);
    const { mediaId, answers } = await tusUpload({ url: proxy.url, token: service.token }, large, {
      chunkSize: 2_000_000,
    });
    expect(proxy.cuts).toBe(5);
    expect(answers.filter((answer) => answer === 'POST 201').length, answers.join()).toBeLessThanOrEqual(2);
    expect(await detail(mediaId)).toMatchObject({ sha256: sha256(large), bytes: large.length });
    await proxy.stop();
  }, 60_000);

  it('gets the reason if a file is refused', async () => {
    const error = await tusUpload(service, Buffer.from('A letter. '.repeat(100))).catch((refused: unknown) => refused);
    expect(error).toBeInstanceOf(DetailedError);
    const answer = (error as DetailedError).originalResponse;
    expect(answer?.getStatus()).toBe(422);
    expect(answer?.getHeader('MDS-Problem-Code')).toBe('unsupported_format');
  }, 30_000);
});

describe('the service around uploads', () => {
  it('needs a token, and shows uploads only to their project', async () => {
    expect((await ask(UPLOADS_PATH, { method: 'POST', token: 'x', headers: { 'upload-length': '1' } })).status).toBe(
      401,
    );
    expect((await fetch(`${service.url}${UPLOADS_PATH}`, { method: 'OPTIONS' })).status).toBe(401);
    const path = await create(10);
    expect((await ask(path, { method: 'HEAD', token: OTHER_TOKEN })).status).toBe(404);
    expect((await ask(path, { method: 'DELETE', token: OTHER_TOKEN })).status).toBe(404);
    expect((await ask(path, { method: 'DELETE' })).status).toBe(204);
  });

  it('limits open uploads by token', async () => {
    const paths = [];
    for (let n = 0; n < 5; n++) paths.push(await create(10));
    const refused = await ask(UPLOADS_PATH, { method: 'POST', headers: { 'upload-length': '1' } });
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ code: 'too_many_uploads' });
    await create(10, OTHER_TOKEN);
    for (const path of paths) await ask(path, { method: 'DELETE' });
  });

  it('lists its methods, and reports metrics', async () => {
    const path = await create(10);
    const get = await ask(path);
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'HEAD, PATCH, DELETE, OPTIONS']);
    expect((await ask(UPLOADS_PATH)).headers.get('allow')).toBe('POST, OPTIONS');
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).toMatch(/^mds_uploads_open [1-9]/m);
    expect(metrics).toMatch(/^mds_uploads_total\{result="rejected"\} 1$/m);
    expect(metrics).toMatch(/^mds_uploads_received_bytes_total [1-9]\d{5}/m);
    await ask(path, { method: 'DELETE' });
  });

  it('lets only pages of the configured origins upload and read the media object', async () => {
    const preflight = (origin: string, path = UPLOADS_PATH) =>
      fetch(`${service.url}${path}`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
      });
    const allowed = await preflight(ORIGIN);
    expect(allowed.status).toBe(204);
    expect(Object.fromEntries(allowed.headers)).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-methods': expect.stringContaining('PATCH'),
      'access-control-allow-headers': expect.stringContaining('Upload-Offset'),
      vary: 'Origin',
    });
    expect((await preflight('https://elsewhere.example')).headers.has('access-control-allow-origin')).toBe(false);
    expect((await preflight(ORIGIN, '/control/v1/regions')).status).toBe(401);
    expect((await preflight(ORIGIN, '/control/v1/media')).status).toBe(401);
    const created = await ask(UPLOADS_PATH, { method: 'POST', headers: { origin: ORIGIN, 'upload-length': '10' } });
    expect(created.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(created.headers.get('access-control-expose-headers')).toContain('MDS-Media-Id');
    await ask(created.headers.get('location') ?? '', { method: 'DELETE' });
    const missing = await ask('/control/v1/media/med_00000000000000000000000000', { headers: { origin: ORIGIN } });
    expect([missing.status, missing.headers.get('access-control-allow-origin')]).toEqual([404, ORIGIN]);
  });
});

describe('when the service ends', () => {
  it('fault 15: SIGTERM during a PATCH acknowledges the bytes that came', async () => {
    const path = await create(large.length);
    const { answered } = await sendPart(path, large.subarray(0, 400_000), large.length);
    const ended = service.end('SIGTERM');
    expect(await answered).toEqual({ status: 204, offset: '400000' });
    expect(await ended).toEqual({ code: 0, signal: null });
    await start();
    const { mediaId, answers } = await tusUpload(service, large, { uploadUrl: `${service.url}${path}`, metadata: {} });
    expect(answers).toEqual(['HEAD 200', 'PATCH 204']);
    expect((await detail(mediaId)).sha256).toBe(sha256(large));
  }, 60_000);

  it('fault 16: kill -9 during a PATCH loses no acknowledged byte', async () => {
    const film = noisePng('killed', 1400, 1000);
    const path = await create(film.length);
    const first = await sendPart(path, film.subarray(0, 500_000), 500_000);
    expect(await first.answered).toEqual({ status: 204, offset: '500000' });
    await sendPart(path, film.subarray(500_000, 900_000), film.length - 500_000, 500_000);
    await service.end('SIGKILL');
    await start();
    const head = await ask(path, { method: 'HEAD' });
    // If any node may continue it, unacknowledged bytes were on the node that died.
    const stands = areBackendsRemote ? '500000' : '900000';
    expect([head.status, head.headers.get('upload-offset')]).toEqual([200, stands]);
    const { mediaId } = await tusUpload(service, film, { uploadUrl: `${service.url}${path}` });
    expect(await detail(mediaId)).toMatchObject({ sha256: sha256(film), bytes: film.length });
    const id = path.split('/').pop() ?? '';
    expect(await readdir(join(dataDir, 'uploads'))).not.toContain(id);
    await using store = await openStoreOf(dataDir);
    for await (const { key } of store.list(`uploads/${id}/`)) expect.unreachable(`${key} is left`);
  }, 60_000);
});
