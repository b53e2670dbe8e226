import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLogger } from '../logger.ts';
import { ObjectStorageError, StorageAheadError } from './s3-failure.ts';
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

it.each([
  [false, StorageAheadError, /that deployment is being moved here: .*this node starts when the move is done\.$/],
  [true, ObjectStorageError, /with their backup\.$/],
])(
  'of a storage of another deployment, and a database with media: %s, it is said whether to start again helps',
  async (hasMedia, kind, says) => {
    const owner = {
      read: async () => 'dep_another',
      write: () => Promise.reject(new Error('Nothing is to be changed.')),
    };
    const refused = bindStorage({
      deployment: { id: 'dep_own', hasMedia },
      store: { owner, list: () => Promise.reject(new Error('Nobody looks.')) as never },
      ...{ shown: 's3://bucket', logger: createLogger('silent') },
    });
    const error = await refused.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: kind.name, message: expect.stringMatching(says) });
  },
);
