import { describe, expect, it } from 'vitest';
import { formatHttpDate, parseHttpDate } from './http-date.ts';

const instant = Date.UTC(1994, 10, 6, 8, 49, 37);

describe('HTTP dates', () => {
  it.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])(
    '%s is understood, so that an old cache can revalidate',
    (text) => {
      expect(parseHttpDate(text)).toBe(instant);
    },
  );

  it('a two-digit year is never read as more than 50 years ahead', () => {
    const now = Date.UTC(2026, 0, 1);
    expect(parseHttpDate('Sunday, 06-Nov-76 08:49:37 GMT', now)).toBe(Date.UTC(2076, 10, 6, 8, 49, 37));
    expect(parseHttpDate('Sunday, 06-Nov-77 08:49:37 GMT', now)).toBe(Date.UTC(1977, 10, 6, 8, 49, 37));
  });

  it.each([
    '2020',
    '1994-11-06T08:49:37Z',
    'Sun, 06 Nov 1994 08:49:37 +0000',
    'Sun, 31 Feb 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:49:37 GMT',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'sun, 06 nov 1994 08:49:37 gmt',
    '',
  ])('%j is not an HTTP-date, so a condition with it is ignored', (text) => {
    expect(parseHttpDate(text)).toBeNull();
  });

  it('a formatted date can be parsed again', () => {
    expect(formatHttpDate(instant + 999)).toBe('Sun, 06 Nov 1994 08:49:37 GMT');
  });
});
