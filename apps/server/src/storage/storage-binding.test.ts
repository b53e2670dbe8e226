import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLogger } from '../base/logger.ts';
import type { ObjectStore } from './object-store.ts';
import { ObjectStorageError, StorageAheadError } from './s3-failure.ts';
import { bindStorage, onceBound } from './storage-binding.ts';

it('two new deployments that start at once never both own the same bucket', async () => {
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
  // Never both of them, and never neither.
  expect(starts.filter(([a, b]) => a === b)).toEqual([]);
});

it.each([
  [false, StorageAheadError, /that deployment is being moved here: .*this node starts when the move is done\.$/],
  [true, ObjectStorageError, /with their backup\.$/],
])('the storage of another deployment is refused with the right advice (media: %s)', async (hasMedia, kind, advice) => {
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
  expect(error).toMatchObject({ name: kind.name, message: expect.stringMatching(advice) });
});

it('no object is stored or deleted before the storage is known to be the right one', async () => {
  const asked: string[] = [];
  const store = {
    put: async () => void asked.push('put'),
    delete: async () => void asked.push('delete'),
  } as Partial<ObjectStore> as ObjectStore;
  const binding = { holds: false };
  const guarded = onceBound(store, binding);
  const file = { path: '/nowhere', bytes: 1, sha256: 'a' };
  for (const change of [() => guarded.put('a', file), () => guarded.delete('a')]) {
    await expect(change()).rejects.toMatchObject({ code: 'unavailable' });
  }
  expect(asked).toEqual([]);
  binding.holds = true;
  await guarded.put('a', file);
  await guarded.delete('a');
  expect(asked).toEqual(['put', 'delete']);
});
