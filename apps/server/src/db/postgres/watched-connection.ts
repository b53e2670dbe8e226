import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig, type QueryConfig, type QueryResult, type QueryResultRow } from 'pg';

/** When a connection is doubted, by beats: each asks the server for a sign of life. */
export interface WatchTiming {
  /** Between two beats, in milliseconds. */
  beatMs: number;
  /** A beat that is not answered within this is late, in milliseconds. */
  lateMs: number;
  /** After so many further beats in a row at which still nothing was answered the connection is given up. */
  silentBeats: number;
}

/** Late after half a second, given up after 5 s. */
const TIMING: WatchTiming = { beatMs: 1_000, lateMs: 500, silentBeats: 5 };
/** How much longer the server waits for us than we for it: nobody is given what was ours before we know that we lost it. */
const SERVER_PATIENCE = 4;
/** Where the configuration names none: how long a connection may take to come about. */
const CONNECT_MS = 10_000;
/** How long a server is waited for that is told goodbye. */
const GOODBYE_MS = 1_000;
/** PostgreSQL 13 has no such setting; its sessions end when the system finds their connections dead. */
const PATIENCE_OF_SERVER = `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'idle_session_timeout'`;

/** A connection that somebody relies on while it says nothing: for what it hears, or for what the server keeps for its session. */
export interface WatchedConnection {
  /**
   * Queries take their turns, and none of them waits for longer than the silence that ends the connection.
   * @throws what the server says; where the connection is lost, also while it waits for its turn, that
   */
  query<Row extends QueryResultRow>(query: QueryConfig): Promise<QueryResult<Row>>;
  /** The same for a question, which changes nothing: whoever asks it while it waits for its turn shares the answer, which is as new to all. */
  ask<Row extends QueryResultRow>(question: QueryConfig): Promise<QueryResult<Row>>;
  /** Aborted with the connection, however it ends. */
  readonly lost: AbortSignal;
  /** Ends it at once and says nothing to the server, which may not hear it. */
  giveUp(cause: unknown): void;
  close(): Promise<void>;
}

/**
 * Opens a connection of its own and asks it for signs of life until it is lost. A connection can lead nowhere without anybody being
 * told: its server was replaced by another, or a firewall forgot it. The system would notice after a quarter of an hour.
 *
 * What counts as silence is beats without an answer, and no time: a process that stood still, or its machine, has looked once when it
 * goes on, and not five times.
 * @throws whatever it cannot be opened with
 */
export async function openWatchedConnection(parts: {
  connection: ClientConfig;
  onNotification?: (payload: string) => void;
  /** Told that a beat is late, and that there was an answer after all. */
  onLate?: (isLate: boolean) => void;
  timing?: WatchTiming | undefined;
}): Promise<WatchedConnection> {
  const { onNotification, onLate, timing = TIMING } = parts;
  // Ours, so that it can be ended whatever the driver waits for.
  const socket = new Socket();
  const client = new Client({
    connectionTimeoutMillis: CONNECT_MS,
    ...parts.connection,
    // The driver's own limit would leave a query running whose answer nobody gets: a lock that is taken then has no owner.
    query_timeout: 0,
    stream: () => socket,
  });
  const losing = new AbortController();
  const { signal: lost } = losing;
  let beating: NodeJS.Timeout | undefined;
  const lose = (cause: unknown) => {
    if (lost.aborted) return;
    clearInterval(beating);
    losing.abort(new Error('Connection terminated', { cause }));
  };
  const giveUp = (cause: unknown) => {
    lose(cause);
    socket.destroy();
  };
  client.on('error', giveUp).on('end', () => giveUp(new Error('the server ended it')));
  client.on('notification', ({ payload = '' }) => onNotification?.(payload));

  let before: Promise<unknown> = Promise.resolve();
  let silentBeats = 0;
  const query = <Row extends QueryResultRow>(query: QueryConfig, onTurn?: () => void): Promise<QueryResult<Row>> => {
    const answered = before.then(async () => {
      onTurn?.();
      lost.throwIfAborted();
      try {
        return await client.query<Row>(query);
      } finally {
        // A refusal is a sign of life, too.
        silentBeats = 0;
      }
    });
    // Whether the one before was answered is its caller's business.
    before = answered.catch(() => undefined);
    return answered;
  };

  const waiting = new Map<string, Promise<QueryResult>>();
  const ask = <Row extends QueryResultRow>(question: QueryConfig): Promise<QueryResult<Row>> => {
    const { text, values = [] } = question;
    const same = JSON.stringify([text, values]);
    const asked = waiting.get(same) ?? query(question, () => waiting.delete(same));
    waiting.set(same, asked);
    return asked as Promise<QueryResult<Row>>;
  };

  let isAsked = false;
  const beat = async () => {
    isAsked = true;
    let isLate = false;
    const late = setTimeout(() => {
      isLate = true;
      onLate?.(true);
    }, timing.lateMs);
    try {
      await query({ text: 'SELECT 1' });
      if (isLate) onLate?.(false);
    } catch (error) {
      // Nothing can be wrong with what was asked.
      giveUp(error);
    } finally {
      clearTimeout(late);
      isAsked = false;
    }
  };

  try {
    await client.connect();
    lost.throwIfAborted();
    beating = setInterval(() => {
      if (!isAsked) return void beat();
      silentBeats += 1;
      if (silentBeats >= timing.silentBeats) giveUp(new Error('the database gave no sign of life'));
    }, timing.beatMs);
    const patienceMs = timing.beatMs * timing.silentBeats * SERVER_PATIENCE;
    await query({ text: PATIENCE_OF_SERVER, values: [String(patienceMs)] });
  } catch (error) {
    giveUp(error);
    throw error;
  }
  return {
    query: (one) => query(one),
    ask,
    lost,
    giveUp,
    async close() {
      const isLost = lost.aborted;
      lose(new Error('it was closed'));
      if (!isLost) await Promise.race([client.end(), sleep(GOODBYE_MS, undefined, { ref: false })]);
      socket.destroy();
    },
  };
}
