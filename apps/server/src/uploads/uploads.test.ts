import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UPLOADS_PATH } from '@mds/contract';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { sha256 } from '../ingest/ingest.fixture.ts';
import { metadataHeader, OFFSET_OCTETS, uploadsFixture } from './uploads.fixture.ts';

const fixture = uploadsFixture();
const { ingest } = fixture;
const picture = noisePng('a', 80, 60);

const stored = async (mediaId: string | null) => {
  const media = mediaId === null ? null : await ingest.repositories.media.find(mediaId);
  expect(media === null || media.sha256 === sha256(picture)).toBe(true);
  return media && { media, bytes: await ingest.store.readAll(originalKey(media.sha256)) };
};

describe('an upload', () => {
  it('invariant 1: becomes a media object with its last byte, named until it expires', async () => {
    const { create, patch, head, folder, uploads } = await fixture.run();
    const path = await create(picture.length, { filename: 'mountain.png' });
    expect(await head(path)).toMatchObject({ status: 200, offset: 0, mediaId: null });
    expect(await patch(path, 0, picture.subarray(0, 1000))).toMatchObject({ status: 204, offset: 1000, mediaId: null });
    expect(await head(path)).toMatchObject({ offset: 1000, headers: { 'upload-length': String(picture.length) } });
    const last = await patch(path, 1000, picture.subarray(1000));
    expect(last).toMatchObject({ status: 204, offset: picture.length, headers: { 'mds-media-created': 'true' } });
    const kept = await stored(last.mediaId);
    expect(kept?.bytes?.equals(picture)).toBe(true);
    expect(kept?.media).toMatchObject({ filename: 'mountain.png', sha256: sha256(picture), status: 'queued' });
    expect(await head(path)).toMatchObject({ status: 200, offset: picture.length, mediaId: last.mediaId });
    expect(await readdir(folder), 'its bytes are in the store alone').toEqual([]);
    expect(await uploads.stats()).toEqual({
      open: 0,
      receiving: 0,
      receivedBytes: picture.length,
      over: { accepted: 1 },
    });
  });

  it('completes with its creation if that request sends all bytes', async () => {
    const { ask } = await fixture.run();
    const headers = { ...OFFSET_OCTETS, 'upload-length': String(picture.length) };
    const created = await ask('POST', UPLOADS_PATH, headers, picture);
    expect(created).toMatchObject({ status: 201, offset: picture.length, mediaId: expect.stringMatching(/^med_/) });
    expect((await ask('HEAD', created.headers['location'] ?? '')).mediaId).toBe(created.mediaId);
  });

  it('may declare its length later, once', async () => {
    const { create, patch, head } = await fixture.run();
    const path = await create(null);
    expect((await head(path)).headers['upload-defer-length']).toBe('1');
    await patch(path, 0, picture.subarray(0, 500));
    const length = { 'upload-length': String(picture.length) };
    expect(await patch(path, 500, picture.subarray(500, 900), length)).toMatchObject({ status: 204, offset: 900 });
    expect((await head(path)).headers).not.toHaveProperty('upload-defer-length');
    expect(await patch(path, 900, Buffer.alloc(1), length)).toMatchObject({ status: 400, code: 'invalid_request' });
    const last = await patch(path, 900, picture.subarray(900));
    expect((await stored(last.mediaId))?.bytes?.equals(picture)).toBe(true);
  });

  it('without a declared length ends with an empty body that declares it', async () => {
    const { create, patch } = await fixture.run();
    const path = await create(null);
    expect(await patch(path, 0, picture)).toMatchObject({ status: 204, mediaId: null });
    const declared = await patch(path, picture.length, Buffer.alloc(0), { 'upload-length': String(picture.length) });
    expect(declared).toMatchObject({ status: 204, mediaId: expect.stringMatching(/^med_/) });
  });

  it('returns its metadata unchanged', async () => {
    const { create, head } = await fixture.run();
    const path = await create(10, { filename: 'Ærø ☃.png', 'x-own': '' });
    expect((await head(path)).headers['upload-metadata']).toBe(
      `${metadataHeader({ filename: 'Ærø ☃.png' })},x-own `.trim(),
    );
  });

  it.each([
    ['existing', false],
    ['allow', true],
  ])('of known bytes with duplicate=%s gives the expected media object', async (duplicate, another) => {
    const { create, patch } = await fixture.run();
    const first = await patch(await create(picture.length), 0, picture);
    const second = await patch(await create(picture.length, { duplicate, filename: 'other.png' }), 0, picture);
    expect(second.mediaId !== first.mediaId).toBe(another);
    expect(second.headers['mds-media-created']).toBe(String(another));
    expect(await ingest.objects()).toEqual([originalKey(sha256(picture))]);
  });

  it('repeated with its idempotency key gives the same media object; other bytes fail', async () => {
    const { create, patch } = await fixture.run();
    const keyed = { idempotency_key: 'order-17', duplicate: 'allow' };
    const first = await patch(await create(picture.length, keyed), 0, picture);
    const again = await patch(await create(picture.length, keyed), 0, picture);
    expect(again).toMatchObject({ status: 204, mediaId: first.mediaId, headers: { 'mds-media-created': 'false' } });
    const other = noisePng('b');
    const path = await create(other.length, keyed);
    expect(await patch(path, 0, other)).toMatchObject({ status: 409, code: 'idempotency_conflict' });
  });
});

describe('the checksum of an upload', () => {
  const hex = sha256(picture);
  const base64 = createHash('sha256').update(picture).digest('base64');

  it.each([hex, `sha256 ${base64}`])('accepts matching bytes: %s', async (checksum) => {
    const { create, patch } = await fixture.run();
    const path = await create(picture.length, { checksum });
    await patch(path, 0, picture.subarray(0, 7));
    expect(await patch(path, 7, picture.subarray(7))).toMatchObject({ status: 204, mediaId: expect.any(String) });
  });

  it('refuses a file that does not match, and keeps nothing of it', async () => {
    const { create, patch, head, folder } = await fixture.run();
    const path = await create(picture.length, { checksum: hex });
    const changed = Buffer.from(picture).fill(7, 40, 41);
    expect(await patch(path, 0, changed)).toMatchObject({
      status: 422,
      code: 'checksum_mismatch',
      headers: { 'mds-problem-code': 'checksum_mismatch' },
    });
    expect(await head(path)).toMatchObject({ status: 410, headers: { 'mds-problem-code': 'checksum_mismatch' } });
    expect(await readdir(folder)).toEqual([]);
    await ingest.expectNothingKept();
  });

  it('is refused before a byte is sent if its algorithm is unknown', async () => {
    const { ask, folder } = await fixture.run();
    const headers = { 'upload-length': '10', 'upload-metadata': metadataHeader({ checksum: 'md5 abc' }) };
    expect(await ask('POST', UPLOADS_PATH, headers)).toMatchObject({
      status: 400,
      code: 'invalid_request',
      detail: expect.stringContaining('checksum'),
    });
    expect(await readdir(folder)).toEqual([]);
    expect(await ingest.repositories.uploads.countOpen()).toBe(0);
  });
});

describe('an upload that gives no media object', () => {
  it('is refused with the reason at its last byte, and with 410 and the reason later', async () => {
    const { create, patch, head, folder, uploads } = await fixture.run();
    const letter = Buffer.from('Just a letter, not a picture.'.repeat(50));
    const path = await create(letter.length, { filename: 'picture.png' });
    expect(await patch(path, 0, letter)).toMatchObject({ status: 422, code: 'unsupported_format' });
    const later = await patch(path, letter.length, Buffer.alloc(0));
    expect(later).toMatchObject({
      status: 410,
      code: 'upload_gone',
      headers: { 'mds-problem-code': 'unsupported_format' },
    });
    expect(later.detail).toContain('unsupported_format');
    expect(await head(path)).toMatchObject({ status: 410, headers: { 'mds-problem-code': 'unsupported_format' } });
    expect(await readdir(folder)).toEqual([]);
    await ingest.expectNothingKept();
    expect((await uploads.stats()).over).toEqual({ rejected: 1 });
  });

  it('is refused at its creation, or when it declares that it is empty', async () => {
    const { ask, create, patch, folder } = await fixture.run();
    expect(await ask('POST', UPLOADS_PATH, { 'upload-length': '0' })).toMatchObject({
      status: 422,
      code: 'empty_file',
    });
    const path = await create(null);
    expect(await patch(path, 0, Buffer.alloc(0), { 'upload-length': '0' })).toMatchObject({
      status: 422,
      code: 'empty_file',
    });
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('fault 21: file names of uploads', () => {
  it.each([
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\con', 'con'],
    ['a\0b.png', 'ab.png'],
    ['%2e%2e%2fpasswd', '%2e%2e%2fpasswd'],
    ['\u{1f600}'.repeat(1024), '\u{1f600}'.repeat(255)],
  ])('%j becomes a label at most, never a part of a path', async (filename, label) => {
    const { create, patch, folder } = await fixture.run();
    const path = await create(picture.length, { filename });
    expect(await readdir(folder)).toEqual([path.split('/').pop()]);
    const { mediaId } = await patch(path, 0, picture);
    expect((await stored(mediaId))?.media.filename).toBe(label);
    expect((await readdir(ingest.root)).sort()).toEqual(['objects', 'staging', 'uploads']);
  });

  it.each(['..', '../../mds.sqlite', '%2e%2e%2fmds.sqlite', 'upl_x', 'upl_00000000000000000000000000/', 'upl_0.whole'])(
    '%s finds no upload and no file',
    async (name) => {
      const { ask } = await fixture.run();
      for (const method of ['HEAD', 'PATCH', 'DELETE']) {
        const answer = await ask(method, `${UPLOADS_PATH}/${name}`, { ...OFFSET_OCTETS, 'upload-offset': '0' });
        expect(answer.status, method).toBe(404);
      }
    },
  );
});

describe('the end of an upload', () => {
  it('by DELETE gives 410 from then on and frees its slot', async () => {
    const { create, patch, ask, head, folder, uploads } = await fixture.run({ maxOpen: 1 });
    const path = await create(picture.length);
    await patch(path, 0, picture.subarray(0, 10));
    expect(await ask('DELETE', path)).toMatchObject({ status: 204 });
    expect(await head(path)).toMatchObject({ status: 410, headers: { 'mds-problem-code': 'upload_gone' } });
    expect(await ask('DELETE', path)).toMatchObject({ status: 410, code: 'upload_gone' });
    expect(await readdir(folder)).toEqual([]);
    expect((await uploads.stats()).over).toEqual({ terminated: 1 });
    await create(10);
  });

  it('by DELETE is refused after it became a media object, which stays', async () => {
    const { create, patch, ask } = await fixture.run();
    const path = await create(picture.length);
    const { mediaId } = await patch(path, 0, picture);
    expect(await ask('DELETE', path)).toMatchObject({ status: 409, code: 'state_conflict' });
    expect((await stored(mediaId))?.bytes?.equals(picture)).toBe(true);
  });

  it('comes by expiry if no bytes arrive in time; every request renews it', async () => {
    const { create, patch, head, folder, uploads } = await fixture.run({ expiryMs: 3000 });
    const [abandoned, kept] = [await create(picture.length), await create(picture.length)];
    const renewed = setInterval(() => void patch(kept, 0, Buffer.alloc(0)), 300);
    try {
      await expect.poll(async () => (await uploads.stats()).over, { timeout: 15_000 }).toEqual({ expired: 1 });
      expect(await head(kept)).toMatchObject({ status: 200 });
    } finally {
      clearInterval(renewed);
    }
    expect(await readdir(folder)).toEqual([kept.split('/').pop()]);
    expect([404, 410]).toContain((await head(abandoned)).status);
    // Finally the service forgets both.
    await expect.poll(async () => (await head(kept)).status, { timeout: 20_000 }).toBe(404);
    expect(await readdir(folder)).toEqual([]);
  }, 60_000);

  it('reaches the other uploads even if one cannot be removed', async () => {
    const { uploads: rows } = ingest.repositories;
    const stuck: string[] = [];
    const { create, uploads } = await fixture.run({
      expiryMs: 1_000,
      uploads: {
        ...rows,
        lock: (id, holder) =>
          stuck.includes(id) ? Promise.reject(new Error('a lock nobody gets')) : rows.lock(id, holder),
      },
    });
    stuck.push((await create(picture.length)).split('/').pop() ?? '');
    await create(picture.length);
    await expect.poll(async () => (await uploads.stats()).over, { timeout: 15_000 }).toEqual({ expired: 1 });
    stuck.pop();
    await expect.poll(async () => (await uploads.stats()).over, { timeout: 15_000 }).toEqual({ expired: 2 });
  });

  it('takes effect at the expiry time, whether or not it has been removed', async () => {
    const { create, patch, head } = await fixture.run();
    const path = await create(picture.length);
    await ingest.repositories.uploads.postpone(path.split('/').pop() ?? '', Date.now() - 1);
    expect(await head(path)).toMatchObject({ status: 410 });
    expect(await patch(path, 0, picture)).toMatchObject({ status: 410, code: 'upload_gone' });
  });
});

describe('bounds of uploads', () => {
  it('too many open uploads of a token give 429 with Retry-After until one is done', async () => {
    const { create, patch, ask, folder } = await fixture.run({ maxOpen: 2 });
    const first = await create(picture.length);
    await create(10);
    const refused = await ask('POST', UPLOADS_PATH, { 'upload-length': '10' });
    expect(refused).toMatchObject({ status: 429, code: 'too_many_uploads', headers: { 'retry-after': '60' } });
    expect(await readdir(folder)).toHaveLength(2);
    await patch(first, 0, picture);
    await create(10);
  });

  it('uploads of other projects do not exist', async () => {
    const { create, ask } = await fixture.run();
    const path = await create(picture.length);
    const other = { ...OFFSET_OCTETS, 'upload-offset': '0', 'x-project': 'other' };
    expect((await ask('HEAD', path, other)).status).toBe(404);
    for (const method of ['PATCH', 'DELETE'])
      expect(await ask(method, path, other), method).toMatchObject({ status: 404, code: 'upload_not_found' });
  });

  it('fault 12: a declared length over the limit gives 413, at creation or later', async () => {
    const { ask, create, patch, head, folder } = await fixture.run();
    const refused = await ask('POST', UPLOADS_PATH, { 'upload-length': '2000001' });
    expect(refused).toMatchObject({
      status: 413,
      code: 'payload_too_large',
      detail: expect.stringContaining('2000000'),
    });
    expect(await readdir(folder)).toEqual([]);
    const path = await create(null);
    expect(await patch(path, 0, Buffer.from('abc'), { 'upload-length': '2000001' })).toMatchObject({ status: 413 });
    expect(await head(path)).toMatchObject({ status: 200, offset: 0, headers: { 'upload-defer-length': '1' } });
  });

  it('fault 12: a wrong offset gives 409, and nothing changes', async () => {
    const { create, patch, head, folder } = await fixture.run();
    const path = await create(picture.length);
    await patch(path, 0, picture.subarray(0, 100));
    for (const offset of [0, 99, 101, picture.length]) {
      const answer = await patch(path, offset, picture.subarray(100, 200));
      expect(answer, String(offset)).toMatchObject({ status: 409, code: 'upload_offset_conflict' });
      expect((await head(path)).offset).toBe(100);
    }
    expect((await stat(join(folder, path.split('/').pop() ?? ''))).size).toBe(100);
    const last = await patch(path, 100, picture.subarray(100));
    expect((await stored(last.mediaId))?.bytes?.equals(picture)).toBe(true);
  });

  it.each([
    ['with a Content-Length', {}],
    ['in chunks', { 'transfer-encoding': 'chunked' }],
  ])('fault 12: bytes beyond the length (%s) give 413, and the upload can resume', async (_, chunked) => {
    const { create, patch, open, head } = await fixture.run();
    const path = await create(picture.length);
    await patch(path, 0, picture.subarray(0, 100));
    const headers: Record<string, string> = { ...OFFSET_OCTETS, 'upload-offset': '100', ...chunked };
    // Fills the length with other bytes first: they must leave no trace in the hash either.
    const beyond = [Buffer.alloc(picture.length - 100, 7), Buffer.alloc(70_000)];
    if (!('transfer-encoding' in chunked)) headers['content-length'] = String(Buffer.concat(beyond).length);
    const sending = open('PATCH', path, headers);
    for (const piece of beyond) {
      sending.send(piece);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    sending.end();
    expect(await sending.answer).toMatchObject({ status: 413, code: 'payload_too_large' });
    expect(await head(path)).toMatchObject({ status: 200, offset: 100 });
    const last = await patch(path, 100, picture.subarray(100));
    expect((await stored(last.mediaId))?.bytes?.equals(picture)).toBe(true);
  });

  it('fault 12: a body of unknown length beyond the limit gives 413, offset unchanged', async () => {
    const { create, open, head } = await fixture.run({ maxBytes: 100_000 });
    const path = await create(null);
    const sending = open('PATCH', path, { ...OFFSET_OCTETS, 'upload-offset': '0' });
    sending.send(Buffer.alloc(60_000));
    sending.send(Buffer.alloc(60_000));
    sending.end();
    expect(await sending.answer).toMatchObject({ status: 413, code: 'payload_too_large' });
    expect(await head(path)).toMatchObject({ offset: 0 });
  });
});

describe('requests outside the protocol', () => {
  it.each([
    ['no version', 'POST', { 'tus-resumable': '', 'upload-length': '1' }, 412, 'tus_version_unsupported'],
    ['another version', 'POST', { 'tus-resumable': '0.2.2', 'upload-length': '1' }, 412, 'tus_version_unsupported'],
    ['no length', 'POST', {}, 400, 'invalid_request'],
    ['two lengths', 'POST', { 'upload-length': '1', 'upload-defer-length': '1' }, 400, 'invalid_request'],
    ['a length below zero', 'POST', { 'upload-length': '-1' }, 400, 'invalid_request'],
    ['a length with an exponent', 'POST', { 'upload-length': '1e+21' }, 400, 'invalid_request'],
    ['a concatenation', 'POST', { 'upload-concat': 'partial', 'upload-length': '1' }, 400, 'invalid_request'],
    [
      'metadata that is not base64',
      'POST',
      { 'upload-metadata': 'filename ä', 'upload-length': '1' },
      400,
      'invalid_request',
    ],
    ['a key twice', 'POST', { 'upload-metadata': 'a YQ==,a YQ==', 'upload-length': '1' }, 400, 'invalid_request'],
    ['no offset', 'PATCH', OFFSET_OCTETS, 400, 'invalid_request'],
    ['an offset in words', 'PATCH', { ...OFFSET_OCTETS, 'upload-offset': 'one' }, 400, 'invalid_request'],
    ['no type', 'PATCH', { 'upload-offset': '0' }, 415, 'unsupported_content_type'],
    ['another type', 'PATCH', { 'content-type': 'image/png', 'upload-offset': '0' }, 415, 'unsupported_content_type'],
  ])('%s is refused with a problem document', async (_, method, headers, status, code) => {
    const { ask, create } = await fixture.run();
    const path = method === 'POST' ? UPLOADS_PATH : await create(10);
    const answer = await ask(method, path, headers);
    expect(answer).toMatchObject({ status, code, headers: { 'mds-problem-code': code, 'tus-resumable': '1.0.0' } });
  });

  it('forwarding headers of proxies do not change the Location', async () => {
    const { ask } = await fixture.run();
    const headers = {
      'upload-length': '1',
      'x-forwarded-proto': 'https, http',
      'x-forwarded-host': 'elsewhere.example',
    };
    const created = await ask('POST', UPLOADS_PATH, headers);
    expect(created).toMatchObject({
      status: 201,
      headers: { location: expect.stringMatching(/^\/control\/v1\/uploads\/upl_/) },
    });
  });

  it('X-HTTP-Method-Override turns a POST into the named method', async () => {
    const { create, ask } = await fixture.run();
    const path = await create(picture.length);
    const headers = { ...OFFSET_OCTETS, 'upload-offset': '0', 'x-http-method-override': 'PATCH' };
    expect(await ask('POST', path, headers, picture)).toMatchObject({ status: 204, mediaId: expect.any(String) });
  });

  it('OPTIONS returns the protocol version, the largest size and the extensions', async () => {
    const { ask } = await fixture.run();
    expect(await ask('OPTIONS', UPLOADS_PATH)).toMatchObject({
      status: 204,
      headers: {
        'tus-version': '1.0.0',
        'tus-max-size': '2000000',
        'tus-extension': 'creation,creation-with-upload,creation-defer-length,termination,expiration',
      },
    });
  });
});
