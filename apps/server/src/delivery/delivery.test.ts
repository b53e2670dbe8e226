import { createHash } from 'node:crypto';
import { Manifest } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DeliveryFixture, pattern, REVISION, sha256, startDelivery } from './delivery.fixture.ts';

const webp = { name: 'medium', extension: 'webp', contentType: 'image/webp', content: pattern(3000, 1), width: 1280 };
const avif = { name: 'medium', extension: 'avif', contentType: 'image/avif', content: pattern(2000, 2), width: 1280 };
const jpg = { name: 'medium', extension: 'jpg', contentType: 'image/jpeg', content: pattern(4000, 3), width: 1280 };
const thumb = { name: 'thumb', extension: 'webp', contentType: 'image/webp', content: pattern(10_000, 4), width: 320 };

const OPEN = {
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
  'x-content-type-options': 'nosniff',
};

describe('delivery', () => {
  let house: DeliveryFixture;
  let id: string;
  beforeAll(async () => {
    house = await startDelivery();
    id = await house.addMedia([webp, avif, jpg, thumb]);
  });
  afterAll(() => house.close());

  describe('a rendition', () => {
    it('has every header that caches, players and pages of other origins need', async () => {
      const first = await house.get(`/media/${id}/thumb.webp`);
      expect(first.status).toBe(200);
      expect(first.body.equals(thumb.content)).toBe(true);
      expect(first.headers).toMatchObject({
        ...OPEN,
        'content-type': 'image/webp',
        'content-length': '10000',
        'cache-control': 'public, max-age=300, stale-while-revalidate=60',
        etag: `"${sha256(thumb.content)}"`,
        'repr-digest': `sha-256=:${createHash('sha256').update(thumb.content).digest('base64')}:`,
        'accept-ranges': 'bytes',
        'cache-status': 'fra1; fwd=uri-miss; stored',
        'x-cache': 'MISS',
      });
      expect(first.headers['access-control-expose-headers']).toContain('Content-Range');
      const lastModified = Date.parse(first.headers['last-modified'] ?? '');
      expect(Math.abs(Date.now() - lastModified)).toBeLessThan(30_000);
      expect(lastModified).toBeLessThanOrEqual(Date.parse(first.headers.date ?? ''));
      expect(first.headers['transfer-encoding']).toBeUndefined();
      expect(first.headers.vary).toBeUndefined();

      const second = await house.get(`/media/${id}/thumb.webp`);
      expect(second.headers).toMatchObject({ 'cache-status': 'fra1; hit', 'x-cache': 'HIT', etag: first.headers.etag });
      expect(second.body.equals(thumb.content)).toBe(true);
      // No header appears twice, and both answers have the same headers.
      const names = (answer: typeof first) =>
        answer.rawHeaders.filter((_, at) => at % 2 === 0).map((n) => n.toLowerCase());
      expect(names(second).sort()).toEqual([...new Set(names(first))].sort());
    });

    it('is cached for ever under its address with a revision', async () => {
      const { status, headers, body } = await house.get(`/media/${id}/thumb.${REVISION}.webp`);
      expect(status).toBe(200);
      expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
      expect(body.equals(thumb.content)).toBe(true);
    });

    it('ignores the query', async () => {
      const { status, headers } = await house.get(`/media/${id}/thumb.webp?v=2&/../x`);
      expect([status, headers['x-cache']]).toEqual([200, 'HIT']);
    });

    it('has the same headers for HEAD as for GET, without the body', async () => {
      const get = await house.get(`/media/${id}/thumb.webp`);
      const head = await house.get(`/media/${id}/thumb.webp`, { range: 'bytes=0-0' }, 'HEAD');
      expect(head.status).toBe(200);
      expect(head.body).toHaveLength(0);
      expect({ ...head.headers, date: '' }).toEqual({ ...get.headers, date: '' });
    });

    it('answers 304 with the headers that refresh a cached copy, and none about a body', async () => {
      const get = await house.get(`/media/${id}/thumb.webp`);
      const { status, headers, body } = await house.get(`/media/${id}/thumb.webp`, {
        'if-none-match': get.headers.etag ?? '',
      });
      expect([status, body.length]).toEqual([304, 0]);
      expect(headers).toMatchObject({
        ...OPEN,
        etag: get.headers.etag,
        'cache-control': get.headers['cache-control'],
        'last-modified': get.headers['last-modified'],
        'cache-status': 'fra1; hit',
      });
      for (const name of ['content-length', 'content-type', 'content-range', 'accept-ranges']) {
        expect(headers[name]).toBeUndefined();
      }
      const since = { 'if-modified-since': get.headers['last-modified'] ?? '' };
      expect((await house.get(`/media/${id}/thumb.webp`, since, 'HEAD')).status).toBe(304);
    });

    it('answers 412 if If-Match names another version', async () => {
      const { status, headers, body } = await house.get(`/media/${id}/thumb.webp`, { 'if-match': '"other"' });
      expect([status, JSON.parse(body.toString())]).toEqual([
        412,
        expect.objectContaining({ code: 'precondition_failed' }),
      ]);
      expect(headers).toMatchObject({ ...OPEN, etag: `"${sha256(thumb.content)}"` });
    });

    it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('refuses %s and names allowed methods', async (method) => {
      const { status, headers, body } = await house.get(`/media/${id}/thumb.webp`, {}, method);
      expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
      expect(JSON.parse(body.toString())).toMatchObject({ code: 'method_not_allowed' });
    });

    it('accepts a request target in absolute form', async () => {
      const answer = await house.raw(
        `GET http://any.example/media/${id}/thumb.webp?x HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 200 /);
    });

    it('is never sent if it is a document that can run script, whatever its row states', async () => {
      const content = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');
      const evil = await house.addMedia([
        { name: 'logo', extension: 'svg', contentType: 'image/svg+xml', content },
        { name: 'page', extension: 'html', contentType: 'text/html', content },
      ]);
      for (const path of ['logo.svg', `logo.${REVISION}.svg`, 'logo', 'page.html']) {
        const { status, body } = await house.get(`/media/${evil}/${path}`);
        expect([path, status, body.includes('alert')]).toEqual([path, 404, false]);
      }
      expect((await house.get(`/media/${evil}/manifest.json`)).body.toString()).not.toContain('svg');
    });
  });

  describe('content negotiation by Accept', () => {
    it('sends each client the best format that it accepts, with Vary for caches', async () => {
      const chrome = await house.get(`/media/${id}/medium`, {
        accept: 'image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8',
      });
      expect(chrome.headers).toMatchObject({
        'content-type': 'image/avif',
        vary: 'Accept',
        'content-location': `/media/${id}/medium.avif`,
        etag: `"${sha256(avif.content)}"`,
        'cache-control': 'public, max-age=300, stale-while-revalidate=60',
      });
      expect(chrome.body.equals(avif.content)).toBe(true);
      const curl = await house.get(`/media/${id}/medium`, { accept: '*/*' });
      expect(curl.headers).toMatchObject({ 'content-type': 'image/jpeg', vary: 'Accept' });
      expect(curl.body.equals(jpg.content)).toBe(true);
      const older = await house.get(`/media/${id}/medium`, { accept: 'image/webp,*/*' });
      expect(older.body.equals(webp.content)).toBe(true);
    });

    it('compares conditions with the chosen format, and sends Vary with 304 too', async () => {
      const accept = 'image/webp';
      const etag = `"${sha256(webp.content)}"`;
      const same = await house.get(`/media/${id}/medium`, { accept, 'if-none-match': etag });
      expect([same.status, same.headers.vary]).toEqual([304, 'Accept']);
      const other = await house.get(`/media/${id}/medium`, { accept: 'image/avif', 'if-none-match': etag });
      expect(other.status).toBe(200);
    });

    it('answers 406 with the list of formats if none is acceptable', async () => {
      const { status, headers, body } = await house.get(`/media/${id}/medium`, { accept: 'image/jxl' });
      expect([status, headers.vary]).toEqual([406, 'Accept']);
      const problem = JSON.parse(body.toString());
      expect(problem.code).toBe('not_acceptable');
      expect(problem.detail).toMatch(/image\/avif/);
    });

    it('names the missing rendition if no image has the name', async () => {
      const { status, body } = await house.get(`/media/${id}/huge`);
      expect([status, JSON.parse(body.toString()).code]).toEqual([404, 'rendition_not_found']);
    });
  });

  describe('the manifest', () => {
    it('has all that a page needs, with addresses that work', async () => {
      const { status, headers, body } = await house.get(`/media/${id}/manifest.json`);
      expect(status).toBe(200);
      expect(headers).toMatchObject({
        ...OPEN,
        'content-type': 'application/json',
        'content-length': String(body.length),
        'cache-control': 'public, max-age=300, stale-while-revalidate=60',
        etag: `"${sha256(body)}"`,
        'x-cache': 'MISS',
      });
      const manifest = Manifest.parse(JSON.parse(body.toString()));
      expect(manifest).toMatchObject({
        object: 'manifest',
        ...{ id, kind: 'image', width: 4000, height: 3000, duration: null, thumbhash: 'YJqGPQw7', storyboard: null },
        poster: `https://media.example/media/${id}/medium.jpg`,
      });
      expect(manifest.renditions.map(({ name, extension }) => `${name}.${extension}`)).toEqual([
        'thumb.webp',
        'medium.avif',
        'medium.jpg',
        'medium.webp',
      ]);
      for (const rendition of manifest.renditions) {
        for (const url of [rendition.url, rendition.immutable_url]) {
          const got = await house.get(url.replace('https://media.example', ''));
          expect([got.status, got.body.length]).toEqual([200, rendition.bytes]);
        }
      }
      const again = await house.get(`/media/${id}/manifest.json`);
      expect([again.headers['x-cache'], again.headers.etag]).toEqual(['HIT', headers.etag]);
      const conditional = await house.get(`/media/${id}/manifest.json`, { 'if-none-match': headers.etag ?? '' });
      expect(conditional.status).toBe(304);
    });
  });

  describe('an answer for something absent', () => {
    const problem = async (path: string) => {
      const { status, headers, body } = await house.get(path);
      expect(headers).toMatchObject({ ...OPEN, 'cache-control': 'public, max-age=5' });
      expect(headers['content-type']).toBe('application/problem+json');
      return { status, ...(JSON.parse(body.toString()) as { code: string; detail: string }) };
    };

    it('reports that a media object does not exist', async () => {
      const none = 'med_00000000000000000000000000';
      for (const path of [`/media/${none}/thumb.webp`, `/media/${none}/thumb`, `/media/${none}/manifest.json`]) {
        expect(await problem(path)).toMatchObject({ status: 404, code: 'media_not_found' });
      }
    });

    it('lists the existing renditions if the one requested is unknown', async () => {
      const answer = await problem(`/media/${id}/nope.webp`);
      expect(answer).toMatchObject({ status: 404, code: 'rendition_not_found' });
      expect(answer.detail).toContain('medium.avif');
    });

    it('gives the current revision if the one requested is unknown', async () => {
      const answer = await problem(`/media/${id}/thumb.ffffffff.webp`);
      expect(answer).toMatchObject({ status: 404, code: 'rendition_not_found' });
      expect(answer.detail).toContain(`/media/${id}/thumb.${REVISION}.webp`);
    });

    it('is "not ready yet" while a media object is queued or processing', async () => {
      const processing = await house.addMedia([thumb], 'processing');
      const queued = await house.addMedia([], 'queued');
      for (const mediaObject of [processing, queued]) {
        for (const path of ['thumb.webp', 'thumb', 'manifest.json']) {
          expect(await problem(`/media/${mediaObject}/${path}`)).toMatchObject({
            status: 404,
            code: 'rendition_not_ready',
          });
        }
      }
      // Otherwise the next test would claim the job of the queued media object.
      await house.repositories.media.delete(queued);
    });

    it('is final if processing failed or a preset was skipped', async () => {
      const failed = await house.addMedia([thumb], 'failed');
      for (const path of ['thumb.webp', 'thumb', 'manifest.json']) {
        expect(await problem(`/media/${failed}/${path}`)).toMatchObject({ status: 404, code: 'rendition_not_found' });
      }
      const skipped = await house.addMedia([
        thumb,
        { ...jpg, name: 'large', state: 'skipped', reason: 'the source is smaller', content: null },
      ]);
      expect((await problem(`/media/${skipped}/large.jpg`)).detail).toContain('the source is smaller');
    });
  });

  describe('fault 21: names that try to reach a file', () => {
    const forms = [
      '/media/ID/../../etc/passwd',
      '/media/ID/%2e%2e/%2e%2e/etc/passwd',
      '/media/ID/%252e%252e/thumb.webp',
      '/media/ID/thumb%2ewebp',
      '/media/ID/thumb.webp%00',
      '/media/ID/..\\..\\thumb.webp',
      '/media/ID/con',
      '/media//ID/thumb.webp',
      '/media/ID/./thumb.webp',
      '/media/ID/thumb.webp/',
      '/MEDIA/ID/thumb.webp',
      '/media/ID/thumb.webp#x',
      `/media/ID/${'%F0%9F%98%80'.repeat(400)}`,
      'http:///media/ID/../x',
    ];
    it.each(forms)('%s finds nothing', async (form) => {
      const answer = await house.raw(
        `GET ${form.replace('ID', id)} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 40[04] /);
      expect(answer).not.toContain('x-cache');
    });

    it('a NUL or a line feed in the target is refused before it is parsed', async () => {
      for (const form of ['/media/ID/thumb.webp\0', '/media/ID/thu\nmb.webp']) {
        const answer = await house.raw(`GET ${form.replace('ID', id)} HTTP/1.1\r\nHost: a.example\r\n\r\n`);
        expect(answer).toMatch(/^HTTP\/1.1 400 /);
      }
    });
  });
});
