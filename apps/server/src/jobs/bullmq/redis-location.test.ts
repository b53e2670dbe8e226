import { describe, expect, it } from 'vitest';
import { parseRedisUrl } from './redis-location.ts';

describe('the URL of a Redis server', () => {
  it.each([
    ['redis://r', { host: 'r', port: 6379, db: 0, tls: false, shown: 'redis://r:6379/0' }],
    ['redis://r:7000/', { host: 'r', port: 7000, db: 0, tls: false, shown: 'redis://r:7000/0' }],
    [
      'rediss://user:p%40ss%3Aword@r.example/15',
      {
        ...{ host: 'r.example', port: 6379, username: 'user', password: 'p@ss:word', db: 15, tls: true },
        shown: 'rediss://r.example:6379/15',
      },
    ],
    [
      'redis://:secret@[::1]:6380/1',
      { host: '::1', port: 6380, password: 'secret', db: 1, tls: false, shown: 'redis://[::1]:6380/1' },
    ],
  ])('is parsed: %s', (url, location) => {
    expect(parseRedisUrl(url)).toEqual(location);
  });

  it.each(['redis:', 'redis://', 'http://secret@r', 'redis://secret@r/1/2', 'redis://r?db=secret', 'redis://r#secret'])(
    'is refused, and not shown in the error: %s',
    (url) => {
      const read = () => parseRedisUrl(url);
      expect(read).toThrow(RangeError);
      expect(read).not.toThrow(/secret/);
    },
  );

  it('is refused if its password is not URL-encoded', () => {
    expect(() => parseRedisUrl('redis://:100%secret@r')).toThrow(RangeError);
  });
});
