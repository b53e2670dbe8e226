import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig, type QueryConfig, type QueryResult, type QueryResultRow } from 'pg';

/** When a connection counts as late and as lost. Each heartbeat asks the server for a sign of life. */
export interface WatchTiming {
  /** Between two heartbeats, in milliseconds. */
  beatMs: number;
  /** A heartbeat without an answer after this time is late, in milliseconds. */
  lateMs: number;
  /** After so many further heartbeats without any answer, the connection is given up. */
  silentBeats: number;
}

/** Late after half a second, given up after 5 s. */
const TIMING: WatchTiming = { beatMs: 1_000, lateMs: 500, silentBeats: 5 };
/**
 * How much longer the server waits for us than we for it. So no other process gets our locks before we know that we
 * lost them.
 */
const SERVER_WAIT_FACTOR = 4;
/** How long it may take to connect, if the configuration does not set it. */
const CONNECT_MS = 10_000;
/** How long to wait for the server when a connection is closed. */
const GOODBYE_MS = 1_000;
/** PostgreSQL 13 has no such setting. Its sessions end when the system finds that their connections are dead. */
const SET_SERVER_WAIT = `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'idle_session_timeout'`;

/** A connection that matters even while it is silent: for notices that it receives, or for locks that the server holds for its session. */
export interface WatchedConnection {
  /**
   * Runs a query. Queries take turns, and none waits for longer than the silence that ends the connection.
   * @throws the server's error, or that the connection is lost, also while the query waits for its turn
   */
  query<Row extends QueryResultRow>(query: QueryConfig): Promise<QueryResult<Row>>;
  /** Runs a query that changes nothing. Callers who ask the same while it waits for its turn share the answer. */
  ask<Row extends QueryResultRow>(question: QueryConfig): Promise<QueryResult<Row>>;
  /** Aborted when the connection ends, for any reason. */
  readonly lost: AbortSignal;
  /** Ends it at once, without a message to the server, which might not arrive. */
  giveUp(cause: unknown): void;
  close(): Promise<void>;
}

/**
 * Opens a connection and asks it for signs of life until it is lost. A connection can be dead without a sign: its server was replaced,
 * or a firewall forgot it. The system would notice after a quarter of an hour.
 *
 * Silence is counted in heartbeats without an answer, not in time. After a pause of the process or its machine, only
 * one heartbeat is unanswered, and not five.
 * @throws the error of the attempt to connect
 */
export async function openWatchedConnection(parts: {
  connection: ClientConfig;
  onNotification?: (payload: string) => void;
  /** Called when a heartbeat is late, and when the answer has come after all. */
  onLate?: (isLate: boolean) => void;
  timing?: WatchTiming | undefined;
}): Promise<WatchedConnection> {
  const { onNotification, onLate, timing = TIMING } = parts;
  // Our own, so that it can be destroyed whatever the driver waits for.
  const socket = new Socket();
  const client = new Client({
    connectionTimeoutMillis: CONNECT_MS,
    ...parts.connection,
    // With the driver's own limit, a query would run on without a reader, and a lock that it takes would have no owner.
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
        // An error of the server is a sign of life, too.
        silentBeats = 0;
      }
    });
    // The caller of the query before handles its failure.
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
      // The query is correct, so the connection is not.
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
    const serverWaitMs = timing.beatMs * timing.silentBeats * SERVER_WAIT_FACTOR;
    await query({ text: SET_SERVER_WAIT, values: [String(serverWaitMs)] });
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
