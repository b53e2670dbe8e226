import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLogger } from '../logger.ts';
import { bindStorage } from './storage-binding.ts';

it('two new deployments that begin with one bucket in the same moment do not both have it', async () => {
  const start = async () => {
    let mark: string | null = null;
    const latency = () => sleep(5 + Math.random() * 15);
    const owner = {
      async read() {
        await latency();
        return mark;
      },
      async write(id: string) {
        await latency();
        mark = id;
        await latency();
      },
    };
    const list = async function* () {
      await latency();
      yield* [];
    };
    const holds = (id: string) =>
      bindStorage({
        deployment: { id, hasMedia: false },
        store: { owner, list },
        shown: 's3://bucket',
        logger: createLogger('silent'),
      }).then(
        (binding) => binding.holds,
        () => false,
      );
    return Promise.all([holds('a'), holds('b')]);
  };
  const starts = await Promise.all(Array.from({ length: 200 }, start));
  // One of them has it, whichever.
  expect(starts.filter(([a, b]) => a === b)).toEqual([]);
});
