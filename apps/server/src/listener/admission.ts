import type { IncomingMessage } from 'node:http';
import { DELIVERY_PREFIX } from '@mds/contract';

/** Kinds of work that must not take each other's room. */
export type WorkKind = 'read' | 'delivery' | 'control' | 'upload';

/** How much work of a kind is taken on. */
export interface WorkLimit {
  /** Requests whose answer has not begun. */
  maxUnanswered: number;
  /**
   * Whether a late event loop or database refuses it. Not so where few ask and each has a reason to: an operator under load, an upload
   * under way.
   */
  shedWhenLate: boolean;
  /** Beyond this wait for the database, in milliseconds, it is refused at once, in a burst as well. */
  maxDatabaseMs: number;
}

/**
 * The work that is taken on outside the hot path. A request counts until the head of its answer is out: readers of large objects and
 * listeners to events may stay as long as they like. An upload is answered when all of it is there, and holds a slot of its own kind
 * until then.
 */
export const WORK_LIMITS: Readonly<Record<WorkKind, WorkLimit>> = {
  read: { maxUnanswered: 500, shedWhenLate: true, maxDatabaseMs: 500 },
  // A miss waits for a disk or an origin and holds little meanwhile: a page of 1,000 pictures asked for at once is served.
  delivery: { maxUnanswered: 2_000, shedWhenLate: true, maxDatabaseMs: Number.POSITIVE_INFINITY },
  control: { maxUnanswered: 200, shedWhenLate: false, maxDatabaseMs: Number.POSITIVE_INFINITY },
  upload: { maxUnanswered: 2_000, shedWhenLate: false, maxDatabaseMs: Number.POSITIVE_INFINITY },
};

/** When what everything waits for counts as late, in milliseconds. */
export interface Lateness {
  /** Work in one turn of the event loop that is no reason to worry. A request that arrives after it has waited about as long already. */
  turnMs: number;
  /** The same of the time that a call waits for a connection to the database. */
  databaseMs: number;
  /** A burst may take longer than that for this time: it passes. Afterwards no more is taken on than is done in that time. */
  burstMs: number;
}

const LATENESS: Lateness = { turnMs: 50, databaseMs: 50, burstMs: 500 };

/** How long a client should wait before it asks again, in seconds. */
export const RETRY_AFTER_S = 1;

export interface TakeOptions {
  /** What comes of this work serves many requests: it is taken on however much there is to do, and however late everything is. */
  forMany?: boolean | undefined;
}

/** Decides what work is taken on. */
export interface Admission {
  /** Tells that a request has come. @param nowMs of the monotonic clock */
  arrived(nowMs: number): void;
  /** Takes work on; null: it is too much now. The slot is given back by calling `done`, once or more often. */
  take(kind: WorkKind, nowMs: number, options?: TakeOptions): { done(): void } | null;
  /** Refused since the start. */
  readonly refused: number;
  readonly unanswered: Readonly<Record<WorkKind, number>>;
}

/**
 * {@link Admission} by three measures: how many requests of a kind wait for their answer, which bounds work that waits for something
 * else; how long the loop has been busy in this turn, which bounds work that keeps it busy itself; and how long calls wait for a
 * connection to the database, which bounds what that is asked. Requests that came in one turn are handled one after another, so that
 * the time since its first is what the next one has waited for. In a queue that only a burst has filled that is no reason to refuse
 * anything; in one that stays full, waiting helps nobody (as in CoDel, RFC 8289).
 * @param parts.databaseWaitMs see `Repositories.waitMs`
 */
export function createAdmission(
  parts: { limits?: Readonly<Record<WorkKind, WorkLimit>>; lateness?: Lateness; databaseWaitMs?: () => number } = {},
): Admission {
  const { limits = WORK_LIMITS, lateness = LATENESS, databaseWaitMs = () => 0 } = parts;
  const unanswered: Record<WorkKind, number> = { read: 0, delivery: 0, control: 0, upload: 0 };
  let refused = 0;
  /** Of the turn that is under way; null between turns. */
  let turnBeganMs: number | null = null;
  /** Since when every turn has been longer than it should; null: the last one was not. */
  let lateSinceMs: number | null = null;
  /** When the database was last late, and since when it has been so again and again; null: not for longer than a burst. */
  let awaitedLastMs = Number.NEGATIVE_INFINITY;
  let awaitedSinceMs: number | null = null;

  const endTurn = () => {
    const began = turnBeganMs ?? 0;
    turnBeganMs = null;
    if (performance.now() - began <= lateness.turnMs) lateSinceMs = null;
    else lateSinceMs ??= began;
  };

  const isLoopLate = (nowMs: number) => {
    if (turnBeganMs === null || nowMs - turnBeganMs <= lateness.turnMs) return false;
    return nowMs - (lateSinceMs ?? turnBeganMs) > lateness.burstMs;
  };

  const isDatabaseLate = (nowMs: number, maxMs: number) => {
    const waitMs = databaseWaitMs();
    if (nowMs - awaitedLastMs > lateness.burstMs) awaitedSinceMs = null;
    if (waitMs <= lateness.databaseMs) return false;
    awaitedLastMs = nowMs;
    awaitedSinceMs ??= nowMs;
    return waitMs > maxMs || nowMs - awaitedSinceMs > lateness.burstMs;
  };

  return {
    arrived(nowMs) {
      if (turnBeganMs !== null) return;
      turnBeganMs = nowMs;
      // Comes after everything that has arrived in this turn.
      setImmediate(endTurn);
    },

    take(kind, nowMs, { forMany = false } = {}) {
      const limit = limits[kind];
      const isTooLate = limit.shedWhenLate && (isLoopLate(nowMs) || isDatabaseLate(nowMs, limit.maxDatabaseMs));
      if (!forMany && (isTooLate || unanswered[kind] >= limit.maxUnanswered)) {
        refused += 1;
        return null;
      }
      unanswered[kind] += 1;
      let held = true;
      return {
        done() {
          if (held) unanswered[kind] -= 1;
          held = false;
        },
      };
    },

    get refused() {
      return refused;
    },

    unanswered,
  };
}

/** Health checks and figures are always answered: whoever asks wants to know how it is under load. */
const ALWAYS = new Set(['/healthz', '/readyz', '/metrics']);
/** Where bodies go that take as long as their senders do. */
const UPLOADS = /^\/control\/v1\/(?:media|uploads(?:\/[^?]*)?)(?:$|\?)/;

/** The kind of work that a request is; null: answered whatever the load. */
export function kindOfWork({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): WorkKind | null {
  if (url.startsWith(`${DELIVERY_PREFIX}/`)) return 'delivery';
  if (url.startsWith('/control/'))
    return (method === 'POST' || method === 'PATCH') && UPLOADS.test(url) ? 'upload' : 'control';
  return ALWAYS.has(url) ? null : 'read';
}
