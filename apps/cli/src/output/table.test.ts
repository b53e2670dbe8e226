import { describe, expect, it } from 'vitest';
import { displayWidth, pad, truncate } from './display-width.ts';
import { jsonText } from './json.ts';
import { printable, printableLine } from './printable.ts';
import { humanAge, humanBytes, playingTime } from './quantities.ts';
import { type Column, tableLines, tabSeparated } from './table.ts';

interface Row {
  id: string;
  name: string;
  note: string;
}

const columns: Column<Row>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'NAME', text: ({ name }) => name, shrinkTo: 6 },
  { title: 'NOTE', text: ({ note }) => note, expendable: 1 },
];
const rows: Row[] = [
  { id: 'med_1', name: '写真写真写真', note: 'n' },
  { id: 'med_22', name: 'a name', note: '👩‍👩‍👧 x' },
];

describe('tables', () => {
  it('align columns by their width on the terminal, not by the number of characters', () => {
    expect(tableLines(columns, rows, 80)).toEqual([
      'ID      NAME          NOTE',
      'med_1   写真写真写真  n',
      'med_22  a name        👩‍👩‍👧 x',
    ]);
  });

  it('shorten columns first, then drop expendable ones, and never shorten an id', () => {
    expect(tableLines(columns, rows, 20)).toEqual([
      'ID      NAME    NOTE',
      'med_1   写真…   n',
      'med_22  a name  👩‍👩‍👧 x',
    ]);
    expect(tableLines(columns, rows, 14)).toEqual(['ID      NAME', 'med_1   写真…', 'med_22  a name']);
    expect(tableLines(columns, rows, 3).map((line) => line.slice(0, 6))).toEqual(['ID    ', 'med_1 ', 'med_22']);
  });

  it('keep each row on one line, whatever it holds', () => {
    expect(tabSeparated(columns, [{ id: 'a\tb', name: 'c\nd', note: '\x1b[2J' }])).toEqual(['a\\tb\tc\\nd\t\\x1b[2J']);
  });
});

describe('text', () => {
  it.each([
    ['abc', 3],
    ['写真', 4],
    ['e\u0301', 1],
    ['👩‍👩‍👧', 2],
    ['☀️', 2],
    ['\x1b[31mred\x1b[39m', 3],
    ['\u200b', 0],
  ])('%j is %i columns wide', (text, width) => {
    expect(displayWidth(text)).toBe(width);
    expect(displayWidth(pad(text, 8))).toBe(8);
  });

  it('is shortened between characters, from either end', () => {
    expect(truncate('写真写真', 6)).toBe('写真…');
    expect(truncate('folder/写真.jpg', 8, 'end')).toBe('…真.jpg');
    expect(truncate('👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧', 4)).toBe('👩‍👩‍👧…');
    expect(truncate('abc', 3)).toBe('abc');
    expect(truncate('abc', 1)).toBe('…');
  });

  it('with control characters is printed with escapes', () => {
    expect(printable('\x1b[31m\x07\x7f\x9b\u202e\u2028\ud800é写')).toBe(
      '\\x1b[31m\\x07\\x7f\\x9b\\u202e\\u2028\\ud800é写',
    );
    expect(printableLine('\x1b[31mred\x1b[39m \x1b[2J\x1b]0;t\x07')).toBe('\x1b[31mred\x1b[39m \\x1b[2J\\x1b]0;t\\x07');
    expect(jsonText({ a: '\x1b\x9b\u202e' }, 0)).toBe('{"a":"\\u001b\\u009b\\u202e"}');
  });
});

describe('quantities', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [99_949, '99.9 kB'],
    [99_950, '100 kB'],
    [999_499, '999 kB'],
    [999_500, '1.0 MB'],
    [10_737_418_240, '10.7 GB'],
  ])('%i bytes are %s', (bytes, text) => expect(humanBytes(bytes)).toBe(text));

  it.each([
    ['2026-01-31T08:15:00Z', 'now'],
    ['2026-01-31T08:14:18Z', '42s'],
    ['2026-01-31T05:15:00Z', '3h'],
    ['2025-12-31T08:15:00Z', '31d'],
    ['2023-12-31T08:15:00Z', '2y'],
    ['2027-01-01T00:00:00Z', 'now'],
    ['some day', 'some day'],
  ])('%s is %s old', (at, text) => expect(humanAge(at, Date.parse('2026-01-31T08:15:00Z'))).toBe(text));

  it('formats playing times', () => expect([6.6, 754, 3723].map(playingTime)).toEqual(['0:07', '12:34', '1:02:03']));
});
