import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig, type Pool, type QueryConfig, type QueryResultRow } from 'pg';
import type { Logger } from '../../logger.ts';
import { CHANNEL, type Changes } from './changes.ts';
import type { QuerySource } from './database.ts';

/** How often the connection is asked for a sign of life, in milliseconds. */
const BEAT_MS = 1_000;
/** After this long without one it is not relied on, and after that long it is given up. */
const LATE_MS = 500;
const SILENCE_MS = 5_000;
/** Before a lost connection is made anew, at most. */
const LONGEST_PAUSE_MS = 1_000;
const FIRST_PAUSE_MS = 20;

/** The connection on which other processes' writes are heard of. */
export interface ChangeListener {
  /**
   * What answers at once also while everything else waits for a free connection: this one. Where it is lost or silent, the pool;
   * nothing kept is relied on then. For versions, which tell whether what is in memory holds: that must not stand behind what has to
   * be made.
   */
  readonly queries: QuerySource;
  close(): Promise<void>;
}

/**
 * Listens on a connection of its own, and makes it anew whenever it is lost, for as long as it takes.
 * @throws whatever the first connection fails with
 */
export async function startChangeListener(parts: {
  connection: ClientConfig;
  pool: Pool;
  changes: Changes;
  logger: Logger;
}): Promise<ChangeListener> {
  const { changes, logger } = parts;
  let listening: QuerySource['$client'] | null = null;
  const closing = new AbortController();

  const listen = async (): Promise<Client> => {
    const client = new Client({ ...parts.connection, query_timeout: SILENCE_MS });
    // An error ends the connection, which is what is waited for.
    client.on('error', () => undefined);
    try {
      await client.connect();
      client.on('notification', ({ payload }) => changes.told(payload ?? ''));
      await client.query(`LISTEN ${CHANNEL}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    changes.listening(true);
    return client;
  };

  /** Resolves when the connection is lost, or silent for so long that it may be. */
  const watch = async (client: Client): Promise<void> => {
    const queries = oneByOne(client);
    listening = queries;
    // Not `once`, which rejects with the errors that come before it.
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    const stop = new AbortController();
    const signal = AbortSignal.any([closing.signal, stop.signal]);
    const beat = async () => {
      for (;;) {
        await sleep(BEAT_MS, undefined, { signal });
        let isLate = false;
        const late = setTimeout(() => {
          isLate = true;
          listening = null;
          changes.listening(false);
        }, LATE_MS);
        try {
          await queries.query({ text: 'SELECT 1' });
        } finally {
          clearTimeout(late);
        }
        if (!isLate) continue;
        listening = queries;
        changes.listening(true);
      }
    };
    // Why the beat ended is of no interest: either way the connection is not to be relied on.
    await Promise.race([ended, beat().catch(() => undefined)]);
    stop.abort();
    listening = null;
    changes.listening(false);
    await client.end().catch(() => undefined);
  };

  const reconnect = async (): Promise<Client | null> => {
    for (let pauseMs = FIRST_PAUSE_MS; !closing.signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return await listen();
      } catch {
        // Those who ask the database say what is wrong with it.
        await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined);
      }
    }
    return null;
  };

  const run = async (first: Client) => {
    for (let client: Client | null = first; client !== null; ) {
      await watch(client);
      if (closing.signal.aborted) return;
      logger.warn(
        'the connection on which the database tells of changes is lost: kept answers are not used until it is back',
      );
      client = await reconnect();
      if (client !== null) logger.info('the database tells of changes again');
    }
  };

  const running = run(await listen());
  return {
    queries: {
      get $client() {
        return listening ?? parts.pool;
      },
    },
    async close() {
      closing.abort();
      await running;
    },
  };
}

/** A connection takes one query at a time; those of several callers wait for each other here. */
function oneByOne(client: Client): QuerySource['$client'] {
  let before: Promise<unknown> = Promise.resolve();
  return {
    query<Row extends QueryResultRow>(query: QueryConfig) {
      const answered = before.then(() => client.query<Row>(query));
      // Whether the one before was answered is its caller's business.
      before = answered.catch(() => undefined);
      return answered;
    },
  };
}
