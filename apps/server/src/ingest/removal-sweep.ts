import type { ConfirmLock, KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import { originalKey, renditionsPrefix } from '../base/object-key.ts';
import type { ContentRemoval, ContentRemovalRepository } from '../db/content-removal-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';

/**
 * So long after a deletion nobody puts anything of the media object any more. A worker notices within a second that its lease is gone, and begins
 * nothing then; but what it has begun to put is not cut off, and a rendition of 3 GB is on its way for ten minutes at 5 MB/s.
 */
export const SETTLED_MS = 10 * 60_000;
const INTERVAL_MS = 60_000;
const PAGE = 100;
/** After so many in a row that failed, the store or the database is the reason, and the next look is early enough. */
const MAX_FAILURES = 3;

export interface RemovalSweepParts {
  contentRemovals: ContentRemovalRepository;
  media: Pick<MediaRepository, 'isReferenced'>;
  store: Pick<ObjectStore, 'stat' | 'list' | 'delete'>;
  /** The one that ingest and removal hold, by SHA-256: no media object of the content comes while it is held. */
  lock: KeyedLock;
  /** Whether the deployment is being moved: what is deleted meanwhile may be at the destination already, and is removed there. */
  isMoving(): boolean;
  logger: Logger;
  /** Default {@link SETTLED_MS}. */
  settledMs?: number;
  /** Between two looks. */
  intervalMs?: number;
}

/** Removes objects of deleted media that were left in the store: whoever was to remove them was killed, or put them too late. */
export interface RemovalSweep {
  /** Looks for what every noted deletion has left, then again and again for what those have that are settled. */
  start(): void;
  /** One look. @param which of `settled` deletions, which are over then, or of `all`, of which the younger ones are looked for again */
  sweep(which: 'settled' | 'all'): Promise<void>;
  stop(): Promise<void>;
}

/**
 * {@link RemovalSweep}: with the last media object of a content every object under its hash belongs to nobody, whatever it is called. While there
 * is one, nothing is removed: what another has left goes with it.
 */
export function createRemovalSweep(parts: RemovalSweepParts): RemovalSweep {
  const { contentRemovals, media, store, lock, isMoving, logger } = parts;
  const { settledMs = SETTLED_MS, intervalMs = INTERVAL_MS } = parts;
  let stopping = false;
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> = Promise.resolve();

  /** Removes what the content has in the store. @returns false where it was not to go on to the end */
  async function removeObjects(sha256: string, lost: AbortSignal, confirm: ConfirmLock): Promise<boolean> {
    const original = originalKey(sha256);
    const keys = (await store.stat(original)) === null ? [] : [original];
    for await (const { key } of store.list(renditionsPrefix(sha256))) keys.push(key);
    for (const key of keys) {
      // Asked again for each, however sure: an original cannot be made again.
      if (stopping || lost.aborted || (await media.isReferenced(original))) return false;
      await confirm();
      await store.delete(key);
    }
    if (keys.length > 0)
      logger.info({ sha256, objects: keys.length }, 'objects that a deleted media object had left are gone');
    return true;
  }

  async function carryOut(removal: ContentRemoval, isSettled: boolean): Promise<void> {
    await lock.run(removal.sha256, async (lost, confirm) => {
      // Another node may have been here meanwhile.
      if (stopping || isMoving() || !(await contentRemovals.stands(removal))) return;
      const isOver =
        (await media.isReferenced(originalKey(removal.sha256))) || (await removeObjects(removal.sha256, lost, confirm));
      if (isOver && isSettled && !isMoving()) await contentRemovals.drop(removal);
    });
  }

  async function sweep(which: 'settled' | 'all'): Promise<void> {
    const settledUntilMs = Date.now() - settledMs;
    let failures = 0;
    for (let after: string | null = null; ; ) {
      const page: ContentRemoval[] = await contentRemovals.page({
        ...{ untilMs: which === 'all' ? null : settledUntilMs, after, limit: PAGE },
      });
      for (const removal of page) {
        if (stopping || isMoving()) return;
        try {
          await carryOut(removal, removal.sinceMs <= settledUntilMs);
          failures = 0;
        } catch (error) {
          failures += 1;
          logger.warn(
            { err: error, sha256: removal.sha256 },
            'what a deleted media object left could not be removed; later',
          );
          if (failures === MAX_FAILURES) return;
        }
      }
      if (page.length < PAGE) return;
      after = page.at(-1)?.sha256 ?? null;
    }
  }

  function sweepAndLog(which: 'settled' | 'all'): void {
    working = working
      .then(() => sweep(which))
      .catch((error: unknown) => logger.warn({ err: error }, 'what deleted media left could not be looked for'));
  }

  return {
    sweep,

    start() {
      if (timer || stopping) return;
      timer = setInterval(() => sweepAndLog('settled'), intervalMs).unref();
      sweepAndLog('all');
    },

    async stop() {
      stopping = true;
      clearInterval(timer);
      timer = undefined;
      await working;
    },
  };
}
