import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import {
  AssetList,
  FormatList,
  MediaDetail,
  MediaList,
  Problem,
  RegionList,
  RenditionList,
  Status,
  VersionIndex,
} from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { z } from 'zod';
import { png } from './support/pictures.ts';
import { parseRaw, rawRequest } from './support/raw-request.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';

/**
 * The interface document, sentence by sentence, against the whole service over HTTP. Fields are named here once more, so that
 * a change of the contract alone is noticed, too.
 */
const FIELDS = {
  list: ['object', 'data'],
  mediaList: ['object', 'data', 'next_cursor'],
  media: ['id', 'created_at', 'content_type', 'bytes', 'width', 'height', 'status'],
  region: ['code', 'name', 'zone', 'country', 'status'],
  asset: ['id', 'created_at', 'path', 'bytes', 'cache_status'],
  status: ['status', 'version', 'region', 'components', 'updated_at'],
  component: ['name', 'status'],
} as const;

const CACHE_CONTROL: Record<string, string> = {
  '/api/v1/media': 'public, max-age=60',
  '/api/v1/regions': 'public, max-age=300',
  '/api/v1/assets': 'public, max-age=60',
  '/api/v1/status': 'no-store',
  '/api/v1': 'public, max-age=300',
  '/api/v1/formats': 'public, max-age=300',
  '/api/v1/renditions': 'public, max-age=300',
};
const ENDPOINTS = Object.keys(CACHE_CONTROL);
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

let service: ServiceFixture;
/** Wide enough that every preset applies. */
const picture = png(1, 2200, 1100);
const media: MediaDetail[] = [];
const startedAt = Date.now();

beforeAll(async () => {
  service = await startService();
  for (const body of [picture, png(2, 40, 30), png(3, 30, 40)]) {
    const response = await post(body);
    expect(response.status).toBe(201);
    media.push(MediaDetail.parse(await response.json()));
  }
  for (const { id } of media) await ready(id);
  // On a busy machine, event-loop delay may degrade the status at first.
  const settled = async () => expect((await read('/api/v1/status', Status)).status).toBe('operational');
  await vi.waitFor(settled, { timeout: 30_000, interval: 500 });
}, 120_000);
afterAll(() => service?.stop());

const authorization = () => ({ authorization: `Bearer ${service.token}` });

function post(body: Buffer, init: RequestInit = {}): Promise<Response> {
  return fetch(`${service.url}/control/v1/media`, {
    method: 'POST',
    body: new Uint8Array(body),
    ...init,
    headers: { ...authorization(), ...(init.headers as Record<string, string>) },
  });
}

async function ready(id: string): Promise<MediaDetail> {
  for (let tries = 0; tries < 600; tries += 1) {
    const response = await fetch(`${service.url}/control/v1/media/${id}`, { headers: authorization() });
    const detail = MediaDetail.parse(await response.json());
    if (detail.status === 'ready') return detail;
    if (detail.status === 'failed') throw new Error(`${id} failed: ${detail.error?.message}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${id} was not ready in a minute`);
}

async function read<T>(path: string, schema: z.ZodType<T>): Promise<T> {
  const response = await fetch(service.url + path);
  expect([path, response.status]).toEqual([path, 200]);
  // The contract's objects are strict: an extra or missing field does not parse.
  return schema.parse(await response.json());
}

const expectFields = (record: object, fields: readonly string[]) =>
  expect(Object.keys(record).sort()).toEqual([...fields].sort());

/** The asset list, once all deliveries are recorded. */
async function assetsWith(path: string): Promise<AssetList['data'][number]> {
  for (let tries = 0; tries < 30; tries += 1) {
    const { data } = await read('/api/v1/assets', AssetList);
    const found = data.find((asset) => asset.path === path);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${path} is not in the asset list after 3 seconds`);
}

describe('1. The behavior of the service', () => {
  it('"Only GET operations are shown": a write gets 405 with Allow and changes nothing', async () => {
    for (const path of ENDPOINTS) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const response = await fetch(service.url + path, { method });
        expect([path, method, response.status, response.headers.get('allow')]).toEqual([
          path,
          method,
          405,
          'GET, HEAD',
        ]);
        expect(Problem.parse(await response.json()).code).toBe('method_not_allowed');
      }
    }
  });
});

describe('2. Resources and their fields', () => {
  it('2.1 "object: always the literal list; data: records of the resource"', async () => {
    expectFields(await read('/api/v1/media', MediaList), FIELDS.mediaList);
    expectFields(await read('/api/v1/regions', RegionList), FIELDS.list);
    expectFields(await read('/api/v1/assets', AssetList), FIELDS.list);
    for (const path of ['media', 'regions', 'assets', 'formats', 'renditions']) {
      const body = (await (await fetch(`${service.url}/api/v1/${path}`)).json()) as { object: unknown; data: unknown };
      expect(body.object).toBe('list');
      expect(Array.isArray(body.data)).toBe(true);
    }
  });

  it('2.2 the media object has seven fields that match the file', async () => {
    const { data } = await read('/api/v1/media?limit=100', MediaList);
    for (const record of data) expectFields(record, FIELDS.media);
    const record = data.find(({ id }) => id === media[0]?.id);
    expect(record).toMatchObject({
      content_type: 'image/png',
      bytes: picture.length,
      width: 2200,
      height: 1100,
      status: 'ready',
    });
    expect(record?.id).toMatch(/^med_[0-9a-z]+$/);
    expect(record?.created_at).toMatch(TIMESTAMP);
    const age = Date.now() - Date.parse(record?.created_at ?? '');
    expect(age).toBeGreaterThan(-1_000);
    expect(age).toBeLessThan(Date.now() - startedAt + 2_000);
  });

  it('2.3 the region has five fields: code, city, area-direction, country, status', async () => {
    const { data } = await read('/api/v1/regions', RegionList);
    expect(data).toEqual([
      { code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', status: 'operational' },
    ]);
    for (const region of data) {
      expectFields(region, FIELDS.region);
      expect(region.code).toMatch(/^[a-z]+\d$/);
      expect(region.zone).toMatch(/^[a-z]+-[a-z]+$/);
      expect(region.country).toMatch(/^[A-Z]{2}$/);
    }
  });

  it('2.4 the asset has five fields: the requested path, its size, and HIT or MISS', async () => {
    const path = `/media/${media[1]?.id}/thumb.webp`;
    const first = await fetch(service.url + path);
    const bytes = (await first.arrayBuffer()).byteLength;
    expect([first.status, first.headers.get('x-cache')]).toEqual([200, 'MISS']);
    const asset = await assetsWith(path);
    expectFields(asset, FIELDS.asset);
    expect(asset).toMatchObject({ path, bytes, cache_status: 'MISS' });
    expect(asset.id).toMatch(/^ast_[0-9a-z]+$/);
    expect(asset.created_at).toMatch(TIMESTAMP);

    const second = await fetch(service.url + path);
    expect([second.headers.get('x-cache'), (await second.arrayBuffer()).byteLength]).toEqual(['HIT', bytes]);
    await expect.poll(async () => (await assetsWith(path)).cache_status, { timeout: 3_000 }).toBe('HIT');
    const again = await assetsWith(path);
    expect([again.id, again.created_at]).toEqual([asset.id, asset.created_at]);
  });

  it('2.5 the status document has five fields, the city, and components', async () => {
    const status = await read('/api/v1/status', Status);
    expectFields(status, FIELDS.status);
    expect(status).toMatchObject({ status: 'operational', version: 'v1', region: 'Frankfurt' });
    expect(status.updated_at).toMatch(TIMESTAMP);
    for (const component of status.components) expectFields(component, FIELDS.component);
    expect(status.components.map(({ name }) => name)).toEqual([
      'API',
      'Database',
      'Object storage',
      'Processing',
      'Delivery',
      'Region Frankfurt',
    ]);
  });
});

describe('3. States and transitions', () => {
  it('media are `ready`, regions and components `operational`, assets HIT or MISS', async () => {
    const { data } = await read('/api/v1/media', MediaList);
    expect(new Set(data.map(({ status }) => status))).toEqual(new Set(['ready']));
    const { status, components } = await read('/api/v1/status', Status);
    expect([status, ...components.map((component) => component.status)]).toEqual(
      new Array(components.length + 1).fill('operational'),
    );
    for (const asset of (await read('/api/v1/assets', AssetList)).data) {
      expect(['HIT', 'MISS']).toContain(asset.cache_status);
    }
  });
});

describe('4. Endpoints', () => {
  it.each(ENDPOINTS)('%s: GET, no request body, application/json, and its Cache-Control', async (path) => {
    const response = await fetch(service.url + path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('cache-control')).toBe(CACHE_CONTROL[path]);
    await response.json();
    const head = await fetch(service.url + path, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/json']);
  });

  it.each(ENDPOINTS.filter((path) => CACHE_CONTROL[path] !== 'no-store'))(
    '%s: a client that has the response gets 304 without a body',
    async (path) => {
      const etag = (await fetch(service.url + path)).headers.get('etag') ?? '';
      const response = await fetch(service.url + path, { headers: { 'if-none-match': etag } });
      expect([path, response.status]).toEqual([path, 304]);
    },
  );

  it('4.1 `limit` is the maximum number of items, `cursor` comes from a response', async () => {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`;
      const page: MediaList = await read(`/api/v1/media?limit=1${query}`, MediaList);
      expect(page.data).toHaveLength(1);
      seen.push(...page.data.map(({ id }) => id));
      cursor = page.next_cursor;
    } while (cursor !== null);
    const all = (await read('/api/v1/media?limit=100', MediaList)).data.map(({ id }) => id);
    expect(seen).toEqual(all);
    expect(seen).toEqual(media.map(({ id }) => id).reverse());
  });

  it('4.2 and 4.4 have "no parameters": one that is sent anyway changes nothing', async () => {
    for (const path of ['/api/v1/regions', '/api/v1/status', '/api/v1', '/api/v1/formats', '/api/v1/renditions']) {
      expect((await fetch(`${service.url}${path}?limit=x&limit=y&cursor=z`)).status).toBe(200);
    }
  });

  it('4.3 `limit`, and `region` "restrict results to a single region code"', async () => {
    for (const { id } of media) await (await fetch(`${service.url}/media/${id}/small.webp`)).arrayBuffer();
    await assetsWith(`/media/${media[2]?.id}/small.webp`);
    expect((await read('/api/v1/assets?limit=2', AssetList)).data).toHaveLength(2);
    const here = await read('/api/v1/assets?region=fra1&limit=100', AssetList);
    expect(here.data.length).toBeGreaterThanOrEqual(3);
    expect((await read('/api/v1/assets?region=sin1', AssetList)).data).toEqual([]);
    const unknown = await fetch(`${service.url}/api/v1/assets?region=nowhere9`);
    expect(Problem.parse(await unknown.json()).code).toBe('unknown_region');
  });

  it('4.4 "the response must not be cached"', async () => {
    const response = await fetch(`${service.url}/api/v1/status`, { headers: { 'if-none-match': '*' } });
    expect(response.status).toBe(200);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('etag')).toBeNull();
    expect(response.headers.get('last-modified')).toBeNull();
  });

  it('4.5 "the version index and resource map": every address in it works', async () => {
    const index = await read('/api/v1', VersionIndex);
    expect(index).toMatchObject({ object: 'index', version: 'v1', project: 'default', region: 'Frankfurt' });
    expect(Object.keys(index.resources)).toEqual(['media', 'regions', 'assets', 'status', 'formats', 'renditions']);
    for (const { href, methods, cache_control } of Object.values(index.resources)) {
      for (const method of methods) {
        const response = await fetch(new URL(href, service.url), { method });
        expect([href, method, response.status, response.headers.get('cache-control')]).toEqual([
          href,
          method,
          200,
          cache_control,
        ]);
      }
    }
    expect(index.resources['media']?.query).toEqual(['limit', 'cursor']);
    expect(index.resources['assets']?.query).toEqual(['limit', 'region']);
    const manifest = index.links.manifest.replace('{id}', media[0]?.id ?? '');
    for (const href of [index.links.openapi, index.links.docs, manifest]) {
      expect([href, (await fetch(new URL(href, service.url))).status]).toEqual([href, 200]);
    }
  });

  it('4.6 "formats accepted on ingest": each is accepted, and any other is refused', async () => {
    const { data } = await read('/api/v1/formats', FormatList);
    const samples = fileURLToPath(new URL('../../../packages/transcode/samples/', import.meta.url));
    const files = await readdir(samples);
    expect(data.length).toBeGreaterThanOrEqual(5);
    for (const format of data) {
      const file = files.find((name) => name.startsWith(`${format.id}.`)) ?? '';
      const response = await post(await readFile(samples + file));
      expect([format.id, response.status]).toEqual([format.id, 201]);
      const detail = MediaDetail.parse(await response.json());
      expect(format.content_types).toContain(detail.content_type);
      expect(detail.kind).toBe(format.kind);
      await fetch(`${service.url}/control/v1/media/${detail.id}`, { method: 'DELETE', headers: authorization() });
    }
    const refused = await post(Buffer.from('BM this is a bitmap, perhaps'));
    expect([refused.status, Problem.parse(await refused.json()).code]).toEqual([422, 'unsupported_format']);
  }, 60_000);

  it('4.7 "presets applied during processing": each path leads to its rendition', async () => {
    const presets = await read('/api/v1/renditions', RenditionList);
    // The media object is a picture. video.test.ts covers video and audio.
    const data = presets.data.filter(({ source_kinds }) => source_kinds.includes('image'));
    const id = media[0]?.id ?? '';
    const detail = await ready(id);
    expect(detail.renditions.map(({ name, extension, revision }) => `${name}.${revision}.${extension}`).sort()).toEqual(
      data.map(({ name, extension, revision }) => `${name}.${revision}.${extension}`).sort(),
    );
    for (const preset of data) {
      const response = await fetch(new URL(preset.path.replace('{id}', id), service.url));
      const body = await response.arrayBuffer();
      expect([preset.path, response.status, response.headers.get('content-type')]).toEqual([
        preset.path,
        200,
        preset.content_type,
      ]);
      const made = detail.renditions.find((r) => r.name === preset.name && r.extension === preset.extension);
      expect(made).toMatchObject({ state: 'ready', bytes: body.byteLength });
      expect(made?.width).toBeLessThanOrEqual(preset.width ?? Number.POSITIVE_INFINITY);
      expect(made?.height).toBeLessThanOrEqual(preset.height ?? Number.POSITIVE_INFINITY);
      expect((await fetch(made?.url ?? '')).status).toBe(200);
      expect((await fetch(made?.immutable_url ?? '')).status).toBe(200);
    }
  });
});

describe('5. to 9. Authentication, errors, limits, versioning', () => {
  it('5. reads need no token, and every change needs one', async () => {
    for (const path of ENDPOINTS) expect((await fetch(service.url + path)).status).toBe(200);
    const response = await fetch(`${service.url}/control/v1/media`, { method: 'POST', body: new Uint8Array(picture) });
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer realm="mds"/);
  });

  it.each([
    ['a wrong token', { authorization: 'Bearer wrong' }, 'x', 401, 'unauthorized', /control-token/],
    ['no token', { authorization: '' }, 'x', 401, 'unauthorized', /Bearer/],
    ['a text named .jpg', {}, 'this is no picture', 422, 'unsupported_format', /JPEG/],
    ['an empty file', {}, '', 422, 'empty_file', /body/],
    [
      'a form',
      { 'content-type': 'multipart/form-data; boundary=x' },
      'x',
      415,
      'unsupported_content_type',
      /--data-binary/,
    ],
    ['broken JSON', { 'content-type': 'application/json' }, '{', 400, 'invalid_request', /not valid JSON/],
    ['a compressed body', { 'content-encoding': 'gzip' }, 'x', 415, 'unsupported_content_type', /Content-Encoding/],
    ['a key that is too long', { 'idempotency-key': 'k'.repeat(256) }, 'x', 400, 'invalid_request', /1 to 255/],
  ])('7. bad input gets a problem document with a fix: %s', async (_name, headers, body, status, code, hint) => {
    const response = await fetch(`${service.url}/control/v1/media?filename=a.jpg`, {
      method: 'POST',
      body,
      headers: { ...authorization(), ...headers } as Record<string, string>,
    });
    expect(response.status).toBe(status);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const problem = Problem.parse(await response.json());
    expect(problem).toMatchObject({ code, status, instance: '/control/v1/media' });
    expect(problem.request_id).toBe(response.headers.get('x-request-id'));
    expect(problem.detail).toMatch(hint);
    expect(JSON.stringify(problem)).not.toMatch(/node_modules|\.ts:|SELECT|mds-service-/);
  });

  it('8. `limit` is 25 by default, 1 to 100, and never clamped silently', async () => {
    for (const limit of ['0', '101', 'x']) {
      const response = await fetch(`${service.url}/api/v1/media?limit=${limit}`);
      expect(Problem.parse(await response.json())).toMatchObject({ status: 400, code: 'invalid_request' });
    }
    for (const limit of ['1', '100'])
      expect((await fetch(`${service.url}/api/v1/media?limit=${limit}`)).status).toBe(200);
  });

  it('9. OpenAPI has exactly the seven endpoints under the prefix /api/v1', async () => {
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, unknown>>;
      servers: { url: string }[];
    };
    const reads = Object.entries(document.paths).filter(([path]) => path.startsWith('/api/'));
    expect(reads.map(([path]) => path).sort()).toEqual([...ENDPOINTS].sort());
    for (const [, operations] of reads) expect(Object.keys(operations)).toEqual(['get']);
    expect(document.servers).toEqual([{ url: service.url }]);
    for (const path of ['/api/v2/media', '/api/v1/nothing', '/media', '/v1/media']) {
      expect([path, (await fetch(service.url + path)).status]).toEqual([path, 404]);
    }
  });

  it('fault 21: no encoding of a path escapes the object store', async () => {
    const port = Number(new URL(service.url).port);
    const id = media[0]?.id;
    for (const path of [
      `/media/${id}/../../../../etc/passwd`,
      `/media/${id}/%2e%2e/%2e%2e/originals`,
      `/media/${id}/..%2f..%2f..%2fcontrol-token`,
      `/media/${id}/%252e%252e%252fcontrol-token`,
      `/media/${id}/thumb%2ewebp`,
      `/media/${id}/thumb.webp%00`,
      `/media/%6d${id?.slice(1)}/thumb.webp`,
      `/media/${id}/thumb.webp/..`,
      `/media/${id}/con.webp`,
    ]) {
      const answer = parseRaw(await rawRequest(port, `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`));
      expect([path, [400, 404].includes(answer.status)]).toEqual([path, true]);
      expect(answer.headers['content-type']).toBe('application/problem+json');
    }
  });
});
