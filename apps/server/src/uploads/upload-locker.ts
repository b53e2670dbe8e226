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

/** In milliseconds of a clock that never jumps. */
export interface UploadLockTiming {
  /** How long it is waited for a lock that another request has. */
  patience: number;
  /** Between two beats of a holder. */
  beat: number;
  /** A holder whose beat stands still for this long is dead. */
  death: number;
  /** How soon a holder sees that somebody waits. */
  look: number;
  /** How often somebody who waits for another process looks. */
  poll: number;
  /** A holder whose last beat is older than this beats before it writes: another may have taken it for dead. */
  doubt: number;
}

const TIMING: UploadLockTiming = { patience: 30_000, beat: 1000, death: 10_000, look: 250, poll: 100, doubt: 5000 };

/** Sees to it that one request at a time has an upload, over all processes that share the database. */
export interface UploadLocker extends Locker {
  /**
   * Makes sure that this process still has the lock: asked before every write, so that one that slept and was taken for dead
   * writes nothing any more.
   * @throws AppError `upload_locked`
   */
  confirm(id: string): Promise<void>;
  isHeld(id: string): boolean;
  /**
   * Stands for the time in which this process has the lock without a break: while it is the same, nobody else has added to the upload.
   * Null where the lock is not held.
   */
  tenure(id: string): object | null;
  /** Does something under the lock. It cannot be asked to hurry. */
  run<T>(id: string, task: () => Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

interface Held {
  requestRelease: RequestRelease;
  released: Promise<void>;
  release(): void;
  /** When the database said yes; null while it has not. */
  sinceMs: number | null;
  lost: boolean;
}

/**
 * {@link UploadLocker} by the locks of the database. Within this process who waits asks the holder directly; a holder in another
 * process is asked through the database.
 */
export function createUploadLocker({ uploads, logger, timing = {} }: UploadLockerParts): UploadLocker {
  const ms = { ...TIMING, ...timing };
  const holder = randomUUID();
  const held = new Map<string, Held>();
  const now = () => performance.now();
  let beatAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();

  const beat = async (): Promise<void> => {
    const atMs = now();
    const ours = new Set(await uploads.beat(holder));
    beatAtMs = atMs;
    for (const [id, entry] of held) {
      if (entry.sinceMs === null || entry.sinceMs > atMs || ours.has(id)) continue;
      entry.lost = true;
      void entry.requestRelease();
    }
    for (const id of ours) await giveBackStray(id);
  };

  /** A lock that could not be given back when its request ended would be kept alive by the beat of all others. */
  const giveBackStray = async (id: string): Promise<void> => {
    if (held.has(id)) return;
    // Who asks for it meanwhile waits, or would believe to have it.
    held.set(
      id,
      newEntry(() => undefined),
    );
    await unlock(id);
  };

  const look = async (): Promise<void> => {
    for (const id of await uploads.releaseRequested(holder)) void held.get(id)?.requestRelease();
    if (now() - beatAtMs >= ms.beat) await beat();
  };

  const watch = () => {
    timer ??= setInterval(() => {
      if (held.size === 0) {
        clearInterval(timer);
        timer = undefined;
        return;
      }
      looking = looking
        .then(look)
        .catch((error: unknown) => logger.warn({ err: error }, 'the locks of uploads could not be looked at'));
    }, ms.look).unref();
  };

  /** Waits for the database to give the lock to this process, which has it for this request already. */
  const lockInDatabase = async (id: string, signal: AbortSignal, deadlineMs: number): Promise<void> => {
    // Who slept itself does not know how long the other stood still.
    const watched = createHeartbeatWatch(now, { maxGapMs: ms.death / 2 });
    let asked: string | null = null;
    for (;;) {
      const other = await uploads.lock(id, holder);
      if (other === undefined) throw noSuchUpload();
      // Our own: given back in a moment in which the database could not be written.
      if (other === null || other.holder === holder) return;
      if (asked !== other.holder) await uploads.requestRelease(id);
      asked = other.holder;
      watched.observe([{ id: other.holder, beat: other.beat }]);
      if ((watched.silentMs(other.holder) ?? 0) >= ms.death && (await uploads.takeLock(id, other, holder))) {
        logger.warn({ uploadId: id }, 'the lock of an upload was taken from a process that is gone');
        return;
      }
      if (signal.aborted || now() >= deadlineMs) throw locked();
      await new Promise((resolve) => setTimeout(resolve, ms.poll));
    }
  };

  const acquire = async (id: string, signal: AbortSignal, requestRelease: RequestRelease): Promise<void> => {
    const deadlineMs = now() + ms.patience;
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
      // In the database it stays with this process, which gives it back with its next beat.
      logger.warn({ err: error, uploadId: id }, 'the lock of an upload could not be given back');
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
      if (!entry.lost && now() - Math.max(beatAtMs, entry.sinceMs) > ms.doubt) await beat();
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
      await looking;
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

/** Whether something happens within that time. */
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
