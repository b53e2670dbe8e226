import type { ProblemCode } from '@mds/contract';
import { ApiError, ConnectionError, NotFoundError, TimeoutError } from './errors.ts';

/** The longest Retry-After that is obeyed, in milliseconds. A longer one ends the attempts: see {@link retryDelayMs}. */
export const MAX_RETRY_AFTER_MS = 30_000;

const BASE_DELAY_MS = 250;
const MAX_DELAY_MS = 8_000;
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Exponential backoff with full jitter, in milliseconds.
 * @param attempt the attempt that failed, from 1
 * @param random a number in [0, 1)
 */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  return random() * Math.min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** (attempt - 1));
}

/**
 * The pause before the next attempt in milliseconds, or null if another attempt cannot help: the error would repeat, or the service asks
 * for a longer pause than {@link MAX_RETRY_AFTER_MS}. An earlier attempt would be refused again, so the error is thrown now, with its
 * `retryAfterMs`.
 * @param attempt the attempt that failed, from 1
 * @param random a number in [0, 1): exponential backoff with full jitter
 */
export function retryDelayMs(error: unknown, attempt: number, random: () => number = Math.random): number | null {
  const pauseMs = backoffMs(attempt, random);
  if (error instanceof ConnectionError || error instanceof TimeoutError) return pauseMs;
  if (!(error instanceof ApiError) || !RETRYABLE.has(error.status)) return null;
  if (error.retryAfterMs === null) return pauseMs;
  // With jitter: clients that were refused together should not return together.
  return error.retryAfterMs > MAX_RETRY_AFTER_MS ? null : error.retryAfterMs + pauseMs;
}

/**
 * Reads a Retry-After field (RFC 9110, 10.2.3): seconds, or an HTTP date.
 * @param nowMs the present, in milliseconds since the epoch
 * @returns milliseconds from now, never negative; null if there is none or it is invalid
 */
export function parseRetryAfterMs(value: string | null, nowMs: number): number | null {
  if (value === null) return null;
  const text = value.trim();
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // Every HTTP date begins with the name of a day; Date.parse alone would read "1.5" as a year.
  const at = /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}

/** Deletes something. A "not found" after the first attempt counts as success: that attempt deleted it, and its answer was lost. */
export async function unlessGone(code: ProblemCode, remove: () => Promise<unknown>): Promise<void> {
  try {
    await remove();
  } catch (error) {
    if (error instanceof NotFoundError && error.code === code && error.attempts > 1) return;
    throw error;
  }
}
