import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientConfig, Pool } from 'pg';
import type { Logger } from '../../base/logger.ts';
import { CHANNEL, type SharedChanges } from './changes.ts';
import type { QuerySource } from './dialect.ts';
import { openWatchedConnection, type WatchedConnection, type WatchTiming } from './watched-connection.ts';

/** The longest and the first pause before a lost connection is opened again. */
const LONGEST_PAUSE_MS = 1_000;
const FIRST_PAUSE_MS = 20;

/** The connection on which other processes announce their writes. */
export interface ChangeListener {
  /**
   * Runs queries on this connection, which answers at once even if all others are busy. If it is lost or silent, runs them on the
   * pool, and no cached answer is trusted. It is for versions, which decide if a cached answer is valid: they must not
   * wait behind expensive queries. However many callers there are, at most one query of each kind waits and one runs.
   */
  readonly queries: QuerySource;
  close(): Promise<void>;
}

/**
 * Listens on a connection of its own, and opens a new one whenever it is lost, however long that takes.
 * @throws the error of the first connection
 */
export async function startChangeListener(parts: {
  connection: ClientConfig;
  pool: Pool;
  changes: SharedChanges;
  logger: Logger;
  timing?: WatchTiming;
}): Promise<ChangeListener> {
  const { connection, pool, changes, logger, timing } = parts;
  /** The connection that listens; `isLate`: it is not trusted at the moment. */
  let listening: WatchedConnection | null = null;
  let isLate = false;
  const closing = new AbortController();

  const listen = async (): Promise<WatchedConnection> => {
    let mine: WatchedConnection | null = null;
    const opened = await openWatchedConnection({
      connection,
      onNotification: changes.receive,
      onLate(late) {
        if (mine === null || mine !== listening) return;
        isLate = late;
        changes.listening(!late);
      },
      timing,
    });
    try {
      await opened.query({ text: `LISTEN ${CHANNEL}` });
    } catch (error) {
      opened.giveUp(error);
      throw error;
    }
    mine = opened;
    listening = opened;
    isLate = false;
    changes.listening(true);
    return opened;
  };

  /** Resolves when the connection is lost, or not needed any more. */
  const watch = async (opened: WatchedConnection): Promise<void> => {
    const over = AbortSignal.any([opened.lost, closing.signal]);
    if (!over.aborted) await once(over, 'abort');
    listening = null;
    changes.listening(false);
    await opened.close();
  };

  const reconnect = async (): Promise<WatchedConnection | null> => {
    for (let pauseMs = FIRST_PAUSE_MS; !closing.signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return await listen();
      } catch {
        // The callers of queries report failures of the database.
        await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined);
      }
    }
    return null;
  };

  const run = async (first: WatchedConnection) => {
    for (let current: WatchedConnection | null = first; current !== null; ) {
      await watch(current);
      if (closing.signal.aborted) return;
      logger.warn('the connection for notices of changes is lost: kept answers are not used until it is back');
      current = await reconnect();
      if (current !== null) logger.info('notices of changes arrive again');
    }
  };

  const running = run(await listen());
  return {
    queries: {
      get $client() {
        return listening === null || isLate ? pool : { query: listening.ask };
      },
    },
    async close() {
      closing.abort();
      await running;
    },
  };
}
