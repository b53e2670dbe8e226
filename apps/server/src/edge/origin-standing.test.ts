import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import { createOriginStanding, type OriginStanding } from './origin-standing.ts';

const TARGET = '/control/v1/edges/sin1/resource?path=%2Fmedia%2Fx';

let lines: { level: number; msg: string; err?: unknown }[];
let now: number;
let standing: OriginStanding;

beforeEach(() => {
  lines = [];
  now = 1_000;
  standing = createOriginStanding({
    originUrl: 'http://origin.test',
    logger: pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    monotonicNow: () => now,
  });
});

const judge = (status: number, body: unknown, type = 'application/problem+json') =>
  standing.judge({
    status,
    headers: { 'content-type': type },
    body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    target: TARGET,
  });
const problem = (status: number, code: string, instance = '/control/v1/edges/sin1/resource') => ({
  ...{ type: `/problems/${code}`, title: 'x', detail: 'because of this.', request_id: 'r' },
  ...{ status, code, instance },
});

describe('how a node stands with its origin', () => {
  it.each<[string, number, unknown, RegExp]>([
    ['its token', 401, problem(401, 'unauthorized'), /does not accept the token.*MDS_CONTROL_TOKEN/],
    ['its rights', 403, problem(403, 'forbidden'), /does not allow.*because of this\./],
    ['its name', 400, problem(400, 'invalid_request'), /because of this\./],
    ['that the address is one of a point of presence', 421, problem(421, 'misdirected_request'), /MDS_ORIGIN_URL/],
    [
      'that the address has a path too many',
      404,
      problem(404, 'not_found', '/api/v1/control/v1/edges/sin1/resource'),
      /MDS_ORIGIN_URL.*it says 404.*without a path/,
    ],
    ['that the service is none of this kind', 404, problem(404, 'not_found'), /MDS_ORIGIN_URL.*no origin/],
    ['that somebody else is there', 404, '<h1>Not Found</h1>', /MDS_ORIGIN_URL.*no origin/],
    ['that somebody else says 200', 200, '<!doctype html>', /MDS_ORIGIN_URL.*no origin/],
  ])('tells what an operator has to see to: %s', (_what, status, body, sentence) => {
    expect(standing.trouble).toBeNull();
    expect(judge(status, body).message).toMatch(sentence);
    expect(standing.trouble).toMatch(sentence);
    expect(standing.wasGood).toBe(false);
    expect(lines).toMatchObject([{ level: 50, msg: expect.stringMatching(sentence) }]);
    // One sentence, and no stack for what everybody can mend.
    expect(lines[0]).not.toHaveProperty('err');
  });

  it('is told of once, and again after ten minutes while it lasts', () => {
    for (let n = 0; n < 500; n += 1) judge(401, problem(401, 'unauthorized'));
    expect(lines).toHaveLength(1);
    now += 600_000;
    judge(401, problem(401, 'unauthorized'));
    expect(lines).toHaveLength(2);
    standing.good();
    expect([standing.trouble, standing.wasGood]).toEqual([null, true]);
    expect(lines.at(-1)).toMatchObject({ level: 30 });
    judge(401, problem(401, 'unauthorized'));
    expect([standing.trouble === null, standing.wasGood]).toEqual([false, true]);
    expect(lines).toHaveLength(4);
  });

  it('is not put in doubt by an origin with troubles of its own', () => {
    standing.good();
    expect(judge(503, problem(503, 'overloaded')).message).toContain('503 overloaded');
    expect(judge(500, problem(500, 'internal_error')).message).toContain('500');
    expect(standing.trouble).toBeNull();
    expect(lines).toEqual([]);
  });
});
