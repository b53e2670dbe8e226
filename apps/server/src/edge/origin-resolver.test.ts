import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Resource } from '../delivery/resolver.ts';
import { createOriginResolver, type OriginResolver } from './origin-resolver.ts';
import { resourceOf, type ScriptedOrigin, startScriptedOrigin } from './scripted-origin.fixture.ts';

const MEDIUM = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';
const PATH = `/media/${MEDIUM}/manifest.json`;

let origin: ScriptedOrigin;
let resolver: OriginResolver;
let now: number;
let following: boolean;

beforeEach(async () => {
  origin = await startScriptedOrigin();
  now = 1_000;
  following = true;
  resolver = createOriginResolver({
    origin: origin.connection,
    region: 'sin1',
    publicUrl: () => 'https://sin.test',
    isFollowing: () => following,
    monotonicNow: () => now,
  });
});
afterEach(() => origin.stop());

const json = (res: ServerResponse, body: unknown, status = 200) =>
  void res
    .writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'application/problem+json' })
    .end(JSON.stringify(body));
const says = (content: string) => {
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

describe('what a point of presence knows of a path', () => {
  it('is asked for once, by all who want it at the same time, with the address that clients use', async () => {
    says('a');
    expect(await Promise.all([1, 2, 3].map(() => content(resolver.resolve(PATH))))).toEqual(['a', 'a', 'a']);
    expect(await content(resolver.resolve(PATH))).toBe('a');
    expect(origin.asked).toEqual([
      `/control/v1/edges/sin1/resource?path=${encodeURIComponent(PATH)}&base_url=https%3A%2F%2Fsin.test`,
    ]);
  });

  it('is used at once while events are heard, and confirmed behind the answer', async () => {
    says('a');
    const first = await resolver.resolve(PATH);
    now += 31_000;
    says('b');
    expect(resolver.peek(PATH)).toBeNull();
    expect(resolver.resolve(PATH)).toBe(first);
    await expect.poll(() => content(resolver.resolve(PATH))).toBe('b');
  });

  it('is confirmed before it is used where events may have been missed', async () => {
    says('a');
    await resolver.resolve(PATH);
    following = false;
    now += 29_000;
    says('b');
    expect(await content(resolver.resolve(PATH))).toBe('a');
    now += 2_000;
    expect(await content(resolver.resolve(PATH))).toBe('b');
  });

  it('stands in for an origin that is away, for as long as that allowed, and says so', async () => {
    says('a');
    await resolver.resolve(PATH);
    following = false;
    await origin.go();
    now += 60_000;
    expect(await resolver.resolve(PATH)).toMatchObject({ staleS: 30 });
    now += 3_600_000;
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable', status: 503 });
    await origin.come();
    await expect.poll(() => origin.connection.isUp).toBe(true);
    expect(await resolver.resolve(PATH)).not.toHaveProperty('staleS');
  });

  it('is not kept where an event spoke of it while it was being asked for: that answer is from before', async () => {
    let first: (() => void) | undefined;
    origin.answer = (_req, res) => {
      first = () => json(res, resourceOf(PATH, 'old'));
    };
    const early = resolver.resolve(PATH);
    await expect.poll(() => first).toBeDefined();
    resolver.outdateMedium(MEDIUM);
    says('new');
    const late = resolver.resolve(PATH);
    first?.();
    expect(await Promise.all([content(early), content(late)])).toEqual(['old', 'new']);
    expect(await content(resolver.resolve(PATH))).toBe('new');
  });

  it('is asked for anew after an event, and still there where the origin goes away first', async () => {
    says('a');
    await resolver.resolve(PATH);
    resolver.outdateMedium('med_00000000000000000000000000');
    says('b');
    expect(await content(resolver.resolve(PATH))).toBe('a');
    resolver.outdateMedium(MEDIUM);
    expect(await content(resolver.resolve(PATH))).toBe('b');
    resolver.outdateAll();
    await origin.go();
    expect(await content(resolver.resolve(PATH))).toBe('b');
    resolver.forgetMedium(MEDIUM);
    await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('that is not there is not asked for again for a moment, and gone at once when it was deleted', async () => {
    says('a');
    await resolver.resolve(PATH);
    resolver.outdateMedium(MEDIUM);
    origin.answer = (_req, res) => json(res, problem(404, 'media_not_found'), 404);
    for (let n = 0; n < 3; n++) {
      await expect(Promise.resolve(resolver.resolve(PATH))).rejects.toMatchObject({
        code: 'media_not_found',
        message: 'because',
      });
    }
    expect(origin.asked).toHaveLength(2);
    says('again');
    now += 5_001;
    expect(await content(resolver.resolve(PATH))).toBe('again');
  });

  it('is nothing where the path is none of delivery’s, without a word to the origin', async () => {
    await expect(Promise.resolve(resolver.resolve('/media/../etc/passwd'))).rejects.toMatchObject({ status: 404 });
    expect(origin.asked).toEqual([]);
  });

  it('never tells a caller what the origin thinks of this node', async () => {
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
