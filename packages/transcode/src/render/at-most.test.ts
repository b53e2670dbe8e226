import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { atMost } from './at-most.ts';

test('work runs in order up to the limit, and a failure frees its place for the next', async () => {
  const limit = atMost(2);
  const began: number[] = [];
  let running = 0;
  let most = 0;
  const work = (n: number) => async () => {
    began.push(n);
    most = Math.max(most, ++running);
    await turn();
    running--;
    if (n === 1) throw new Error('one');
    return n;
  };
  const outcomes = await Promise.allSettled([0, 1, 2, 3, 4].map((n) => limit(work(n))));
  expect(outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 'failed'))).toEqual([
    0,
    'failed',
    2,
    3,
    4,
  ]);
  expect(began).toEqual([0, 1, 2, 3, 4]);
  expect(most).toBe(2);
  expect(await limit(work(5))).toBe(5);
});
