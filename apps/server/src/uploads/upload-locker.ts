import { randomUUID } from 'node:crypto';
import type { Lock, Locker, RequestRelease } from '@tus/server';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { UploadRepository } from '../db/upload-repository.ts';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import { noSuchUpload } from './upload-problems.ts';

export interface UploadLockerParts {
  uploads: Pick<UploadRepository, 'lock' | 'takeLock' | 'requestRelease' | 'releaseRequested' | 'beat' | 'unlock'>;
  logger: Logger;
  timing?: Partial<UploadLockTiming>;
}

/** On a clock that never jumps. */
export interface UploadLockTiming {
  /** Longest wait for a lock that another request has. */
  waitMs: number;
  /** Between two heartbeats of a holder. */
  heartbeatMs: number;
  /** A holder whose heartbeat stands still for this long is dead. */
  deathMs: number;
  /** How often a holder checks whether another request waits. */
  checkMs: number;
  /** How often a request that waits for another process tries again. */
  pollMs: number;
  /** A holder whose last heartbeat is older than this sends one before it writes: another may have taken it for dead. */
  doubtMs: number;
}

const TIMING: UploadLockTiming = {
  ...{ waitMs: 30_000, heartbeatMs: 1000, deathMs: 10_000 },
  ...{ checkMs: 250, pollMs: 100, doubtMs: 5000 },
};

/** Lets one request at a time have an upload, over all processes that share the database. */
export interface UploadLocker extends Locker {
  /**
   * Makes sure that this process still has the lock. Called before every write: a process that slept and was taken for dead must write
   * nothing.
   * @throws AppError `upload_locked`
   */
  confirm(id: string): Promise<void>;
  isHeld(id: string): boolean;
  /**
   * Identifies the time for which this process has had the lock without a break. While it is the same, no other process has added to the
   * upload. Null if the lock is not held.
   */
  tenure(id: string): object | null;
  /** Runs a task under the lock. Other requests cannot interrupt it. */
  run<T>(id: string, task: () => Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

interface Held {
  requestRelease: RequestRelease;
  released: Promise<void>;
  release(): void;
  /** When the database granted the lock; null before. */
  sinceMs: number | null;
  lost: boolean;
}

/**
 * {@link UploadLocker} by locks in the database. A waiting request asks a holder in this process directly, and one in another process
 * through the database.
 */
export function createUploadLocker({ uploads, logger, timing = {} }: UploadLockerParts): UploadLocker {
  const ms = { ...TIMING, ...timing };
  const holder = randomUUID();
  const held = new Map<string, Held>();
  const now = () => performance.now();
  let beatAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let checking: Promise<void> = Promise.resolve();

  const beat = async (): Promise<void> => {
    const atMs = now();
    const ours = new Set(await uploads.beat(holder));
    beatAtMs = atMs;
    for (const [id, entry] of held) {
      if (entry.sinceMs === null || entry.sinceMs > atMs || ours.has(id)) continue;
      entry.lost = true;
      void entry.requestRelease();
    }
    for (const id of ours) await releaseStray(id);
  };

  /** Releases a lock whose release failed when its request ended. The common heartbeat would keep it alive. */
  const releaseStray = async (id: string): Promise<void> => {
    if (held.has(id)) return;
    // A request that comes meanwhile waits for it; otherwise it would believe that it has the lock.
    held.set(
      id,
      newEntry(() => undefined),
    );
    await unlock(id);
  };

  const check = async (): Promise<void> => {
    for (const id of await uploads.releaseRequested(holder)) void held.get(id)?.requestRelease();
    if (now() - beatAtMs >= ms.heartbeatMs) await beat();
  };

  const watch = () => {
    timer ??= setInterval(() => {
      if (held.size === 0) {
        clearInterval(timer);
        timer = undefined;
        return;
      }
      checking = checking
        .then(check)
        .catch((error: unknown) => logger.warn({ err: error }, 'locks of uploads could not be checked'));
    }, ms.checkMs).unref();
  };

  /** Waits for the database to give the lock to this process, which has it for this request already. */
  const lockInDatabase = async (id: string, signal: AbortSignal, deadlineMs: number): Promise<void> => {
    // If this process slept, the holder may have been alive meanwhile.
    const watched = createHeartbeatWatch(now, { maxGapMs: ms.deathMs / 2 });
    let asked: string | null = null;
    for (;;) {
      const other = await uploads.lock(id, holder);
      if (other === undefined) throw noSuchUpload();
      // Our own: its release failed because the database could not be written.
      if (other === null || other.holder === holder) return;
      if (asked !== other.holder) await uploads.requestRelease(id);
      asked = other.holder;
      watched.observe([{ id: other.holder, beat: other.beat }]);
      if ((watched.silentMs(other.holder) ?? 0) >= ms.deathMs && (await uploads.takeLock(id, other, holder))) {
        logger.warn({ uploadId: id }, 'lock of an upload taken from a process that is gone');
        return;
      }
      if (signal.aborted || now() >= deadlineMs) throw locked();
      await new Promise((resolve) => setTimeout(resolve, ms.pollMs));
    }
  };

  const acquire = async (id: string, signal: AbortSignal, requestRelease: RequestRelease): Promise<void> => {
    const deadlineMs = now() + ms.waitMs;
    for (let other = held.get(id); other; other = held.get(id)) {
      void other.requestRelease();
      if (signal.aborted || !(await inTime(other.released, deadlineMs - now()))) throw locked();
    }
    const entry = newEntry(requestRelease);
    held.set(id, entry);
    try {
      await lockInDatabase(id, signal, deadlineMs);
      entry.sinceMs = now();
      watch();
    } catch (error) {
      held.delete(id);
      entry.release();
      throw error;
    }
  };

  const unlock = async (id: string): Promise<void> => {
    const entry = held.get(id);
    if (!entry) return;
    try {
      if (!entry.lost) await uploads.unlock(id, holder);
    } catch (error) {
      // In the database this process still has it, and releases it with its next heartbeat.
      logger.warn({ err: error, uploadId: id }, 'lock of an upload could not be released');
    } finally {
      held.delete(id);
      entry.release();
    }
  };

  const newLock = (id: string): Lock => ({
    lock: (signal, requestRelease) => acquire(id, signal, requestRelease),
    unlock: () => unlock(id),
  });

  return {
    newLock,
    async confirm(id) {
      const entry = held.get(id);
      if (!entry || entry.sinceMs === null) throw locked();
      if (!entry.lost && now() - Math.max(beatAtMs, entry.sinceMs) > ms.doubtMs) await beat();
      if (entry.lost) throw locked();
    },
    isHeld: (id) => held.has(id),
    tenure(id) {
      const entry = held.get(id);
      return entry === undefined || entry.sinceMs === null || entry.lost ? null : entry;
    },
    async run(id, task) {
      await acquire(id, new AbortController().signal, () => undefined);
      try {
        return await task();
      } finally {
        await unlock(id);
      }
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      await checking;
    },
  };
}

function newEntry(requestRelease: RequestRelease): Held {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { requestRelease, released, release, sinceMs: null, lost: false };
}

/** Whether an event happens within that time. */
async function inTime(event: Promise<void>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.max(0, withinMs));
  });
  return Promise.race([event.then(() => true), late]).finally(() => clearTimeout(timer));
}

function locked(): AppError {
  return new AppError(
    'upload_locked',
    'Another request has this upload and did not let go of it in time. Ask for its offset again in a moment.',
    { headers: { 'Retry-After': '1' } },
  );
}
