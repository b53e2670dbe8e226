import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import { createOriginAcceptance, type OriginAcceptance } from './origin-acceptance.ts';

const TARGET = '/control/v1/edges/sin1/resource?path=%2Fmedia%2Fx';

let lines: { level: number; msg: string; err?: unknown }[];
let now: number;
let acceptance: OriginAcceptance;

beforeEach(() => {
  lines = [];
  now = 1_000;
  acceptance = createOriginAcceptance({
    originUrl: 'http://origin.test',
    logger: pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    monotonicNow: () => now,
  });
});

const judge = (status: number, body: unknown, type = 'application/problem+json') =>
  acceptance.noteUnexpected({
    status,
    headers: { 'content-type': type },
    body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    target: TARGET,
  });
const problem = (status: number, code: string, instance = '/control/v1/edges/sin1/resource') => ({
  ...{ type: `/problems/${code}`, title: 'x', detail: 'because of this.', request_id: 'r' },
  ...{ status, code, instance },
});

describe('the record whether the origin accepts a node', () => {
  it.each<[string, number, unknown, RegExp]>([
    ['its token', 401, problem(401, 'unauthorized'), /does not accept the token.*MDS_CONTROL_TOKEN/],
    ['its rights', 403, problem(403, 'forbidden'), /does not allow.*because of this\./],
    ['its name', 400, problem(400, 'invalid_request'), /because of this\./],
    ['the address of a point of presence', 421, problem(421, 'misdirected_request'), /MDS_ORIGIN_URL/],
    [
      'an address with an extra path',
      404,
      problem(404, 'not_found', '/api/v1/control/v1/edges/sin1/resource'),
      /MDS_ORIGIN_URL.*it returned 404.*without a path/,
    ],
    ['the address of a service that is no origin', 404, problem(404, 'not_found'), /MDS_ORIGIN_URL.*not an origin/],
    ['the address of another program', 404, '<h1>Not Found</h1>', /MDS_ORIGIN_URL.*not an origin/],
    ['the address of another program that answers 200', 200, '<!doctype html>', /MDS_ORIGIN_URL.*not an origin/],
  ])('names the setting that an operator must change: %s', (_what, status, body, sentence) => {
    expect(acceptance.refusal).toBeNull();
    expect(judge(status, body).message).toMatch(sentence);
    expect(acceptance.refusal).toMatch(sentence);
    expect(acceptance.wasEverAccepted).toBe(false);
    expect(lines).toMatchObject([{ level: 50, msg: expect.stringMatching(sentence) }]);
    // One sentence without a stack, as an operator can fix it.
    expect(lines[0]).not.toHaveProperty('err');
  });

  it('logs a refusal once, and again after ten minutes while it lasts', () => {
    for (let n = 0; n < 500; n += 1) judge(401, problem(401, 'unauthorized'));
    expect(lines).toHaveLength(1);
    now += 600_000;
    judge(401, problem(401, 'unauthorized'));
    expect(lines).toHaveLength(2);
    acceptance.noteAccepted();
    expect([acceptance.refusal, acceptance.wasEverAccepted]).toEqual([null, true]);
    expect(lines.at(-1)).toMatchObject({ level: 30 });
    judge(401, problem(401, 'unauthorized'));
    expect([acceptance.refusal === null, acceptance.wasEverAccepted]).toEqual([false, true]);
    expect(lines).toHaveLength(4);
  });

  it('does not change while the origin fails for its own reasons', () => {
    acceptance.noteAccepted();
    expect(judge(503, problem(503, 'overloaded')).message).toContain('503 overloaded');
    expect(judge(500, problem(500, 'internal_error')).message).toContain('500');
    expect(acceptance.refusal).toBeNull();
    expect(lines).toEqual([]);
  });
});
