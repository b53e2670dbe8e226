import { afterEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { send } from './requests.fixture.ts';

type Json = Record<string, unknown>;

let app: AppFixture;
afterEach(() => app.stop());

const asked = { source_url: 'https://example.org/a/b%20c.png?token=x' };
const post = (body: unknown, headers: Record<string, string> = {}) =>
  app.control('/media', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });
const json = async (response: Response) => (await response.json()) as Json;

describe('POST /control/v1/media with JSON', () => {
  it('answers 202 with the fetch and its Location', async () => {
    app = await startApp();
    const response = await post(asked);
    const fetch = await json(response);
    expect([response.status, response.headers.get('location')]).toEqual([202, `/control/v1/fetches/${fetch['id']}`]);
    expect(fetch).toEqual({
      ...{ object: 'fetch', id: expect.stringMatching(/^fch_[0-9a-z]{26}$/), status: 'queued', filename: 'b c.png' },
      ...{ created_at: expect.stringMatching(/Z$/), updated_at: expect.stringMatching(/Z$/) },
      ...{ source_url: 'https://example.org/a/b%20c.png', received_bytes: 0, total_bytes: null, attempts: 0 },
      ...{ media_id: null, created: null, error: null },
    });
    expect(await json(await app.control(`/fetches/${fetch['id']}`))).toEqual(fetch);
    expect(app.ingested).toEqual([]);
  });

  it('takes a body of any other type as the file', async () => {
    app = await startApp();
    const file = await app.control('/media', {
      method: 'POST',
      body: '{"source_url":"http://x"}',
      headers: { 'content-type': 'text/plain' },
    });
    expect(file.status).toBe(201);
    expect(app.ingested).toHaveLength(1);
  });

  it.each([
    ['{', 400, 'invalid_request', /not valid JSON/],
    ['', 400, 'invalid_request', /./],
    [{}, 400, 'invalid_request', /source_url must be an http or https URL/],
    [{ source_url: 7 }, 400, 'invalid_request', /source_url/],
    [{ source_url: `http://x/${'a'.repeat(8192)}` }, 400, 'invalid_request', /8192/],
    [{ ...asked, duplicate: 'maybe' }, 400, 'invalid_request', /existing or allow/],
    [{ ...asked, filename: '' }, 400, 'invalid_request', /filename/],
    [{ ...asked, sourceUrl: 'x' }, 400, 'invalid_request', /^In the body, sourceUrl is unknown\.$/],
    ['[]', 400, 'invalid_request', /^The body must be a JSON object\.$/],
    [{ source_url: '/etc/passwd' }, 400, 'invalid_request', /source_url must be an http or https URL/],
    [{ source_url: 'http://' }, 400, 'invalid_request', /source_url must be an http or https URL/],
    [{ source_url: 'file:///etc/passwd' }, 422, 'source_not_allowed', /file:/],
    [{ source_url: 'http://u:p@example.org/' }, 422, 'source_not_allowed', /user name/],
  ])('%j is answered with %i %s', async (body, status, code, detail) => {
    app = await startApp();
    const response = await post(body);
    expect(response.status).toBe(status);
    expect(await json(response)).toMatchObject({ code, detail: expect.stringMatching(detail) });
    expect(await json(await app.control('/fetches'))).toMatchObject({ data: [] });
  });

  it('a repeated Idempotency-Key returns the same fetch and refuses another request', async () => {
    app = await startApp();
    const key = { 'idempotency-key': 'k' };
    const first = await json(await post(asked, key));
    expect(await json(await post(asked, key))).toEqual(first);
    for (const other of [{ source_url: 'https://example.org/other' }, { ...asked, duplicate: 'allow' }]) {
      expect(await json(await post(other, key))).toMatchObject({ status: 409, code: 'idempotency_conflict' });
    }
    expect((await json(await app.control('/fetches')))['data']).toHaveLength(1);
  });

  it('an Idempotency-Key of a file is refused for a URL', async () => {
    app = await startApp();
    const id = await app.addMedia();
    const mediaObject = await app.repositories.media.find(id);
    if (mediaObject === null) throw new Error('The media object is gone.');
    await app.repositories.media.accept(
      { ...mediaObject, id: `${id.slice(0, -1)}z`, identified: {} },
      { duplicate: 'allow', idempotencyKey: 'k' },
    );
    expect(await json(await post(asked, { 'idempotency-key': 'k' }))).toMatchObject({ code: 'idempotency_conflict' });
  });

  it('a full queue answers 429 with Retry-After', async () => {
    app = await startApp({ fetches: { maxWaiting: 2 } });
    await post(asked);
    await post(asked);
    const third = await post(asked);
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '60']);
    expect(await json(third)).toMatchObject({ code: 'too_many_fetches' });
    const other = await send(app, 'POST', '/media', asked, TOKENS.other);
    expect(other.status).toBe(202);
  });
});

describe('Prefer: wait', () => {
  const settling = (waited: number[], end: (id: string) => Promise<unknown>) => ({
    wake: () => undefined,
    canceled: () => undefined,
    settled: async (id: string, { timeoutMs }: { timeoutMs: number }) => {
      waited.push(timeoutMs);
      await end(id);
      const found = await app.repositories.fetches.find(id);
      return found?.status === 'queued' ? null : found;
    },
  });
  const endAs = (end: Parameters<AppFixture['repositories']['fetches']['end']>[1]) => async () => {
    const lease = await app.repositories.fetches.claim();
    if (lease !== null) await app.repositories.fetches.end(lease, end);
  };

  it('answers 201 or 200 with the media object if it is accepted in time', async () => {
    const waited: number[] = [];
    let mediaId = '';
    let mediaCreated = true;
    app = await startApp({
      fetches: { runner: settling(waited, () => endAs({ status: 'done', mediaId, mediaCreated, receivedBytes: 9 })()) },
    });
    mediaId = await app.addMedia();
    const created = await post(asked, { prefer: 'respond-async, wait=10' });
    expect([created.status, created.headers.get('preference-applied')]).toEqual([201, 'wait=10']);
    expect(created.headers.get('location')).toBe(`/control/v1/media/${mediaId}`);
    expect(await json(created)).toMatchObject({ id: mediaId, renditions: [] });
    mediaCreated = false;
    expect((await post(asked, { prefer: 'wait=3600' })).status).toBe(200);
    expect(waited).toEqual([10_000, 60_000]);
  });

  it('answers with the problem of a failed fetch, and with 202 if it takes longer', async () => {
    let fails = true;
    const failure = { code: 'source_timeout', message: 'The source took too long.', retryable: true };
    app = await startApp({
      fetches: { runner: settling([], async () => fails && endAs({ status: 'failed', failure })()) },
    });
    const failed = await post(asked, { prefer: 'wait=1' });
    expect(failed.status).toBe(504);
    expect(await json(failed)).toMatchObject({ code: 'source_timeout', detail: 'The source took too long.' });
    fails = false;
    const later = await post(asked, { prefer: 'wait="1"' });
    expect(later.status).toBe(202);
    expect(await json(later)).toMatchObject({ object: 'fetch', status: 'queued' });
  });

  it.each(['wait', 'wait=-1', 'wait=x', 'await=3', ''])('%j is not understood and is ignored', async (prefer) => {
    const waited: number[] = [];
    app = await startApp({ fetches: { runner: settling(waited, async () => undefined) } });
    const response = await post(asked, { prefer });
    expect([response.status, response.headers.get('preference-applied'), waited]).toEqual([202, null, []]);
  });
});

describe('/control/v1/fetches', () => {
  it('lists fetches newest first, page by page and by status', async () => {
    app = await startApp();
    const ids = [];
    for (let n = 0; n < 5; n++) ids.unshift((await json(await post(asked)))['id']);
    await app.control(`/fetches/${ids[4]}`, { method: 'DELETE' });
    const first = await app.control('/fetches?limit=2&status=queued');
    const page = await json(first);
    expect((page['data'] as Json[]).map(({ id }) => id)).toEqual(ids.slice(0, 2));
    expect(first.headers.get('link')).toBe(
      `</control/v1/fetches?limit=2&cursor=${page['next_cursor']}&status=queued>; rel="next"`,
    );
    const rest = await json(await app.control(`/fetches?limit=2&status=queued&cursor=${page['next_cursor']}`));
    expect((rest['data'] as Json[]).map(({ id }) => id)).toEqual(ids.slice(2, 4));
    expect(rest['next_cursor']).toBeNull();
    expect((await json(await app.control('/fetches?status=canceled')))['data']).toMatchObject([{ id: ids[4] }]);
    // A cursor belongs to one list.
    expect(await json(await app.control(`/media?cursor=${page['next_cursor']}`))).toMatchObject({
      code: 'invalid_cursor',
    });
    expect(await json(await app.control('/fetches?status=ready'))).toMatchObject({
      detail: expect.stringContaining('canceled'),
    });
  });

  it('cancels a fetch once', async () => {
    const canceled: string[] = [];
    app = await startApp({
      fetches: { runner: { wake: () => undefined, canceled: (id) => canceled.push(id), settled: async () => null } },
    });
    const { id } = await json(await post(asked));
    const answer = await app.control(`/fetches/${id}`, { method: 'DELETE' });
    expect(answer.status).toBe(200);
    expect(await json(answer)).toMatchObject({ id, status: 'canceled' });
    expect(canceled).toEqual([id]);
    expect(await json(await app.control(`/fetches/${id}`, { method: 'DELETE' }))).toMatchObject({
      code: 'state_conflict',
      detail: expect.stringContaining('canceled'),
    });
  });

  it('answers 404 for fetches of other projects, as for unknown ones', async () => {
    app = await startApp();
    const { id } = await json(await post(asked));
    for (const [path, token] of [
      [`/fetches/${id}`, TOKENS.other],
      ['/fetches/fch_00000000000000000000000000', TOKENS.operate],
      ['/fetches/nonsense', TOKENS.operate],
    ] as const) {
      for (const method of ['GET', 'DELETE']) {
        expect(await json(await app.control(path, { method, token }))).toMatchObject({
          status: 404,
          code: 'fetch_not_found',
        });
      }
    }
    expect((await json(await app.control('/fetches', { token: TOKENS.other })))['data']).toEqual([]);
    expect((await app.control(`/fetches/${id}`, { method: 'PUT' })).headers.get('allow')).toBe('GET, HEAD, DELETE');
    expect((await app.control(`/fetches/${id}`, { token: TOKENS.ingest })).status).toBe(200);
  });
});
