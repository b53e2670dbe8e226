import type { ConfirmLock, KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import { originalKey, renditionsPrefix } from '../base/object-key.ts';
import type { ContentRemoval, ContentRemovalRepository } from '../db/content-removal-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';

/**
 * After this time nobody puts objects of a deleted media object any more. A worker notices within a second that its lease is gone, and
 * begins no further put. A put under way is not aborted: 3 GB take ten minutes at 5 MB/s.
 */
export const SETTLED_MS = 10 * 60_000;
const INTERVAL_MS = 60_000;
const PAGE = 100;
/** After so many failures in a row, the cause is the store or the database; the next sweep is early enough. */
const MAX_FAILURES = 3;

export interface RemovalSweepParts {
  contentRemovals: ContentRemovalRepository;
  media: Pick<MediaRepository, 'isReferenced'>;
  store: Pick<ObjectStore, 'stat' | 'list' | 'delete'>;
  /** By SHA-256; shared with ingest and removal: no media object of the content is created while it is held. */
  lock: KeyedLock;
  /** Whether the deployment is being moved. Objects deleted meanwhile may be at the destination already, and are removed there. */
  isMoving(): boolean;
  logger: Logger;
  /** Default {@link SETTLED_MS}. */
  settledMs?: number;
  /** Between two sweeps. */
  intervalMs?: number;
}

/** Removes objects of deleted media that were left in the store, because a process was killed or put them too late. */
export interface RemovalSweep {
  /** Sweeps all recorded deletions once, then settled ones at intervals. */
  start(): void;
  /** Sweeps once. @param which `settled` deletions, which are over then, or `all`, of which the younger ones are swept again */
  sweep(which: 'settled' | 'all'): Promise<void>;
  stop(): Promise<void>;
}

/**
 * {@link RemovalSweep}. When the last media object of a content is deleted, every object under its hash is an orphan. While one exists,
 * nothing is removed: leftovers go with the last one.
 */
export function createRemovalSweep(parts: RemovalSweepParts): RemovalSweep {
  const { contentRemovals, media, store, lock, isMoving, logger } = parts;
  const { settledMs = SETTLED_MS, intervalMs = INTERVAL_MS } = parts;
  let stopping = false;
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> = Promise.resolve();

  /** Removes all objects of a content. @returns false if it had to stop before the end */
  async function removeObjects(sha256: string, lost: AbortSignal, confirm: ConfirmLock): Promise<boolean> {
    const original = originalKey(sha256);
    const keys = (await store.stat(original)) === null ? [] : [original];
    for await (const { key } of store.list(renditionsPrefix(sha256))) keys.push(key);
    for (const key of keys) {
      // Checked again for each object: an original cannot be made again.
      if (stopping || lost.aborted || (await media.isReferenced(original))) return false;
      await confirm();
      await store.delete(key);
    }
    if (keys.length > 0)
      logger.info({ sha256, objects: keys.length }, 'leftover objects of a deleted media object removed');
    return true;
  }

  async function sweepOne(removal: ContentRemoval, isSettled: boolean): Promise<void> {
    await lock.run(removal.sha256, async (lost, confirm) => {
      // Another node may have done it meanwhile.
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
          await sweepOne(removal, removal.sinceMs <= settledUntilMs);
          failures = 0;
        } catch (error) {
          failures += 1;
          logger.warn(
            { err: error, sha256: removal.sha256 },
            'leftover objects could not be removed; tried again later',
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
      .catch((error: unknown) => logger.warn({ err: error }, 'leftover objects could not be looked for'));
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
