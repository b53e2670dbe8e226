import { AppError } from '../../base/app-error.ts';
import { systemCode } from '../../base/storage-error.ts';

/** How long a call waits for a database that another process has locked, by default; in milliseconds. */
export const LOCK_WAIT_MS = 10_000;
/**
 * Pauses between two tries, the first and the longest. Our transactions take a few milliseconds; another program holds
 * a longer lock.
 */
const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 25;

interface Waiting {
  attempt(): Promise<unknown>;
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  deadlineMs: number;
}

/** Lets calls wait for a locked database without blocking the event loop. */
export interface LockQueue {
  /**
   * Wraps a repository. Each method is tried again while the database is locked. That is safe, because it is one transaction or one
   * statement, which takes the lock before it does anything.
   * @throws AppError `unavailable`, by each method, if the lock lasts longer than `waitMs`; then nothing was written
   */
  guard<T extends object>(repository: T, waitMs?: number): T;
  /** Resolves when no call is waiting. */
  drained(): Promise<void>;
}

/**
 * Creates a {@link LockQueue}. SQLite's own wait (`busy_timeout`) blocks the whole thread, and with it answers that need no write, so
 * connections must not have one. Waiting calls are served in order, one in each turn of the event loop. A call that arrives just when
 * the lock is free may overtake them.
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
      for (const listener of listeners) listener();
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
    // Gives others their turn between two transactions.
    lookIn(0);
  };

  const wait = (attempt: () => Promise<unknown>, waitMs: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      queue.push({ attempt, resolve, reject, deadlineMs: performance.now() + waitMs });
      if (timer === undefined) lookIn(FIRST_PAUSE_MS);
    });

  return {
    guard<T extends object>(repository: T, waitMs = LOCK_WAIT_MS): T {
      const methods = Object.entries(repository).map(([name, method]: [string, unknown]) => {
        if (typeof method !== 'function') throw new TypeError(`${name} of a repository is not a method`);
        const guarded = (...args: unknown[]): unknown => {
          const answer: unknown = method.apply(repository, args);
          if (!(answer instanceof Promise)) return answer;
          return answer.catch((error: unknown) => {
            if (!isLocked(error)) throw error;
            return wait(() => method.apply(repository, args), waitMs);
          });
        };
        return [name, guarded];
      });
      // The same names with the same signatures, which the compiler cannot know.
      return Object.fromEntries(methods) as T;
    },

    async drained() {
      // A call of this moment has met the lock, and is about to queue.
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
    'Another program has locked the database, so nothing can be written. Nothing was stored; try again in a few seconds.',
    { cause, headers: { 'Retry-After': '5' } },
  );
}
