import { AppError } from '../../base/app-error.ts';
import { systemCode } from '../../base/storage-error.ts';

/** How long a call waits for a database that another process has locked, as a rule; in milliseconds. */
export const LOCK_PATIENCE_MS = 10_000;
/** Between two tries, at first and at most: a transaction of ours takes a few milliseconds, a lock that lasts is somebody's tool. */
const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 25;

interface Waiting {
  attempt(): Promise<unknown>;
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  deadlineMs: number;
}

/** Has calls wait for a locked database while the event loop goes on. */
export interface LockQueue {
  /**
   * The repository with the same methods, each of which is tried again while the database is locked. That is safe as each is one
   * transaction or one statement, which takes the lock before it does anything.
   * @throws AppError `unavailable` (of each method) where the lock lasts longer than `patienceMs`; then nothing was written
   */
  guard<T extends object>(repository: T, patienceMs?: number): T;
  /** Resolves when nobody waits any more. */
  drained(): Promise<void>;
}

/**
 * Makes a {@link LockQueue}. SQLite's own way of waiting (`busy_timeout`) puts the whole thread to sleep, and with it every answer
 * that needs no write; so the connection must not have one. Who waits is served in order, one in a turn of the loop. A call that
 * comes in the moment in which the lock is free may overtake those who are about to look.
 */
export function createLockQueue(): LockQueue {
  let queue: Waiting[] = [];
  let timer: NodeJS.Timeout | undefined;
  let onDrained: (() => void)[] = [];

  const refuseOverdue = (error: unknown) => {
    const nowMs = performance.now();
    const overdue = queue.filter(({ deadlineMs }) => deadlineMs <= nowMs);
    queue = queue.filter(({ deadlineMs }) => deadlineMs > nowMs);
    for (const { reject } of overdue) reject(lockedForLong(error));
  };

  const lookIn = (pauseMs: number) => {
    timer = setTimeout(() => void look(pauseMs), pauseMs);
  };

  const look = async (pauseMs: number): Promise<void> => {
    const [first] = queue;
    if (first === undefined) {
      timer = undefined;
      const listeners = onDrained;
      onDrained = [];
      for (const tell of listeners) tell();
      return;
    }
    try {
      const result = await first.attempt();
      queue.shift();
      first.resolve(result);
    } catch (error) {
      if (isLocked(error)) {
        refuseOverdue(error);
        lookIn(Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, pauseMs * 2)));
        return;
      }
      queue.shift();
      first.reject(error);
    }
    // Even so, others have their turn between two transactions.
    lookIn(0);
  };

  const wait = (attempt: () => Promise<unknown>, patienceMs: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      queue.push({ attempt, resolve, reject, deadlineMs: performance.now() + patienceMs });
      if (timer === undefined) lookIn(FIRST_PAUSE_MS);
    });

  return {
    guard<T extends object>(repository: T, patienceMs = LOCK_PATIENCE_MS): T {
      const methods = Object.entries(repository).map(([name, method]: [string, unknown]) => {
        if (typeof method !== 'function') throw new TypeError(`${name} of a repository is not a method`);
        const guarded = (...args: unknown[]): unknown => {
          const answer: unknown = method.apply(repository, args);
          if (!(answer instanceof Promise)) return answer;
          return answer.catch((error: unknown) => {
            if (!isLocked(error)) throw error;
            return wait(() => method.apply(repository, args), patienceMs);
          });
        };
        return [name, guarded];
      });
      // The same names with the same signatures, which the compiler cannot know.
      return Object.fromEntries(methods) as T;
    },

    async drained() {
      // Whoever called a moment ago has met the lock, and is about to queue.
      await new Promise((resolve) => setImmediate(resolve));
      if (queue.length > 0) await new Promise<void>((resolve) => onDrained.push(resolve));
    },
  };
}

/** Whether another connection holds the lock that was asked for. */
function isLocked(error: unknown): boolean {
  return systemCode(error)?.startsWith('SQLITE_BUSY') ?? false;
}

function lockedForLong(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'The database is locked by another program, so that nothing can be written. Nothing was kept; ask again in a few seconds.',
    { cause, headers: { 'Retry-After': '5' } },
  );
}
