import { MediaList, Problem } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AppFixture, mediaId, startApp } from '../../test/support/app-fixture.ts';
import { encodeCursor } from '../base/cursor.ts';

let app: AppFixture;
const added: string[] = [];

beforeAll(async () => {
  app = await startApp();
  for (let i = 0; i < 7; i += 1) added.push(await app.addMedia());
  await app.addMedia({ projectId: 'other' });
});
afterAll(() => app.stop());

async function page(query: string): Promise<MediaList & { link: string | null }> {
  const response = await app.get(`/api/v1/media?${query}`);
  expect(response.status).toBe(200);
  return { ...MediaList.parse(await response.json()), link: response.headers.get('link') };
}

describe('pages of media', () => {
  it('contain all media, newest first, none repeated or missed', async () => {
    const seen: string[] = [];
    let query = 'limit=3';
    const sizes: number[] = [];
    for (;;) {
      const { data, next_cursor, link } = await page(query);
      sizes.push(data.length);
      seen.push(...data.map(({ id }) => id));
      if (next_cursor === null) {
        expect(link).toBeNull();
        break;
      }
      expect(link).toBe(`</api/v1/media?limit=3&cursor=${next_cursor}>; rel="next"`);
      query = `limit=3&cursor=${next_cursor}`;
    }
    expect(sizes).toEqual([3, 3, 1]);
    expect(seen).toEqual([...added].reverse());
  });

  it('never end with an empty page: a full last page has no cursor', async () => {
    expect((await page('limit=7')).next_cursor).toBeNull();
    expect((await page('')).next_cursor).toBeNull();
  });

  it('continue at their place while media are added and deleted', async () => {
    const first = await page('limit=3');
    const last = first.data.at(-1)?.id ?? '';
    const newest = await app.addMedia();
    await app.repositories.media.delete(last);
    const second = await page(`limit=3&cursor=${first.next_cursor}`);
    expect(second.data.map(({ id }) => id)).toEqual([...added].reverse().slice(3, 6));
    added.splice(added.indexOf(last), 1);
    added.push(newest);
  });

  it('show the time in whole seconds', async () => {
    const { data } = await page('limit=1');
    expect(data[0]?.created_at).toBe('2026-01-31T08:15:00Z');
  });
});

describe('a cursor that this list did not issue', () => {
  const good = encodeCursor('default', mediaId());
  const flipped = (at: number) => `${good.slice(0, at)}${good[at] === 'A' ? 'B' : 'A'}${good.slice(at + 1)}`;
  it.each([
    ['is empty', ''],
    ['is a word', 'next'],
    ['was cut', good.slice(0, -1)],
    ['was lengthened', `${good}A`],
    ['has its version changed', flipped(0)],
    ['has its place changed', flipped(20)],
    ['has its check changed', flipped(good.length - 3)],
    ['is padded', `${good}=`],
    ['has a blank in it', `${good.slice(0, 9)} ${good.slice(9)}`],
    ['is of another project', encodeCursor('other', mediaId())],
    ['is far too long', 'A'.repeat(600)],
  ])('is refused with advice, not answered with a wrong page, if it %s', async (_how, cursor) => {
    const response = await app.get(`/api/v1/media?cursor=${encodeURIComponent(cursor)}`);
    expect(response.status).toBe(400);
    const problem = Problem.parse(await response.json());
    expect(problem.code).toBe('invalid_cursor');
    expect(problem.errors).toEqual([
      { in: 'query', path: 'cursor', message: 'must be the next_cursor of a previous answer, unchanged' },
    ]);
  });

  it('differs from a valid cursor, which is accepted', async () => {
    expect((await app.get(`/api/v1/media?cursor=${good}`)).status).toBe(200);
  });
});

describe('the current project', () => {
  const list = async (headers: Record<string, string>) => {
    // `fetch` does not let callers set the Host header.
    const { request } = await import('node:http');
    return new Promise<MediaList>((resolve, reject) => {
      request(`${app.url}/api/v1/media`, { headers }, (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
        });
        res.on('end', () => resolve(MediaList.parse(JSON.parse(text))));
      })
        .on('error', reject)
        .end();
    });
  };

  it('is the project of the Host, in any case and port; `default` for unknown hosts', async () => {
    for (const host of ['other.test', 'OTHER.test:8080', 'other.test.']) {
      expect((await list({ host })).data).toHaveLength(1);
    }
    expect((await list({ host: 'stranger.test' })).data).toHaveLength(7);
  });

  it('is not taken from forwarding headers, which anybody can forge', async () => {
    const forwarded = { 'x-forwarded-host': 'other.test', forwarded: 'host=other.test' };
    expect((await list({ host: 'a.test', ...forwarded })).data).toHaveLength(7);
  });
});

describe('query parameters', () => {
  it.each(['0', '101', '-1', '1.5', '1e1', 'ten', '', ' ', '0x10', '99999999999', 'NaN'])(
    'refuse limit=%j with its bounds instead of guessing',
    async (limit) => {
      for (const list of ['media', 'assets']) {
        const response = await app.get(`/api/v1/${list}?limit=${encodeURIComponent(limit)}`);
        expect(response.status).toBe(400);
        expect(Problem.parse(await response.json())).toMatchObject({
          code: 'invalid_request',
          errors: [{ in: 'query', path: 'limit', message: 'must be a whole number from 1 to 100' }],
        });
      }
    },
  );

  it('refuse a repeated parameter and ignore unknown ones', async () => {
    for (const query of ['limit=1&limit=1', 'cursor=a&cursor=b']) {
      const response = await app.get(`/api/v1/media?${query}`);
      expect(Problem.parse(await response.json())).toMatchObject({ status: 400, code: 'invalid_request' });
    }
    expect((await page('utm=1&utm=2&limit=1')).data).toHaveLength(1);
  });
});

describe('assets', () => {
  it('cover one region or all, latest first; an unknown region is an error', async () => {
    const delivered = (region: string, path: string, cacheStatus: 'HIT' | 'MISS') => ({
      region,
      path,
      bytes: 10,
      cacheStatus,
      atMs: 1_800_000_000_500,
    });
    await app.repositories.assets.record(
      [
        delivered('fra1', '/media/a', 'MISS'),
        delivered('lon1', '/media/b', 'MISS'),
        delivered('fra1', '/media/a', 'HIT'),
      ],
      100,
    );
    const paths = async (query: string) => {
      const response = await app.get(`/api/v1/assets${query}`);
      const { data } = (await response.json()) as { data: { path: string; cache_status: string }[] };
      return data.map(({ path, cache_status }) => `${path} ${cache_status}`);
    };
    expect(await paths('')).toEqual(['/media/a HIT', '/media/b MISS']);
    expect(await paths('?limit=1')).toEqual(['/media/a HIT']);
    expect(await paths('?region=lon1')).toEqual(['/media/b MISS']);
    expect(await paths('?region=par1')).toEqual([]);
    for (const region of ['', 'zzz9', 'FRA1', 'fra1%20', 'a'.repeat(100)]) {
      const response = await app.get(`/api/v1/assets?region=${region}`);
      expect(Problem.parse(await response.json())).toMatchObject({ status: 400, code: 'unknown_region' });
    }
  });

  it('accept a region that the operator added', async () => {
    const own = { code: 'ham1', name: 'Hamburg', zone: 'europe-north', country: 'DE', maintenance: false };
    expect((await app.get('/api/v1/assets?region=ham1')).status).toBe(400);
    await app.repositories.regions.put(own);
    expect((await app.get('/api/v1/assets?region=ham1')).status).toBe(200);
  });
});
