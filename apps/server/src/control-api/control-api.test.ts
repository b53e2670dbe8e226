import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { MediaDetail, MediaDetailList, Problem } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';

let app: AppFixture;

beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

const file = Buffer.from('the file itself');
const upload = (query = '', init: RequestInit & { token?: string } = {}) =>
  app.control(`/media${query}`, { method: 'POST', body: file, ...init });

async function problem(response: Response, status: number, code: string): Promise<Problem> {
  const found = Problem.parse(await response.json());
  expect([response.status, found.code]).toEqual([status, code]);
  expect(response.headers.get('cache-control')).toBe('no-store');
  return found;
}

describe('requests without the right token', () => {
  it.each([
    ['no token', undefined, 'Bearer realm="mds"'],
    ['another scheme', 'Basic YWRtaW46YWRtaW4=', 'Bearer realm="mds", error="invalid_request"'],
    ['no token after the scheme', 'Bearer ', 'Bearer realm="mds", error="invalid_request"'],
    [
      'an unknown token',
      'Bearer wrong',
      'Bearer realm="mds", error="invalid_token", error_description="unknown token"',
    ],
    [
      'the hash of a token',
      `Bearer ${createHash('sha256').update(TOKENS.operate).digest('hex')}`,
      'Bearer realm="mds", error=',
    ],
  ])('read and change nothing: %s gives 401 with a challenge', async (_name, authorization, challenge) => {
    const before = app.ingested.length;
    for (const [method, path] of [
      ['GET', '/control/v1/media'],
      ['POST', '/control/v1/media'],
      ['GET', '/control/v1/nowhere'],
      ['DELETE', '/control/v1/media/med_01k0c4s6q8y2v4w6x8z0a2c4e6'],
    ] as const) {
      const response = await app.get(path, {
        method,
        headers: authorization === undefined ? {} : { authorization },
        ...(method === 'POST' ? { body: file } : {}),
      });
      const found = await problem(response, 401, 'unauthorized');
      expect(found.detail.length).toBeGreaterThan(20);
      expect(response.headers.get('www-authenticate')).toContain(challenge);
    }
    expect(app.ingested.length).toBe(before);
  });

  it('with an ingest token cannot delete or retry: 403 names the scope', async () => {
    const id = await app.addMedia();
    for (const [method, path] of [
      ['DELETE', `/media/${id}`],
      ['POST', `/media/${id}/retry`],
    ] as const) {
      const response = await app.control(path, { method, token: TOKENS.ingest });
      await problem(response, 403, 'forbidden');
      expect(response.headers.get('www-authenticate')).toContain('error="insufficient_scope", scope="operate"');
    }
    expect(await app.repositories.media.find(id)).not.toBeNull();
    expect((await app.control(`/media/${id}`, { token: TOKENS.ingest })).status).toBe(200);
  });

  it("with another project's token neither see nor change a media object", async () => {
    const id = await app.addMedia();
    const token = TOKENS.other;
    await problem(await app.control(`/media/${id}`, { token }), 404, 'media_not_found');
    await problem(await app.control(`/media/${id}`, { method: 'DELETE', token }), 404, 'media_not_found');
    await problem(await app.control(`/media/${id}/retry`, { method: 'POST', token }), 404, 'media_not_found');
    const list = MediaDetailList.parse(await (await app.control('/media?limit=100', { token })).json());
    expect(list.data.map((media) => media.id)).not.toContain(id);
    expect(await app.repositories.media.find(id)).not.toBeNull();
  });
});

describe('an ingest request', () => {
  it('passes its body and its options on, and is answered with Location', async () => {
    const response = await upload('?filename=%C3%BC%2Fa.png&duplicate=allow', {
      headers: { 'idempotency-key': 'once', 'content-type': 'image/png' },
    });
    expect(response.status).toBe(201);
    const detail = MediaDetail.parse(await response.json());
    expect(response.headers.get('location')).toBe(`/control/v1/media/${detail.id}`);
    expect(app.ingested.at(-1)).toEqual({
      body: file,
      input: {
        projectId: 'default',
        filename: 'ü/a.png',
        idempotencyKey: 'once',
        duplicate: 'allow',
        declaredBytes: file.length,
      },
    });
  });

  it('adds the media object to the project of the token, whatever the Host is', async () => {
    expect((await upload('', { token: TOKENS.other })).status).toBe(201);
    expect(app.ingested.at(-1)?.input.projectId).toBe('other');
  });

  it('is accepted without a length, and with the form type that curl sends', async () => {
    const body = new Blob([file]).stream();
    const chunked = await upload('', { body, duplex: 'half' } as RequestInit);
    expect(chunked.status).toBe(201);
    expect(app.ingested.at(-1)?.input.declaredBytes).toBeNull();
    const curl = await upload('', { headers: { 'content-type': 'application/x-www-form-urlencoded' } });
    expect(curl.status).toBe(201);
  });

  it.each([
    ['multipart/form-data; boundary=x', 'content-type', '--data-binary'],
    ['application/vnd.api+json', 'content-type', 'source_url'],
  ])('of type %s is refused with a hint how to send a file', async (type, header, hint) => {
    const found = await problem(
      await upload('', { headers: { 'content-type': type } }),
      415,
      'unsupported_content_type',
    );
    expect(found.detail).toContain(hint);
    expect(found.errors).toEqual([{ in: 'header', path: header, message: 'is not accepted here' }]);
  });

  it('with a compressed body is refused, not stored as if it were the file', async () => {
    const found = await problem(
      await upload('', { headers: { 'content-encoding': 'gzip' } }),
      415,
      'unsupported_content_type',
    );
    expect(found.detail).toContain('Content-Encoding');
  });

  it.each([
    ['duplicate=maybe', 'duplicate'],
    ['filename=', 'filename'],
    [`filename=${'%F0%9F%98%80'.repeat(1024)}`.slice(0, 8000), 'filename'],
    ['filename=a&filename=b', 'filename'],
  ])('with a bad parameter is refused before its body is read: %s', async (query, path) => {
    const before = app.ingested.length;
    const found = await problem(await upload(`?${query}`), 400, 'invalid_request');
    expect(found.errors?.[0]).toMatchObject({ in: 'query', path });
    expect(app.ingested.length).toBe(before);
  });

  it('whose body was damaged in transit is not stored if it has a digest', async () => {
    const digest = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('base64');
    for (const [name, value, status] of [
      ['content-digest', `sha-256=:${digest('sha256', file)}:`, 201],
      ['repr-digest', `md5=:x:, sha-512=:${digest('sha512', file)}:`, 201],
      ['content-digest', `crc32c=:AAAAAA==:`, 201],
      ['content-digest', `sha-256=:${digest('sha256', Buffer.from('other'))}:`, 400],
      ['content-digest', 'sha-256=:AAAA:', 400],
      ['digest', `SHA-256=${digest('sha256', file)}`, 201],
      ['digest', `MD5=AAAA, SHA-512=${digest('sha512', Buffer.from('other'))}`, 400],
    ] as const) {
      const before = app.ingested.length;
      const response = await upload('', { headers: { [name]: value } });
      expect([value, response.status]).toEqual([value, status]);
      expect(app.ingested.length).toBe(status === 201 ? before + 1 : before);
    }
    const response = await upload('', {
      headers: { 'content-digest': `sha-256=:${digest('sha256', Buffer.from('x'))}:` },
    });
    await problem(response, 400, 'content_digest_mismatch');
  });

  it('that disconnects half-way stores nothing and harms no other request', async () => {
    const before = app.ingested.length;
    await new Promise<void>((resolve) => {
      const socket = connect(app.port, '127.0.0.1', () => {
        socket.write(
          `POST /control/v1/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKENS.ingest}\r\nContent-Length: 100\r\n\r\nhalf`,
          () => setTimeout(() => socket.destroy(), 50),
        );
      });
      socket.on('close', () => resolve());
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(app.ingested.length).toBe(before);
    expect((await upload()).status).toBe(201);
    expect(app.log.some(({ msg }) => msg === 'unexpected error')).toBe(false);
  });
});

describe('media in detail', () => {
  it('have all known fields, and renditions with public URLs', async () => {
    const id = await app.addMedia({ durationMs: 2_500, filename: 'film.gif', warnings: ['The last frame is cut.'] });
    const lease = await claim(id);
    const rendition = (name: string, state: 'ready' | 'failed', current: boolean, revision = 'aaaaaaaa') => ({
      name,
      extension: 'webp',
      contentType: 'image/webp',
      revision,
      current,
      state,
      reason: null,
      objectKey: `renditions/${name}.${revision}`,
      sha256: 'f'.repeat(64),
      bytes: 10,
      files: 1,
      width: 320,
      height: 240,
    });
    await app.repositories.media.publish(lease, {
      renditions: [rendition('thumb', 'ready', true, 'bbbbbbbb'), rendition('small', 'failed', true)],
      thumbhash: 'AAAA',
      warnings: ['The last frame is cut.'],
    });
    const detail = MediaDetail.parse(await (await app.control(`/media/${id}`)).json());
    expect(detail).toMatchObject({
      status: 'ready',
      duration: 2.5,
      filename: 'film.gif',
      thumbhash: 'AAAA',
      error: null,
    });
    expect(detail.renditions.map(({ name, state }) => `${name} ${state}`)).toEqual(['small failed', 'thumb ready']);
    expect(detail.renditions[1]).toMatchObject({
      url: `https://media.example.test/media/${id}/thumb.webp`,
      immutable_url: `https://media.example.test/media/${id}/thumb.bbbbbbbb.webp`,
    });
  });

  it('can be listed by state, page by page', async () => {
    const failed = [await app.addMedia(), await app.addMedia()];
    for (const id of failed) await fail(id);
    const first = await app.control('/media?status=failed&limit=1');
    const page = MediaDetailList.parse(await first.json());
    expect(page.data.map(({ id }) => id)).toEqual([failed[1]]);
    expect(first.headers.get('link')).toBe(
      `</control/v1/media?limit=1&cursor=${page.next_cursor}&status=failed>; rel="next"`,
    );
    const second = MediaDetailList.parse(
      await (await app.control(`/media?status=failed&limit=1&cursor=${page.next_cursor}`)).json(),
    );
    expect(second.data.map(({ id }) => id)).toEqual([failed[0]]);
    expect(second.next_cursor).toBeNull();
    await problem(await app.control('/media?status=lost'), 400, 'invalid_request');
  });

  it('can be processed again only after they failed', async () => {
    const id = await app.addMedia();
    const refused = await problem(await app.control(`/media/${id}/retry`, { method: 'POST' }), 409, 'state_conflict');
    expect(refused.detail).toContain('queued');
    await fail(id);
    const before = app.woken;
    const response = await app.control(`/media/${id}/retry`, { method: 'POST' });
    expect(response.status).toBe(202);
    expect(MediaDetail.parse(await response.json())).toMatchObject({ status: 'queued', error: null });
    expect(app.woken).toBe(before + 1);
  });

  it('have failed renditions made again; a second request names those under way', async () => {
    const id = await app.addMedia();
    const thumb = {
      ...{ name: 'thumb', extension: 'webp', contentType: 'image/webp', revision: '0000000a', current: true },
      ...{
        reason: null,
        objectKey: 'renditions/thumb',
        sha256: 'f'.repeat(64),
        bytes: 1,
        files: 1,
        width: 1,
        height: 1,
      },
      state: 'ready' as const,
    };
    const unmade = { sha256: null, bytes: null, files: null, width: null, height: null };
    const large = { ...thumb, ...unmade, name: 'large', objectKey: 'renditions/large', reason: 'No memory.' };
    await app.repositories.media.publish(await claim(id), {
      ...{ renditions: [thumb, { ...large, state: 'failed' as const }], thumbhash: null, warnings: [] },
    });
    const response = await app.control(`/media/${id}/retry`, { method: 'POST' });
    expect(response.status).toBe(202);
    const detail = MediaDetail.parse(await response.json());
    expect(detail.status).toBe('ready');
    expect(detail.renditions.map(({ name, state, reason }) => [name, state, reason])).toEqual([
      ['large', 'pending', null],
      ['thumb', 'ready', null],
    ]);
    const again = await problem(await app.control(`/media/${id}/retry`, { method: 'POST' }), 409, 'state_conflict');
    expect(again.detail).toContain('already being made: large.webp.');
  });

  it('are gone after a delete; a second one answers 404', async () => {
    const id = await app.addMedia();
    const response = await app.control(`/media/${id}`, { method: 'DELETE' });
    expect([response.status, await response.text()]).toEqual([204, '']);
    await problem(await app.control(`/media/${id}`, { method: 'DELETE' }), 404, 'media_not_found');
    await problem(await app.control(`/media/${id}`), 404, 'media_not_found');
  });

  it('with a malformed id answer 404', async () => {
    for (const id of ['x', 'med_1', 'MED_01K0C4S6Q8Y2V4W6X8Z0A2C4E6', '%00', '..%2f..%2fetc%2fpasswd', 'con']) {
      await problem(await app.control(`/media/${id}`), 404, 'media_not_found');
    }
  });
});

async function claim(id: string) {
  for (;;) {
    const lease = await app.repositories.jobs.claim('test');
    if (lease === null) throw new Error(`no job for ${id}`);
    if (lease.mediaId === id) return lease;
    await app.repositories.media.publish(lease, { renditions: [], thumbhash: null, warnings: [] });
  }
}

async function fail(id: string) {
  await app.repositories.media.fail(await claim(id), { code: 'corrupt_media', message: 'Damaged.', retryable: false });
}
