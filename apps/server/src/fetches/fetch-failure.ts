import type { MediaFailure } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import type { FetchRecord } from '../db/fetch-repository.ts';
import { SourceError } from './source-error.ts';

/** How often a fetch is tried. */
export interface RetryRules {
  /** Maximum consecutive attempts without new bytes. */
  maxWithoutProgress: number;
  /** Maximum consecutive attempts without progress, counting those during which the service crashed. The fetch may be the cause. */
  maxInterrupted: number;
  /** Attempts in all: a source that sends a little each time must not occupy the service for ever. */
  maxAttempts: number;
  /** Before the second attempt, in milliseconds; four times that before the third. */
  firstDelayMs: number;
  /** Before the next attempt if the service itself could not continue, by the code of the failure. */
  serviceDelaysMs?: Readonly<Record<string, number>>;
}

export const RETRY_RULES: RetryRules = {
  maxWithoutProgress: 3,
  maxInterrupted: 10,
  maxAttempts: 100,
  firstDelayMs: 1_000,
};

/** No fetch waits longer, whatever its source asks for. */
const LONGEST_DELAY_MS = 600_000;
/** Pauses if the service cannot continue. Each attempt may request the whole file again, so a moment is not enough. */
const SERVICE_DELAYS_MS: Readonly<Record<string, number>> = { insufficient_storage: 60_000, unavailable: 30_000 };
/** Codes of temporary failures of the service. */
const TEMPORARY_FAILURES: ReadonlySet<string> = new Set(['insufficient_storage', 'unavailable', 'internal_error']);

/** The failure of an attempt, as its client may see it. */
export function failureOf(error: unknown): MediaFailure {
  if (error instanceof AppError) {
    const retryable = error instanceof SourceError ? error.retryable : TEMPORARY_FAILURES.has(error.code);
    return { code: error.code, message: error.message, retryable };
  }
  const message = 'The service failed unexpectedly. If this lasts, give its operator the id of the fetch.';
  return { code: 'internal_error', message, retryable: true };
}

/** The failure of a fetch during which the service crashed too often. */
export function interruptionFailure(times: number): MediaFailure {
  const message = `The service ended ${times} times during this fetch, without progress. Give its operator the id of the fetch.`;
  return { code: 'internal_error', message, retryable: true };
}

/** Whether an attempt failed because the service lacks something for now: database, storage or room. That is no fault of the fetch. */
export function isServiceFailure(error: unknown): error is AppError {
  return error instanceof AppError && !(error instanceof SourceError) && error.code in SERVICE_DELAYS_MS;
}

/**
 * How long to wait before the next attempt, in milliseconds; null if there is none. Failures of {@link isServiceFailure} are retried any
 * number of times, within the time limit of the fetch.
 */
export function nextAttemptInMs(
  error: unknown,
  fetch: Pick<FetchRecord, 'attempts' | 'fruitlessAttempts'>,
  { maxWithoutProgress, maxAttempts, firstDelayMs, serviceDelaysMs = SERVICE_DELAYS_MS }: RetryRules,
): number | null {
  // Jitter: many fetches must not come back in step.
  const jitter = 1 + Math.random() / 4;
  if (isServiceFailure(error)) return (serviceDelaysMs[error.code] ?? firstDelayMs) * jitter;
  if (!failureOf(error).retryable) return null;
  if (fetch.fruitlessAttempts >= maxWithoutProgress || fetch.attempts >= maxAttempts) return null;
  const requestedMs = error instanceof SourceError ? (error.retryAfterMs ?? 0) : 0;
  const backoffMs = firstDelayMs * 4 ** Math.max(0, fetch.fruitlessAttempts - 1) * jitter;
  return Math.min(LONGEST_DELAY_MS, Math.max(requestedMs, backoffMs));
}
