import { expect, test } from 'vitest';
import { alternate } from './rounds.ts';

test('sides take turns, in reverse every other round, and the warm-up does not count', async () => {
  const order: string[] = [];
  const side = (name: string) => {
    let turn = 0;
    return () => {
      order.push(name);
      return Promise.resolve(turn++);
    };
  };
  const measured = await alternate({ ours: side('ours'), theirs: side('theirs') }, 3, () => undefined);
  expect(order.join(' ')).toBe('ours theirs ours theirs theirs ours ours theirs');
  expect(measured).toEqual({ ours: [1, 2, 3], theirs: [1, 2, 3] });
});
