import type { ApiError } from '@mds/client';
import { connectionSentence } from '../connection-words.ts';
import { SourceError } from './file-content.ts';

/** Why a file was not ingested, sorted by whose fault it is and what helps. */
export type Failure =
  /** The same for every file until somebody does something: the token. */
  | { kind: 'token' }
  /** The service, or the way to it: not there, busy, full. The file may go later. */
  | { kind: 'service'; error: ApiError | Error; code: string | null; message: string; retryAfterMs: number | null }
  /** The file; it will be refused again until it changes. */
  | { kind: 'refused'; code: string | null; message: string }
  /** The file cannot be read now, or is being written to. */
  | { kind: 'source'; code: SourceError['code']; message: string }
  /** Something else, perhaps of this file alone. */
  | { kind: 'fault'; code: string | null; message: string };

/** Problem codes of the class that blames the file, though another attempt may well succeed. */
const TRANSIENT: ReadonlySet<string | null> = new Set([
  'incomplete_body',
  'content_digest_mismatch',
  'request_timeout',
]);

/** Codes that may have to do with this file alone, though they do not say so. */
const FAULTS: ReadonlySet<string | null> = new Set([
  'internal_error',
  'idempotency_conflict',
  'upload_not_found',
  'upload_gone',
  'upload_offset_conflict',
]);

/** An upload that was refused when its last byte came says why for as long as it is remembered, with 410. */
function isRefusedUpload({ status, code }: ApiError): boolean {
  return status === 410 && code !== 'upload_gone';
}

/**
 * Sorts what sending a file threw.
 * @returns null for what this program did not foresee: a fault of its own
 */
export async function failureOf(error: unknown): Promise<Failure | null> {
  const client = await import('@mds/client');
  if (client.isAuthError(error)) return { kind: 'token' };
  const source = sourceErrorIn(error);
  if (source) return { kind: 'source', code: source.code, message: source.message };
  if (client.isMediaFailedError(error)) {
    const { failure, message } = error;
    return { kind: 'refused', code: failure?.code ?? null, message: failure?.message ?? message };
  }
  if (client.isFetchFailedError(error)) {
    const { code, failure, message } = error;
    return { kind: failure?.retryable ? 'fault' : 'refused', code, message: failure?.message ?? message };
  }
  if (client.isConnectionError(error)) {
    return { kind: 'service', error, code: null, message: connectionSentence(error.code), retryAfterMs: null };
  }
  if (client.isTimeoutError(error)) {
    return { kind: 'service', error, code: null, message: 'It does not answer in time.', retryAfterMs: null };
  }
  if (client.isApiError(error)) {
    const { code, retryAfterMs } = error;
    const said = error.problem?.detail ?? `Its address answered ${error.status}, but not as the service does.`;
    const message = code === 'empty_file' ? 'The file is empty.' : said;
    // Without a code it was not the service that answered, but something before it.
    if (code !== null && (client.isInvalidRequestError(error) || isRefusedUpload(error))) {
      return TRANSIENT.has(code) ? { kind: 'fault', code, message } : { kind: 'refused', code, message };
    }
    if (FAULTS.has(code)) return { kind: 'fault', code, message };
    return { kind: 'service', error, code, message, retryAfterMs };
  }
  if (client.isMdsError(error)) return { kind: 'fault', code: null, message: error.message };
  return null;
}

/** The client puts what the content threw into the cause of its own error. */
function sourceErrorIn(error: unknown): SourceError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof SourceError) return cause;
  return null;
}
