import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { Deployment } from '../db/deployment.ts';
import type { ObjectStore } from './object-store.ts';
import { ObjectStorageError, S3Failure, StorageAheadError } from './s3-failure.ts';
import type { S3ObjectStore } from './s3-object-store.ts';

/** Whether a storage is known to belong to this deployment. A local folder belongs to its database from the start. */
export interface StorageBinding {
  /** Whether the storage is known to belong to the database. Before that, nothing is put there or removed. */
  readonly holds: boolean;
  /** Resolves when it is known. @throws ObjectStorageError if it belongs to another deployment; nothing was changed there */
  readonly known: Promise<void>;
  close(): void;
}

const RETRY_MS = 5_000;
/** Longer than it takes to look for a mark and to write one. */
const SETTLED_MS = 500;

/** A storage that can be marked, with its name in messages. */
interface Markable {
  store: Pick<S3ObjectStore, 'owner' | 'list'>;
  shown: string;
}

/** The binding of a storage that no other deployment can have. */
export const ALWAYS_BOUND: StorageBinding = { holds: true, known: Promise.resolve(), close: () => undefined };

/**
 * Ties a storage to the deployment whose database refers to its objects, by a mark in it. With the bucket or prefix of another database, a
 * service would take every object for lost, or for an orphan. A storage that does not answer is no error: it is tried until it does.
 * @throws ObjectStorageError if it belongs to another deployment, or has none of this one's objects; StorageAheadError if this may change
 */
export async function bindStorage(
  parts: Markable & { deployment: Deployment; logger: Pick<Logger, 'warn' | 'info'>; retryMs?: number },
): Promise<StorageBinding> {
  const { deployment, store, shown, logger, retryMs = RETRY_MS } = parts;
  let holds = false;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  /** @returns false if the storage does not answer */
  const bind = async (): Promise<boolean> => {
    try {
      await markAsOurs({ deployment, store, shown });
    } catch (error) {
      // A wrong answer may also pass.
      if (!(error instanceof AppError || error instanceof S3Failure)) throw error;
      logger.warn({ err: error, storage: shown }, 'object storage does not answer; nothing is accepted until it does');
      return false;
    }
    holds = true;
    return true;
  };

  const bindLater = (done: () => void, refused: (error: unknown) => void) => {
    timer = setTimeout(() => {
      bind().then((bound) => {
        // The process is stopping.
        if (closed) return;
        if (bound) {
          logger.info({ storage: shown }, 'object storage answers');
          done();
        } else bindLater(done, refused);
      }, refused);
    }, retryMs);
  };

  const known = (await bind()) ? Promise.resolve() : new Promise<void>(bindLater);
  // Its callers handle the error.
  known.catch(() => undefined);
  return {
    get holds() {
      return holds;
    },
    known,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/** Wraps a store so that nothing is changed before it is known to be the right one. @throws AppError `unavailable` for earlier changes */
export function onceBound(store: ObjectStore, binding: Pick<StorageBinding, 'holds'>): ObjectStore {
  const requireBound = () => {
    if (binding.holds) return;
    const detail = 'The object storage does not answer. Nothing was changed in it; try again in a few seconds.';
    throw new AppError('unavailable', detail, { headers: { 'Retry-After': '5' } });
  };
  return {
    ...store,
    async put(...args) {
      requireBound();
      return store.put(...args);
    },
    async delete(...args) {
      requireBound();
      return store.delete(...args);
    },
  };
}

/** @throws ObjectStorageError if the storage belongs to another deployment, or has none of this one's objects */
async function markAsOurs({ deployment, store, shown }: Markable & { deployment: Deployment }): Promise<void> {
  const owner = await store.owner.read();
  if (owner === deployment.id) return;
  if (owner !== null) {
    const why = 'belongs to another deployment, whose database is another one';
    throw deployment.hasMedia ? refusal(shown, why) : aheadOfDatabase(shown, why);
  }
  const isEmpty = await hasNothing(store);
  if (isEmpty && deployment.hasMedia) {
    throw refusal(shown, 'has no objects, and the database has media, whose objects are elsewhere');
  }
  if (!isEmpty && !deployment.hasMedia) {
    throw refusal(shown, 'has objects already, and the database has no media that they could belong to');
  }
  await store.owner.write(deployment.id);
  // Another deployment may begin at the same moment. By the end of this pause, both have written their marks; the last one is the owner.
  await sleep(SETTLED_MS);
  if ((await store.owner.read()) !== deployment.id) throw refusal(shown, 'was just taken by another deployment');
}

/**
 * Marks the storage that a deployment is about to be moved to. Objects that it has already count as the deployment's own: an interrupted
 * move has left them.
 * @throws ObjectStorageError if they belong to another deployment
 */
export async function markDestination({
  deploymentId,
  store,
  shown,
}: Markable & { deploymentId: string }): Promise<void> {
  const owner = await store.owner.read();
  if (owner === deploymentId) return;
  if (owner !== null && !(await hasNothing(store))) {
    throw new ObjectStorageError(
      `The storage ${shown} has the objects of another deployment. Nothing was changed. Take an empty bucket or prefix.`,
    );
  }
  await store.owner.write(deploymentId);
}

async function hasNothing({ list }: Pick<S3ObjectStore, 'list'>): Promise<boolean> {
  for await (const _ of list('')) return false;
  return true;
}

function refusal(shown: string, why: string): ObjectStorageError {
  return new ObjectStorageError(`The storage ${shown} ${why}. ${REMEDY}.`);
}

/** A deployment that is being moved marks its new storage at once. Its rows appear in the database all together, at the end. */
function aheadOfDatabase(shown: string, why: string): StorageAheadError {
  return new StorageAheadError(
    `The storage ${shown} ${why}; the database of this node is empty. ${REMEDY}. Or that deployment is being moved here: ` +
      'then the settings are right, and this node starts when the move is done.',
  );
}

const REMEDY =
  'Nothing was changed. Set MDS_DATABASE_URL and MDS_STORAGE_URL both as the other nodes have them; ' +
  'a new deployment begins with an empty bucket or prefix, one whose objects are lost with their backup';
