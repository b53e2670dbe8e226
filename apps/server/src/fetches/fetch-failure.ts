import type { MediaFailure } from '@mds/contract';
import type { FetchRecord } from '../db/fetch-repository.ts';
import { AppError } from '../http/app-error.ts';
import { SourceError } from './source-error.ts';

/** How often a fetch is tried. */
export interface RetryRules {
  /** Attempts in a row that bring it no further. */
  maxFruitless: number;
  /** Attempts in a row that brought it no further, those included in which the whole service died: it may die of this very fetch. */
  maxInterrupted: number;
  /** Attempts in all: a source that gives a little each time does not hold us for ever. */
  maxAttempts: number;
  /** Before the second attempt, in milliseconds; four times that before the third. */
  firstDelayMs: number;
}

export const RETRY_RULES: RetryRules = { maxFruitless: 3, maxInterrupted: 10, maxAttempts: 100, firstDelayMs: 1_000 };

/** No source has a fetch wait longer, whatever it asks for. */
const LONGEST_DELAY_MS = 600_000;
/** Where there is no room, a moment is not enough. */
const FULL_DELAY_MS = 60_000;
/** What may pass of itself, besides what is said of a source. */
const PASSING: ReadonlySet<string> = new Set(['insufficient_storage', 'unavailable', 'internal_error']);

/** What an attempt failed with, as its asker may see it. */
export function failureOf(error: unknown): MediaFailure {
  if (error instanceof AppError) {
    const retryable = error instanceof SourceError ? error.retryable : PASSING.has(error.code);
    return { code: error.code, message: error.message, retryable };
  }
  const message = 'Something went wrong in the service. If it lasts, tell its operator the id of the fetch.';
  return { code: 'internal_error', message, retryable: true };
}

/** What a fetch failed with in which the service ended so many times. */
export function interrupted(times: number): MediaFailure {
  const message = `The service ended ${times} times while it fetched the file, and never came further. Tell its operator the id of the fetch.`;
  return { code: 'internal_error', message, retryable: true };
}

/** How long to wait before the next attempt, in milliseconds; null where there is to be none. */
export function nextAttemptInMs(
  error: unknown,
  fetch: Pick<FetchRecord, 'attempts' | 'fruitlessAttempts'>,
  { maxFruitless, maxAttempts, firstDelayMs }: RetryRules,
): number | null {
  if (!failureOf(error).retryable) return null;
  if (fetch.fruitlessAttempts >= maxFruitless || fetch.attempts >= maxAttempts) return null;
  const asked = isFull(error) ? FULL_DELAY_MS : error instanceof SourceError ? (error.retryAfterMs ?? 0) : 0;
  // Jitter, so that many fetches of one source do not come back in step.
  const own = firstDelayMs * 4 ** Math.max(0, fetch.fruitlessAttempts - 1) * (1 + Math.random() / 4);
  return Math.min(LONGEST_DELAY_MS, Math.max(asked, own));
}

function isFull(error: unknown): boolean {
  return error instanceof AppError && error.code === 'insufficient_storage';
}
