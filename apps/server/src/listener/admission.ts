import type { IncomingMessage } from 'node:http';
import { DELIVERY_PREFIX } from '@mds/contract';

/** Kinds of work with separate limits. */
export type WorkKind = 'read' | 'delivery' | 'control' | 'upload';

/** How much work of a kind is admitted. */
export interface WorkLimit {
  /** Requests whose answer has not begun. */
  maxUnanswered: number;
  /**
   * Whether it is refused if the event loop or the database is late. Not for the few requests that matter most then: those of an
   * operator, and uploads under way.
   */
  shedWhenLate: boolean;
  /** If the wait for the database is longer than this, in milliseconds, it is refused at once, even in a burst. */
  maxDatabaseMs: number;
}

/**
 * Limits of the work outside the hot path. A request counts until the head of its answer is sent, so readers of large objects and
 * listeners to events may stay. An upload is answered when all of it has arrived, and has a limit of its own kind.
 */
export const WORK_LIMITS: Readonly<Record<WorkKind, WorkLimit>> = {
  read: { maxUnanswered: 500, shedWhenLate: true, maxDatabaseMs: 500 },
  // A miss waits for a disk or an origin and holds little memory. A page with 1,000 pictures must load.
  delivery: { maxUnanswered: 2_000, shedWhenLate: true, maxDatabaseMs: Number.POSITIVE_INFINITY },
  control: { maxUnanswered: 200, shedWhenLate: false, maxDatabaseMs: Number.POSITIVE_INFINITY },
  upload: { maxUnanswered: 2_000, shedWhenLate: false, maxDatabaseMs: Number.POSITIVE_INFINITY },
};

/** When the event loop or the database counts as late, in milliseconds. */
export interface Lateness {
  /** Acceptable work in one turn of the event loop. A request that arrives later in the turn has waited about as long. */
  turnMs: number;
  /** Acceptable wait for a connection to the database. */
  databaseMs: number;
  /** A burst may exceed both for this time. Afterwards, only as much work is admitted as is done within them. */
  burstMs: number;
}

const LATENESS: Lateness = { turnMs: 50, databaseMs: 50, burstMs: 500 };

/** How long a client should wait before it asks again, in seconds. */
export const RETRY_AFTER_S = 1;

export interface TakeOptions {
  /** The result serves many requests. It is always admitted. */
  forMany?: boolean | undefined;
}

/** Decides which work is admitted. */
export interface Admission {
  /** Notes that a request has arrived. @param nowMs monotonic time */
  arrived(nowMs: number): void;
  /** Admits work; null: it is refused. Call `done` when the work is done; further calls have no effect. */
  take(kind: WorkKind, nowMs: number, options?: TakeOptions): { done(): void } | null;
  /** Refused since the start. */
  readonly refused: number;
  readonly unanswered: Readonly<Record<WorkKind, number>>;
}

/**
 * Makes an {@link Admission} with three measures:
 * - the number of unanswered requests of a kind, which bounds work that waits for something else;
 * - the length of this turn of the event loop, which bounds work that keeps the loop busy;
 * - the wait for a connection to the database, which bounds the load of the database.
 * Requests that arrive in one turn are handled one after another, so the next one has waited since the first. If only a burst has
 * filled the queue, nothing is refused. If the queue stays full, waiting helps nobody (as in CoDel, RFC 8289).
 * @param parts.databaseWaitMs see `Repositories.waitMs`
 */
export function createAdmission(
  parts: { limits?: Readonly<Record<WorkKind, WorkLimit>>; lateness?: Lateness; databaseWaitMs?: () => number } = {},
): Admission {
  const { limits = WORK_LIMITS, lateness = LATENESS, databaseWaitMs = () => 0 } = parts;
  const unanswered: Record<WorkKind, number> = { read: 0, delivery: 0, control: 0, upload: 0 };
  let refused = 0;
  /** When the current turn began; null between turns. */
  let turnBeganMs: number | null = null;
  /** Since when every turn has been too long; null: the last one was not. */
  let lateSinceMs: number | null = null;
  /** When the database was last late, and since when it has been late repeatedly; null: for no longer than a burst. */
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
      // Runs after every request of this turn.
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

/** Health checks and metrics are always answered: they matter most under load. */
const ALWAYS = new Set(['/healthz', '/readyz', '/metrics']);
/** Targets of bodies that may take as long as their senders need. */
const UPLOADS = /^\/control\/v1\/(?:media|uploads(?:\/[^?]*)?)(?:$|\?)/;

/** The kind of work of a request; null: always answered. */
export function kindOfWork({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): WorkKind | null {
  if (url.startsWith(`${DELIVERY_PREFIX}/`)) return 'delivery';
  if (url.startsWith('/control/'))
    return (method === 'POST' || method === 'PATCH') && UPLOADS.test(url) ? 'upload' : 'control';
  return ALWAYS.has(url) ? null : 'read';
}
