import { setTimeout as sleep } from 'node:timers/promises';
import { storageError, systemCode } from '../../base/storage-error.ts';
import { databaseUnavailable, NoAnswerError } from '../no-answer-error.ts';

/** SQLSTATEs of a transaction that lost against another, and may succeed if it is tried again. */
const LOST_AGAINST_ANOTHER = new Set(['40001', '40P01']);
/** How often a call is tried, and the longest pause before the second try, which doubles before each further one. */
const TRIES = 5;
const PAUSE_MS = 10;

/** SQLSTATEs, or beginnings of them, of a server that is unable to answer for now. */
const NOT_NOW = [
  // Connection exceptions without our own mistakes (08P01), and refused logins: rights and passwords change under a running service, too.
  ...['08000', '08001', '08003', '08004', '08006', '08007', '28'],
  // Too many connections, out of memory.
  ...['53200', '53300', '53400'],
  // Shutting down, crashed, starting up; the database is gone or closed; an idle session was ended.
  ...['57P', '3D000', '55000', '25P03', '25P04'],
  // A statement took too long, or waited too long for a lock.
  ...['57014', '55P03'],
  // A standby of a cluster that is about to get a new primary.
  '25006',
];
/** The system's codes if no connection can be made. */
const NO_CONNECTION = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENETDOWN'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT'],
]);
/** The driver's messages for the same, which have no code. */
const LOST_CONNECTION =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has)/;

/** The error of the server or the driver. Drizzle's, around it, repeats the statement with all its values. */
function causeOf(error: unknown): unknown {
  return error instanceof Error && 'query' in error && error.cause !== undefined ? error.cause : error;
}

/** Whether the database cannot answer at the moment, although nothing is wrong with the query. */
export function isUnavailable(error: unknown): boolean {
  const cause = causeOf(error);
  // Several addresses were tried.
  if (cause instanceof AggregateError) return cause.errors.some(isUnavailable);
  const code = systemCode(cause);
  if (code !== null) return NO_CONNECTION.has(code) || NOT_NOW.some((known) => code.startsWith(known));
  return cause instanceof Error && LOST_CONNECTION.test(cause.message);
}

/** The error for the caller: `unavailable` (a {@link NoAnswerError} if nothing was answered), `insufficient_storage`, or the database's own. */
export function databaseError(error: unknown): unknown {
  const cause = causeOf(error);
  const code = systemCode(cause);
  if (isUnavailable(cause)) return new NoAnswerError(cause);
  if (code !== null && LOST_AGAINST_ANOTHER.has(code)) return databaseUnavailable(cause);
  return code === '53100'
    ? storageError(Object.assign(new Error('The disk of the database is full.'), { code: 'ENOSPC', cause }))
    : storageError(cause);
}

/**
 * Wraps a repository. A method that loses against another transaction is tried again, and errors become those that callers know. That
 * is safe, because each method is one transaction or one statement, and leaves nothing behind if it fails this way.
 */
export function resilient<T extends object>(repository: T): T {
  const methods = Object.entries(repository).map(([name, method]: [string, unknown]) => {
    if (typeof method !== 'function') throw new TypeError(`${name} of a repository is not a method`);
    const tried = async (first: Promise<unknown>, args: unknown[]): Promise<unknown> => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await (tries === 1 ? first : method.apply(repository, args));
        } catch (error) {
          if (tries === TRIES || !LOST_AGAINST_ANOTHER.has(systemCode(causeOf(error)) ?? ''))
            throw databaseError(error);
          // Random, or two that met once would meet again.
          await sleep(Math.random() * PAUSE_MS * 2 ** tries);
        }
      }
    };
    const resilientMethod = (...args: unknown[]): unknown => {
      const answer: unknown = method.apply(repository, args);
      return answer instanceof Promise ? tried(answer, args) : answer;
    };
    return [name, resilientMethod];
  });
  // The same names with the same signatures, which the compiler cannot know.
  return Object.fromEntries(methods) as T;
}
