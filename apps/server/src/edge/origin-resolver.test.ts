import { mkdtemp, rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Resource } from '../delivery/resolver.ts';
import { createOriginResolver, type OriginResolver } from './origin-resolver.ts';
import { createPathJournal, type PathJournal } from './path-journal.ts';
import { resourceOf, type ScriptedOrigin, startScriptedOrigin } from './scripted-origin.fixture.ts';

const MEDIA_ID = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';
const PATH = `/media/${MEDIA_ID}/manifest.json`;

let origin: ScriptedOrigin;
let resolver: OriginResolver;
let folder: string;
let journal: PathJournal;
let now: number;
let wallNow: number;
let following: boolean;

/** A resolver as after a start of the node, with the journal that the earlier one left in the folder. */
const start = async (publicUrl = 'https://sin.test') => {
  journal = createPathJournal({
    file: join(folder, 'known-paths.jsonl'),
    originUrl: 'http://origin.test',
    logger: pino({ level: 'silent' }),
  });
  const started = createOriginResolver({
    ...{ origin: origin.connection, journal, region: 'sin1' },
    publicUrl: () => publicUrl,
    isFollowing: () => following,
    monotonicNow: () => now,
    now: () => wallNow,
  });
  started.restore(await journal.read());
  journal.start(() => started.known());
  return started;
};

beforeEach(async () => {
  origin = await startScriptedOrigin();
  folder = await mkdtemp(join(tmpdir(), 'mds-resolver-'));
  now = 1_000;
  wallNow = Date.UTC(2026, 0, 31);
  following = true;
  resolver = await start();
});
afterEach(async () => {
  await journal.stop();
  await origin.stop();
  await rm(folder, { recursive: true });
});

const json = (res: ServerResponse, body: unknown, status = 200) =>
  void res
    .writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'application/problem+json' })
    .end(JSON.stringify(body));
const answerWith = (content: string) => {
  origin.answer = (_req, res) => json(res, resourceOf(PATH, content));
};
const problem = (status: number, code: string) => ({
  ...{ type: `/problems/${code}`, title: 'x', detail: 'because', instance: '/x', request_id: 'r' },
  ...{ status, code },
});
const content = async (resource: Resource | Promise<Resource>) => {
  const source = (await resource).representations[0]?.source;
  return source?.kind === 'made' ? source.body.toString() : null;
};

describe('a path that a point of presence knows', () => {
  it('is looked up once for simultaneous requests, with the public address', async () => {
    answerWith('a');
    expect(await Promise.all([1, 2, 3].map(() => content(resolver.resolve(PATH))))).toEqual(['a', 'a', 'a']);
    expect(await content(resolver.resolve(PATH))).toBe('a');
    expect(origin.asked).toEqual([
      `/control/v1/edges/sin1/resource?path=${encodeURIComponent(PATH)}&base_url=https%3A%2F%2Fsin.test`,
    ]);
  });

  it('is used at once while events are followed, and confirmed in the background', async () => {
    answerWith('a');
    const first = await resolver.resolve(PATH);
    now += 31_000;
    answerWith('b');
    expect(resolver.peek(PATH)).toBeNull();
    expect(resolver.resolve(PATH)).toBe(first);
    await expect.poll(() => content(resolver.resolve(PATH))).toBe('b');
  });

  it('is confirmed before it is used if events may have been missed', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    following = false;
    now += 29_000;
    answerWith('b');
    expect(await content(resolver.resolve(PATH))).toBe('a');
    now += 2_000;
    expect(await content(resolver.resolve(PATH))).toBe('b');
  });

  it('is served as stale while the origin is down, for as long as it allowed', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    following = false;
    await origin.goDown();
    now += 60_000;
    expect(await resolver.resolve(PATH)).toMatchObject({ staleS: 30 });
    now += 3_600_000;
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable', status: 503 });
    await origin.goUp();
    await expect.poll(() => origin.connection.isUp).toBe(true);
    expect(await resolver.resolve(PATH)).not.toHaveProperty('staleS');
  });

  it('is not stored if an event named it during the lookup', async () => {
    let first: (() => void) | undefined;
    origin.answer = (_req, res) => {
      first = () => json(res, resourceOf(PATH, 'old'));
    };
    const early = resolver.resolve(PATH);
    await expect.poll(() => first).toBeDefined();
    resolver.outdateMedia(MEDIA_ID);
    answerWith('new');
    const late = resolver.resolve(PATH);
    first?.();
    expect(await Promise.all([content(early), content(late)])).toEqual(['old', 'new']);
    expect(await content(resolver.resolve(PATH))).toBe('new');
  });

  it('is looked up again after an event, and served if the origin fails first', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    resolver.outdateMedia('med_00000000000000000000000000');
    answerWith('b');
    expect(await content(resolver.resolve(PATH))).toBe('a');
    resolver.outdateMedia(MEDIA_ID);
    expect(await content(resolver.resolve(PATH))).toBe('b');
    resolver.outdateAll();
    await origin.goDown();
    expect(await content(resolver.resolve(PATH))).toBe('b');
    resolver.forgetMedia(MEDIA_ID);
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is gone at once if it is deleted, and not looked up again for a moment', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    resolver.outdateMedia(MEDIA_ID);
    origin.answer = (_req, res) => json(res, problem(404, 'media_not_found'), 404);
    for (let n = 0; n < 3; n++) {
      await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({
        code: 'media_not_found',
        message: 'because',
      });
    }
    expect(origin.asked).toHaveLength(2);
    answerWith('again');
    now += 5_001;
    expect(await content(resolver.resolve(PATH))).toBe('again');
  });

  it('is refused without a request to the origin if delivery has no such path', async () => {
    await expect(Promise.resolve(resolver.resolve('/media/../etc/passwd'))).rejects.toMatchObject({ status: 404 });
    expect(origin.asked).toEqual([]);
  });

  it.each<[string, (res: ServerResponse) => void]>([
    ['another program', (res) => void res.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not found</h1>')],
    ['a page for every path', (res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ['an extra path', (res) => json(res, { ...problem(404, 'not_found'), instance: '/api/v1/control/v1/x' }, 404)],
    [
      'a service that has no points of presence',
      (res) => json(res, { ...problem(404, 'not_found'), instance: '/control/v1/edges/sin1/resource' }, 404),
    ],
    ['another point of presence', (res) => json(res, problem(421, 'misdirected_request'), 421)],
  ])('does not count as absent if the address of the origin is wrong: %s', async (_what, answer) => {
    answerWith('a');
    await resolver.resolve(PATH);
    const other = PATH.replace('manifest.json', 'thumb.webp');
    origin.answer = (_req, res) => answer(res);
    await expect(Promise.resolve(resolver.resolve(other))).rejects.toMatchObject({
      code: 'unavailable',
      headers: { 'Retry-After': '5' },
    });
    expect(origin.connection.acceptance.refusal).toContain('MDS_ORIGIN_URL');
    // Known paths are served, as in any outage.
    following = false;
    now += 60_000;
    expect(await content(resolver.resolve(PATH))).toBe('a');
    answerWith('b');
    expect(await content(resolver.resolve(PATH))).toBe('b');
    expect(origin.connection.acceptance.refusal).toBeNull();
  });

  it('has an Age as soon as events are not followed, and none while they are', async () => {
    answerWith('a');
    const first = await resolver.resolve(PATH);
    now += 20_000;
    expect(resolver.peek(PATH)).toBe(first);
    following = false;
    expect(resolver.peek(PATH)).toMatchObject({ ageS: 20 });
    const aged = await resolver.resolve(PATH);
    expect(aged).toMatchObject({ ageS: 20 });
    expect(aged).not.toHaveProperty('staleS');
    // Both are views of one entry, so `used` marks both.
    aged.used = true;
    expect(first.used).toBe(true);
    await origin.goDown();
    now += 40_500;
    expect(await resolver.resolve(PATH)).toMatchObject({ ageS: 60, staleS: 31, used: true });
    await origin.goUp();
    await expect.poll(() => origin.connection.isUp).toBe(true);
    expect(await resolver.resolve(PATH)).not.toHaveProperty('ageS');
  });

  it('returns its objects to a purge, even if it was confirmed long ago', async () => {
    answerWith('a');
    const { representations } = await resolver.resolve(PATH);
    now += 31_000;
    expect(resolver.forget(PATH)).toBe(representations);
    expect(resolver.forget(PATH)).toEqual([]);
  });

  it('does not reveal to callers whether the origin accepts this node', async () => {
    origin.answer = (_req, res) => json(res, problem(401, 'unauthorized'), 401);
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
    origin.answer = (_req, res) =>
      json(res, {
        ...resourceOf(PATH, 'a'),
        representations: [{ ...resourceOf(PATH, 'b').representations[0], sha256: 'a'.repeat(64) }],
      });
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });
});

describe('a path that a point of presence knew before a restart', () => {
  /** The clocks of a process that starts two minutes later. */
  const startAgain = async (publicUrl?: string) => {
    await journal.stop();
    wallNow += 120_000;
    now = 5;
    following = false;
    resolver = await start(publicUrl);
  };

  it('is served while the origin is down, for as long as it allowed', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    await startAgain();
    await origin.goDown();
    const resource = await resolver.resolve(PATH);
    expect([await content(resource), resource.staleS]).toEqual(['a', 90]);
    now += 3_600_000;
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is confirmed before it is used if the origin answers', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    await startAgain();
    answerWith('b');
    expect(resolver.peek(PATH)).toBeNull();
    expect(await content(resolver.resolve(PATH))).toBe('b');
  });

  it.each([
    ['the path', () => resolver.forget(PATH)],
    ['its media object', () => void resolver.forgetMedia(MEDIA_ID)],
    ['everything', () => resolver.forgetAll()],
  ])('does not come back if %s was purged', async (_what, purge) => {
    answerWith('a');
    await resolver.resolve(PATH);
    purge();
    await startAgain();
    await origin.goDown();
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('does not come back if it is absent, or names a former address of this node', async () => {
    answerWith('a');
    await resolver.resolve(PATH);
    await startAgain('https://elsewhere.test');
    await origin.goDown();
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
    await origin.goUp();
    await expect.poll(() => origin.connection.isUp).toBe(true);
    await resolver.resolve(PATH);
    resolver.outdateAll();
    origin.answer = (_req, res) => json(res, problem(404, 'media_not_found'), 404);
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'media_not_found' });
    await startAgain('https://elsewhere.test');
    await origin.goDown();
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });
});
