import type { MediaFailure } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import type { FetchRecord } from '../db/fetch-repository.ts';
import { SourceError } from './source-error.ts';

/** How often a fetch is tried. */
export interface RetryRules {
  /** Attempts in a row that bring it no further. */
  maxFruitless: number;
  /** Attempts in a row without progress, including those in which the whole service died: this very fetch may have caused it. */
  maxInterrupted: number;
  /** Attempts in all: a source that sends a little each time must not occupy the service for ever. */
  maxAttempts: number;
  /** Before the second attempt, in milliseconds; four times that before the third. */
  firstDelayMs: number;
  /** Before the next attempt if the service itself could not continue, by the code of the failure. */
  ownDelaysMs?: Readonly<Record<string, number>>;
}

export const RETRY_RULES: RetryRules = { maxFruitless: 3, maxInterrupted: 10, maxAttempts: 100, firstDelayMs: 1_000 };

/** No fetch waits longer, whatever its source asks for. */
const LONGEST_DELAY_MS = 600_000;
/** Pauses if the service cannot continue. Each attempt may request the whole file again, so a moment is not enough. */
const OWN_DELAYS_MS: Readonly<Record<string, number>> = { insufficient_storage: 60_000, unavailable: 30_000 };
/** Codes that may pass by themselves, besides those of sources. */
const PASSING: ReadonlySet<string> = new Set(['insufficient_storage', 'unavailable', 'internal_error']);

/** The failure of an attempt, as its client may see it. */
export function failureOf(error: unknown): MediaFailure {
  if (error instanceof AppError) {
    const retryable = error instanceof SourceError ? error.retryable : PASSING.has(error.code);
    return { code: error.code, message: error.message, retryable };
  }
  const message = 'Something went wrong in the service. If it lasts, tell its operator the id of the fetch.';
  return { code: 'internal_error', message, retryable: true };
}

/** The failure of a fetch in which the service ended this many times. */
export function interrupted(times: number): MediaFailure {
  const message = `The service ended ${times} times while it fetched the file, and never came further. Tell its operator the id of the fetch.`;
  return { code: 'internal_error', message, retryable: true };
}

/** Whether an attempt failed because the service lacks something for now: database, storage or room. That is no fault of the fetch. */
export function isOurs(error: unknown): error is AppError {
  return error instanceof AppError && !(error instanceof SourceError) && error.code in OWN_DELAYS_MS;
}

/**
 * How long to wait before the next attempt, in milliseconds; null if there is none. Failures of {@link isOurs} are tried again without
 * limit.
 */
export function nextAttemptInMs(
  error: unknown,
  fetch: Pick<FetchRecord, 'attempts' | 'fruitlessAttempts'>,
  { maxFruitless, maxAttempts, firstDelayMs, ownDelaysMs = OWN_DELAYS_MS }: RetryRules,
): number | null {
  // Jitter: many fetches must not come back in step.
  const jitter = 1 + Math.random() / 4;
  if (isOurs(error)) return (ownDelaysMs[error.code] ?? firstDelayMs) * jitter;
  if (!failureOf(error).retryable) return null;
  if (fetch.fruitlessAttempts >= maxFruitless || fetch.attempts >= maxAttempts) return null;
  const asked = error instanceof SourceError ? (error.retryAfterMs ?? 0) : 0;
  const own = firstDelayMs * 4 ** Math.max(0, fetch.fruitlessAttempts - 1) * jitter;
  return Math.min(LONGEST_DELAY_MS, Math.max(asked, own));
}
