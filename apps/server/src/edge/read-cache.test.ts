import { expect, it } from 'vitest';
import { createReadCache } from './read-cache.ts';

const KIB = 1024;

it('endless invented hosts and cursors do not evict answers that others request', () => {
  const cache = createReadCache<{ n: number }>(() => 2 * KIB);
  cache.set('in-use.test /api/v1/media', { n: 1 });
  expect(cache.get('in-use.test /api/v1/media')).toEqual({ n: 1 });
  cache.set('asked-once.test /api/v1/media', { n: 2 });
  for (let n = 0; n < 20_000; n += 1) cache.set(`made-up-${n}.test /api/v1/media`, { n });
  expect(cache.get('in-use.test /api/v1/media')).toEqual({ n: 1 });
  expect(cache.get('asked-once.test /api/v1/media')).toBeUndefined();
  // A renewed answer keeps its place.
  cache.set('in-use.test /api/v1/media', { n: 3 });
  for (let n = 0; n < 2_000; n += 1) cache.set(`again-${n}.test /api/v1/media`, { n });
  expect(cache.get('in-use.test /api/v1/media')).toEqual({ n: 3 });
  // 2 MiB of unused answers, besides those in use.
  expect([...cache.entries()].length).toBeLessThanOrEqual(1_025);
});
