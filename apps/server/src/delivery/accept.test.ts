import { describe, expect, it } from 'vitest';
import { chooseByAccept } from './accept.ts';

const types = { avif: 'image/avif', webp: 'image/webp', jpg: 'image/jpeg', png: 'image/png' };
type Format = keyof typeof types;

function choose(accept: string | undefined, ...formats: Format[]): Format | null {
  const candidates = formats.map((format) => ({ format, contentType: types[format] }));
  const chosen = chooseByAccept(candidates, accept)?.format ?? null;
  // The answer must not depend on the order of the database rows.
  expect(chooseByAccept([...candidates].reverse(), accept)?.format ?? null).toBe(chosen);
  return chosen;
}

describe('the format for programs in use', () => {
  const chrome = 'image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8';
  const firefox = 'image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5';
  const safari =
    'image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5';

  it.each<[string, string | undefined, Format[], Format | null]>([
    ['Chrome <img>', chrome, ['avif', 'webp', 'jpg'], 'avif'],
    ['Chrome <img> without an AVIF', chrome, ['webp', 'jpg'], 'webp'],
    ['Chrome <img> with JPEG alone', chrome, ['jpg'], 'jpg'],
    [
      'Chrome address bar',
      'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7',
      ['avif', 'webp', 'jpg'],
      'avif',
    ],
    ['Firefox <img>', firefox, ['avif', 'webp', 'jpg'], 'avif'],
    ['Firefox 91', 'image/webp,*/*', ['avif', 'webp', 'jpg'], 'webp'],
    ['Safari 17 <img>', safari, ['avif', 'webp', 'jpg'], 'avif'],
    [
      'Safari 13, which shows neither AVIF nor WebP',
      'image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5',
      ['avif', 'webp', 'jpg'],
      'jpg',
    ],
    ['Safari 13 with a PNG there', 'image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5', ['avif', 'png', 'jpg'], 'png'],
    ['curl', '*/*', ['avif', 'webp', 'jpg'], 'jpg'],
    ['curl without a JPEG', '*/*', ['avif', 'webp'], 'webp'],
    ['a client without Accept', undefined, ['avif', 'webp', 'jpg'], 'jpg'],
    ['a client with an empty Accept', '', ['avif', 'webp', 'jpg'], 'jpg'],
    ['Java URLConnection', 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2', ['avif', 'webp', 'jpg'], 'jpg'],
    ['an app that takes any picture', 'image/*', ['avif', 'webp', 'jpg'], 'jpg'],
  ])('%s receives a format that it can show', (_who, accept, formats, expected) => {
    expect(choose(accept, ...formats)).toBe(expected);
  });
});

describe('the choice by Accept (RFC 9110, 12.5.1)', () => {
  it.each<[string, Format | null]>([
    // The highest quality wins, named or not.
    ['image/avif;q=0.5, image/webp;q=0.9', 'webp'],
    ['image/webp;q=0.5, */*', 'jpg'],
    ['image/avif;q=0.001, */*;q=0.002', 'jpg'],
    // The most specific range decides, whatever the order.
    ['*/*, image/avif;q=0.1, image/webp;q=0.2, image/jpeg;q=0.3', 'jpg'],
    ['image/*;q=1, image/jpeg;q=0', 'webp'],
    ['image/jpeg;q=0, image/webp;q=0, */*', 'avif'],
    // q=0 excludes a format.
    ['*/*;q=0', null],
    ['image/jxl', null],
    ['text/html', null],
    ['image/*;q=0, */*', null],
    ['image/jxl, */*;q=0.1', 'jpg'],
    // Case, white space, extensions, quoted strings.
    ['IMAGE/WEBP ; Q=1', 'webp'],
    ['image/webp;q=0.9;ext="a,b;q=0"', 'webp'],
    ['image/webp;level=1', null],
    ['image/webp;profile="a,image/avif"', null],
    // Invalid elements are ignored.
    ['image/webp;q=2', 'jpg'],
    ['image/webp;q=abc, image/avif', 'avif'],
    ['*/webp, image/avif', 'avif'],
    ['image/, image/avif', 'avif'],
    ['nonsense', 'jpg'],
  ])('%s: %s', (accept, expected) => {
    expect(choose(accept, 'avif', 'webp', 'jpg')).toBe(expected);
  });

  it('a hostile field does not keep the parser busy', () => {
    const before = performance.now();
    choose(`image/webp;a="${'\\"'.repeat(8000)}`, 'webp');
    choose(';"'.repeat(8000), 'webp');
    expect(performance.now() - before).toBeLessThan(100);
  });
});
