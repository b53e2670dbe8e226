import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import { AppError } from '../../http/app-error.ts';
import { createKeyedLock, type KeyedLock } from '../../ingest/keyed-lock.ts';
import type { Logger } from '../../logger.ts';

/** First number of these locks, beside the one of the repositories' own; the second is of the key. */
const KEYED_CLASS = 0x4d4454;
/** How long it is waited for a key that another process has: a large original may be on its way into the store. */
const PATIENCE_MS = 60_000;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

/**
 * {@link KeyedLock} over all processes of a database, by advisory locks of one connection: a process that dies gives back all that it
 * has. Where the connection is lost, so are the locks: what is under way is told, and decides whether it goes on without.
 * @param parts.patienceMs after it a task is refused with `unavailable`
 */
export function createPostgresKeyedLock(parts: {
  connection: ClientConfig;
  logger: Pick<Logger, 'warn'>;
  patienceMs?: number;
}): KeyedLock & { close(): Promise<void> } {
  const { connection, logger, patienceMs = PATIENCE_MS } = parts;
  const here = createKeyedLock();
  let connected: Promise<Client> | null = null;
  const held = new Set<AbortController>();

  const connect = (): Promise<Client> => {
    if (connected !== null) return connected;
    const client = new Client(connection);
    const lost = () => {
      if (connected !== mine) return;
      connected = null;
      if (held.size === 0) return;
      logger.warn({ held: held.size }, 'locks over all nodes were lost with the connection to the database');
      for (const hold of held) hold.abort(new Error('the lock was lost with the connection to the database'));
    };
    client.on('error', lost).on('end', lost);
    const mine: Promise<Client> = client.connect().then(
      () => client,
      (error: unknown) => {
        connected = null;
        throw error;
      },
    );
    connected = mine;
    return mine;
  };

  const take = async (numbers: readonly number[]): Promise<Client> => {
    const deadlineMs = performance.now() + patienceMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      const client = await connect();
      const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1, $2) AS taken', [
        ...numbers,
      ]);
      if (rows[0]?.taken) return client;
      if (performance.now() >= deadlineMs) throw busy();
      await sleep(pauseMs);
    }
  };

  return {
    run: (key, task) =>
      here.run(key, async () => {
        const numbers = [KEYED_CLASS, createHash('sha256').update(key).digest().readInt32BE()];
        const client = await take(numbers).catch((error: unknown) => {
          throw error instanceof AppError ? error : noDatabase(error);
        });
        const hold = new AbortController();
        held.add(hold);
        try {
          return await task(hold.signal);
        } finally {
          held.delete(hold);
          // With the connection it is gone already.
          await client.query('SELECT pg_advisory_unlock($1, $2)', numbers).catch(() => undefined);
        }
      }),

    async close() {
      const client = await connected?.catch(() => null);
      connected = null;
      await client?.end();
    },
  };
}

function busy(): AppError {
  return new AppError('unavailable', 'The same file is being taken in or removed elsewhere. Try again in a moment.', {
    headers: { 'Retry-After': '5' },
  });
}

function noDatabase(cause: unknown): AppError {
  return new AppError('unavailable', 'The database does not answer. Try again in a moment.', {
    cause,
    headers: { 'Retry-After': '2' },
  });
}
