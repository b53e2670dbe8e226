import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientConfig, Pool } from 'pg';
import type { Logger } from '../../base/logger.ts';
import { CHANNEL, type SharedChanges } from './changes.ts';
import type { QuerySource } from './dialect.ts';
import { openWatchedConnection, type WatchedConnection, type WatchTiming } from './watched-connection.ts';

/** Before a lost connection is made anew, at most. */
const LONGEST_PAUSE_MS = 1_000;
const FIRST_PAUSE_MS = 20;

/** The connection on which other processes' writes are heard of. */
export interface ChangeListener {
  /**
   * What answers at once also while everything else waits for a free connection: this one. Where it is lost or silent, the pool;
   * nothing kept is relied on then. For versions, which tell whether what is in memory holds: that must not stand behind what has to
   * be made. However many ask, one question of each kind waits for its turn, and one is under way.
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
  changes: SharedChanges;
  logger: Logger;
  timing?: WatchTiming;
}): Promise<ChangeListener> {
  const { connection, pool, changes, logger, timing } = parts;
  /** What listens, and whether it is relied on. */
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
        // Those who ask the database say what is wrong with it.
        await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined);
      }
    }
    return null;
  };

  const run = async (first: WatchedConnection) => {
    for (let current: WatchedConnection | null = first; current !== null; ) {
      await watch(current);
      if (closing.signal.aborted) return;
      logger.warn(
        'the connection on which the database tells of changes is lost: kept answers are not used until it is back',
      );
      current = await reconnect();
      if (current !== null) logger.info('the database tells of changes again');
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
