import { describe, expect, it } from 'vitest';
import { evaluatePreconditions, ifRangeHolds } from './preconditions.ts';

const lastModifiedMs = Date.UTC(2026, 0, 31, 8, 15, 0);
const validators = { etag: '"abc"', lastModifiedMs };
const same = 'Sat, 31 Jan 2026 08:15:00 GMT';
const before = 'Sat, 31 Jan 2026 08:14:59 GMT';
const after = 'Sat, 31 Jan 2026 08:15:01 GMT';

describe('preconditions, in the order of RFC 9110, 13.2.2', () => {
  it.each<[Record<string, string>, ReturnType<typeof evaluatePreconditions>]>([
    [{}, 'proceed'],
    // If-Match: strong comparison.
    [{ 'if-match': '"abc"' }, 'proceed'],
    [{ 'if-match': '*' }, 'proceed'],
    [{ 'if-match': '"x", "abc"' }, 'proceed'],
    [{ 'if-match': '"x"' }, 'failed'],
    [{ 'if-match': 'W/"abc"' }, 'failed'],
    [{ 'if-match': 'abc' }, 'failed'],
    // If-Unmodified-Since: only without If-Match.
    [{ 'if-unmodified-since': same }, 'proceed'],
    [{ 'if-unmodified-since': after }, 'proceed'],
    [{ 'if-unmodified-since': before }, 'failed'],
    [{ 'if-unmodified-since': 'yesterday' }, 'proceed'],
    [{ 'if-match': '"abc"', 'if-unmodified-since': before }, 'proceed'],
    // If-None-Match: weak comparison.
    [{ 'if-none-match': '"abc"' }, 'not-modified'],
    [{ 'if-none-match': 'W/"abc"' }, 'not-modified'],
    [{ 'if-none-match': '*' }, 'not-modified'],
    [{ 'if-none-match': '"x,y" ,\t"abc"' }, 'not-modified'],
    [{ 'if-none-match': ', "abc",' }, 'not-modified'],
    [{ 'if-none-match': '"x"' }, 'proceed'],
    [{ 'if-none-match': '"x,"abc""' }, 'proceed'],
    [{ 'if-none-match': 'abc' }, 'proceed'],
    [{ 'if-none-match': '' }, 'proceed'],
    // If-Modified-Since: only without If-None-Match.
    [{ 'if-modified-since': same }, 'not-modified'],
    [{ 'if-modified-since': after }, 'not-modified'],
    [{ 'if-modified-since': before }, 'proceed'],
    [{ 'if-modified-since': '2026-01-31' }, 'proceed'],
    [{ 'if-none-match': '"x"', 'if-modified-since': same }, 'proceed'],
    // Conditions that protect a write precede those that save a transfer.
    [{ 'if-match': '"x"', 'if-none-match': '"abc"' }, 'failed'],
    [{ 'if-unmodified-since': before, 'if-modified-since': same }, 'failed'],
    [{ 'if-match': '"abc"', 'if-none-match': '"abc"' }, 'not-modified'],
  ])('%j: %s', (headers, expected) => {
    expect(evaluatePreconditions(headers, validators)).toBe(expected);
  });

  it('a hostile list does not keep the parser busy', () => {
    const started = performance.now();
    evaluatePreconditions({ 'if-none-match': `"a"${' '.repeat(16_000)}x` }, validators);
    evaluatePreconditions({ 'if-none-match': '"a",'.repeat(4000) }, validators);
    evaluatePreconditions({ 'if-none-match': ','.repeat(16_000) }, validators);
    expect(performance.now() - started).toBeLessThan(100);
  });
});

describe('If-Range: parts of two versions are never joined', () => {
  it.each<[string | undefined, boolean]>([
    [undefined, true],
    ['"abc"', true],
    ['"x"', false],
    ['W/"abc"', false],
    ['"abc", "x"', false],
    [same, true],
    [after, false],
    [before, false],
    ['nonsense', false],
  ])('%s: %s', (field, expected) => {
    expect(ifRangeHolds(field, validators)).toBe(expected);
  });
});
