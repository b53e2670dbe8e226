import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { Deployment } from '../db/deployment.ts';
import type { ObjectStore } from './object-store.ts';
import { ObjectStorageError, S3Failure, StorageAheadError } from './s3-failure.ts';
import type { S3ObjectStore } from './s3-object-store.ts';

/** What a storage is known to belong to. A storage of this machine alone is its database's from the start. */
export interface StorageBinding {
  /** Whether the storage is known to be that of the database: before, nothing is put there, and nothing removed. */
  readonly holds: boolean;
  /** Resolves when it is known. @throws ObjectStorageError where it is known to be another's; nothing was changed there */
  readonly known: Promise<void>;
  close(): void;
}

const RETRY_MS = 5_000;
/** Longer than a look for a mark and the writing of one take. */
const SETTLED_MS = 500;

/** A storage that can be marked, and what it is called in messages. */
interface Markable {
  store: Pick<S3ObjectStore, 'owner' | 'list'>;
  shown: string;
}

/** The binding of a storage that nobody else can have. */
export const ALWAYS_BOUND: StorageBinding = { holds: true, known: Promise.resolve(), close: () => undefined };

/**
 * Ties a storage to the deployment whose database refers to its objects, by a mark in it: a service that was told of another bucket or
 * prefix than its database's, or of another database, would take every object for lost, or for nobody's.
 * @throws ObjectStorageError where it is another deployment's, or has none of this one's objects; StorageAheadError where it may become
 * this one's. Where it does not answer, that is no
 * error: it is asked again until it does.
 */
export async function bindStorage(
  parts: Markable & { deployment: Deployment; logger: Pick<Logger, 'warn' | 'info'>; retryMs?: number },
): Promise<StorageBinding> {
  const { deployment, store, shown, logger, retryMs = RETRY_MS } = parts;
  let holds = false;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  /** @returns false where the storage does not answer */
  const bind = async (): Promise<boolean> => {
    try {
      await markAsOurs({ deployment, store, shown });
    } catch (error) {
      // One that answers something else than it should may do better later, too.
      if (!(error instanceof AppError || error instanceof S3Failure)) throw error;
      logger.warn(
        { err: error, storage: shown },
        'the object storage does not answer: nothing is taken in until it does',
      );
      return false;
    }
    holds = true;
    return true;
  };

  const bindLater = (done: () => void, refused: (error: unknown) => void) => {
    timer = setTimeout(() => {
      bind().then((bound) => {
        // Nobody is there any more who would begin with it.
        if (closed) return;
        if (bound) {
          logger.info({ storage: shown }, 'the object storage answers');
          done();
        } else bindLater(done, refused);
      }, refused);
    }, retryMs);
  };

  const known = (await bind()) ? Promise.resolve() : new Promise<void>(bindLater);
  // Whoever waits hears of it.
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

/** A store in which nothing is changed before it is known to be the right one. @throws AppError `unavailable` where something would be */
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

/** @throws ObjectStorageError where the storage is another deployment's, or has none of this one's objects */
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
  // Another one may have begun with it in the same moment: whoever saw no mark has written its own by the end of this pause, and the last
  // of them is the owner.
  await sleep(SETTLED_MS);
  if ((await store.owner.read()) !== deployment.id) throw refusal(shown, 'was just taken by another deployment');
}

/**
 * Marks the storage that a deployment is about to be moved to. Objects that are there already are taken for its own, as a move that was
 * broken off has left them.
 * @throws ObjectStorageError where they are another deployment's
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

/** A deployment that is being moved marks its new storage at once, and its rows are in the database when all of them are. */
function aheadOfDatabase(shown: string, why: string): StorageAheadError {
  return new StorageAheadError(
    `The storage ${shown} ${why}; the database of this node is empty. ${REMEDY}. Or that deployment is being moved here: ` +
      'then the settings are right, and this node starts when the move is done.',
  );
}

const REMEDY =
  'Nothing was changed. Set MDS_DATABASE_URL and MDS_STORAGE_URL both as the other nodes have them; ' +
  'a new deployment begins with an empty bucket or prefix, one whose objects are lost with their backup';
