import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientConfig } from 'pg';
import { AppError } from '../../base/app-error.ts';
import { createKeyedLock, type KeyedLock } from '../../base/keyed-lock.ts';
import type { Logger } from '../../base/logger.ts';
import { openWatchedConnection, type WatchedConnection, type WatchTiming } from './watched-connection.ts';

/** First number of these locks, next to that of the repositories' own. The second comes from the key. */
const KEYED_CLASS = 0x4d4454;
/** How long a task waits for a key that another process has, which may be storing a large original. */
const WAIT_MS = 60_000;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

/** One connection, which holds locks until it is lost. */
interface Session {
  connection: WatchedConnection;
  /** How many tasks run under its locks. */
  held: number;
}

/**
 * {@link KeyedLock} over all processes of a database, by advisory locks of one connection. The locks of a process that dies are free.
 * If the connection is lost, so are its locks. Tasks are notified, and decide if they continue without a lock.
 *
 * A dead connection is detected within seconds, and before that by a task that confirms its lock. A connection is
 * closed after any failure, because the locks of its session are unknown then.
 * @param parts.waitMs after it a task is refused with `unavailable`
 */
export function createPostgresKeyedLock(parts: {
  connection: ClientConfig;
  logger: Pick<Logger, 'warn'>;
  waitMs?: number;
  timing?: WatchTiming;
}): KeyedLock & { close(): Promise<void> } {
  const { connection, logger, waitMs = WAIT_MS, timing } = parts;
  const here = createKeyedLock();
  let current: Promise<Session> | null = null;

  const open = async (onLost: () => void): Promise<Session> => {
    const session: Session = { connection: await openWatchedConnection({ connection, timing }), held: 0 };
    session.connection.lost.addEventListener('abort', () => {
      onLost();
      if (session.held === 0) return;
      logger.warn({ held: session.held }, 'locks over all nodes were lost with the connection to the database');
    });
    return session;
  };

  const connect = (): Promise<Session> => {
    if (current !== null) return current;
    const forget = () => {
      if (current === mine) current = null;
    };
    const mine = open(forget);
    current = mine;
    mine.catch(forget);
    return mine;
  };

  const take = async (numbers: readonly number[]): Promise<Session> => {
    const deadlineMs = performance.now() + waitMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      const session = await connect();
      const lock = { text: 'SELECT pg_try_advisory_lock($1, $2) AS taken', values: [...numbers] };
      const { rows } = await sure(session.connection, session.connection.query<{ taken: boolean }>(lock));
      if (rows[0]?.taken) return session;
      if (performance.now() >= deadlineMs) throw busy();
      await sleep(pauseMs);
    }
  };

  return {
    run: (key, task) =>
      here.run(key, async () => {
        const numbers = [KEYED_CLASS, createHash('sha256').update(key).digest().readInt32BE()];
        const session = await take(numbers).catch((error: unknown) => {
          throw error instanceof AppError ? error : noDatabase(error);
        });
        const locks = session.connection;
        session.held += 1;
        try {
          return await task(locks.lost, async () => {
            // The server answers on the very session that has the lock.
            await sure(locks, locks.ask({ text: 'SELECT 1' })).catch((error: unknown) => {
              throw lockLost(error);
            });
          });
        } finally {
          session.held -= 1;
          const unlock = { text: 'SELECT pg_advisory_unlock($1, $2)', values: numbers };
          // If this fails, the lock is gone with the connection.
          await sure(locks, locks.query(unlock)).catch(() => undefined);
        }
      }),

    async close() {
      const session = await current?.catch(() => null);
      await session?.connection.close();
    },
  };
}

/** Ends the connection if the answer is a failure, because its locks are unknown then. */
async function sure<T>(locks: WatchedConnection, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    locks.giveUp(error);
    throw error;
  }
}

function busy(): AppError {
  return new AppError('unavailable', 'The same file is being stored or removed elsewhere. Try again in a moment.', {
    headers: { 'Retry-After': '5' },
  });
}

function noDatabase(cause: unknown): AppError {
  return new AppError('unavailable', 'The database does not answer. Try again in a moment.', {
    cause,
    headers: { 'Retry-After': '2' },
  });
}

function lockLost(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'The connection to the database was lost while the file was processed. Try again in a moment.',
    {
      cause,
      headers: { 'Retry-After': '2' },
    },
  );
}
