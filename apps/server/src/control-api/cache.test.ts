import { Problem, PurgeResult } from '@mds/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, mediaId, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import type { NewRendition } from '../db/media-repository.ts';
import { report, send } from './requests.fixture.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const purge = async (body: object, wait = 0, token?: string) => {
  const answer = await send(app, 'POST', `/cache/purge?wait=${wait}`, body, token);
  expect(answer.status).toBe(200);
  return PurgeResult.parse(await answer.json());
};

const sha = (digit: string) => digit.repeat(64);
const rendition = (name: string, extension: string, sha256: string): NewRendition => ({
  ...{ name, extension, contentType: `image/${extension}`, revision: '0a1b2c3d', current: true, state: 'ready' },
  ...{ reason: null, objectKey: `renditions/${sha256}.${extension}`, sha256, bytes: 10, files: 1 },
  ...{ width: 320, height: 240 },
});

/** A media object with `thumb.webp`, and `medium` in two formats. */
async function readyMedia(): Promise<string> {
  const id = await app.addMedia();
  const { jobs, media } = app.repositories;
  const lease = await jobs.claim('worker');
  if (lease?.mediaId !== id) throw new Error('the queue held another media object');
  const renditions = [
    rendition('thumb', 'webp', sha('a')),
    rendition('medium', 'webp', sha('b')),
    rendition('medium', 'avif', sha('c')),
  ];
  await media.publish(lease, { renditions, thumbhash: null, warnings: [] });
  return id;
}

/** The purges announced to nodes. */
const announcedPurges = async () => {
  const events = await app.repositories.events.after(0, { projectId: null, limit: 100 });
  return events.filter(({ type }) => type === 'cache.purged').map(({ data }) => data);
};

describe('a purge', () => {
  it('reaches this node at once and returns its receipt', async () => {
    const id = await readyMedia();
    expect(await purge({ media_id: id })).toMatchObject({
      complete: true,
      receipts: [{ region: 'fra1', node: 'test', state: 'purged' }],
    });
    await purge({ everything: true });
    expect(app.purged).toEqual([{ mediaId: id }, 'everything']);
  });

  it('of a path names its objects, for nodes that no longer know the path', async () => {
    const id = await readyMedia();
    const path = (name: string) => `/media/${id}/${name}`;
    const objects = { 'thumb.webp': [sha('a')], medium: [sha('b'), sha('c')], 'manifest.json': [] };
    for (const name of Object.keys(objects)) await purge({ path: path(name) });
    const expected = Object.entries(objects).map(([name, hashes]) => ({ path: path(name), objects: hashes }));
    expect(app.purged).toEqual(expected);
    expect(await announcedPurges()).toEqual(expected.map((scope) => ({ media_id: null, ...scope })));
  });

  it('of a mistyped path answers 404 and drops nothing', async () => {
    const id = await readyMedia();
    for (const [scope, code] of [
      [{ path: `/media/${id}/typo.webp` }, 'rendition_not_found'],
      [{ path: `/media/${id}/thumb.ffffffff.webp` }, 'rendition_not_found'],
      [{ path: `/media/${mediaId()}/thumb.webp` }, 'media_not_found'],
      [{ media_id: mediaId() }, 'media_not_found'],
      [{ path: `/media/${await app.addMedia()}/thumb.webp` }, 'rendition_not_ready'],
    ] as const) {
      const answer = await send(app, 'POST', '/cache/purge', scope);
      expect([answer.status, Problem.parse(await answer.json()).code]).toEqual([404, code]);
      // A delivery's headers would let caches keep the answer and other origins read it.
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    }
    expect(app.purged).toEqual([]);
    expect(await announcedPurges()).toEqual([]);
  });

  it('that is malformed is refused with the valid forms', async () => {
    for (const [body, detail] of [
      [{ media_id: 'nope' }, 'In the body, media_id must be med_ and 26 lower-case letters and digits.'],
      [{ path: '/x' }, 'In the body, path must be a delivery path, beginning with /media/.'],
      [{}, 'The body must be one of {"media_id": "med_…"}, {"path": "/media/…"} and {"everything": true}.'],
    ] as const) {
      const answer = await send(app, 'POST', '/cache/purge', body);
      expect(Problem.parse(await answer.json())).toMatchObject({ status: 400, detail });
    }
  });

  it('is complete when every node has confirmed, and names those that have not', async () => {
    await report(app, 'sin1');
    const pending = await purge({ everything: true });
    expect(pending).toMatchObject({ complete: false });
    expect(pending.receipts).toContainEqual({ region: 'sin1', node: 'edge-1', state: 'pending' });
    const waiting = purge({ everything: true }, 10);
    await expect.poll(() => app.purged.length).toBe(2);
    await report(app, 'sin1', { events_through: pending.id });
    await report(app, 'sin1', { events_through: String(Number(pending.id) + 1) });
    expect(await waiting).toMatchObject({ complete: true });
  });

  it('returns its receipts ordered by region', async () => {
    for (const [region, node] of [
      ['sin1', 'z'],
      ['ams1', 'b'],
      ['sin1', 'a'],
    ] as const) {
      await report(app, region, { node });
    }
    const { receipts } = await purge({ everything: true });
    expect(receipts.map(({ region, node }) => `${region} ${node}`)).toEqual([
      'ams1 b',
      'fra1 test',
      'sin1 a',
      'sin1 z',
    ]);
  });

  it('is allowed for media of its own project only', async () => {
    const mine = await app.addMedia({ projectId: 'other' });
    await purge({ media_id: mine }, 0, TOKENS.other);
    // A missing media object looks like another project's.
    for (const body of [{ everything: true }, { media_id: await app.addMedia() }, { media_id: mediaId() }]) {
      expect((await send(app, 'POST', '/cache/purge', body, TOKENS.other)).status).toBe(403);
    }
    for (const body of [
      {},
      { path: '/x' },
      { path: '/media/%2e' },
      { everything: false },
      { everything: true, path: '/media/x' },
    ]) {
      expect([body, (await send(app, 'POST', '/cache/purge', body)).status]).toEqual([body, 400]);
    }
    expect(app.purged).toHaveLength(1);
  });
});
