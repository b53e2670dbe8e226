import type { ApiError } from '@mds/client';
import { connectionSentence } from '../connection-words.ts';
import { SourceError } from './file-content.ts';

/** Why a file was not ingested, grouped by cause and remedy. */
export type Failure =
  /** The token was refused. Every other file would meet the same error. */
  | { kind: 'token' }
  /** The service cannot be reached, is busy or is full. The file may be sent later. */
  | { kind: 'service'; error: ApiError | Error; code: string | null; message: string; retryAfterMs: number | null }
  /** The file was refused, and will be until it changes. */
  | { kind: 'refused'; code: string | null; message: string }
  /** The file cannot be read now, or is being written to. */
  | { kind: 'source'; code: SourceError['code']; message: string }
  /** Any other error, perhaps of this file alone. */
  | { kind: 'fault'; code: string | null; message: string };

/** Codes with a status that blames the file, although another attempt may succeed. */
const TRANSIENT: ReadonlySet<string | null> = new Set([
  'incomplete_body',
  'content_digest_mismatch',
  'request_timeout',
]);

/** Codes whose cause may be this file alone. */
const FAULTS: ReadonlySet<string | null> = new Set([
  'internal_error',
  'idempotency_conflict',
  'upload_not_found',
  'upload_gone',
  'upload_offset_conflict',
]);

/** An upload refused at its last byte answers 410 with the reason, for as long as the service remembers it. */
function isRefusedUpload({ status, code }: ApiError): boolean {
  return status === 410 && code !== 'upload_gone';
}

/**
 * Classifies an error of sending a file.
 * @returns null for an unexpected error: a fault of this program
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
    return { kind: 'service', error, code: null, message: 'It did not answer in time.', retryAfterMs: null };
  }
  if (client.isApiError(error)) {
    const { code, retryAfterMs } = error;
    const detail = error.problem?.detail ?? `Something other than the service answered, with status ${error.status}.`;
    const message = code === 'empty_file' ? 'The file is empty.' : detail;
    // Without a code the answer came from something in front of the service.
    if (code !== null && (client.isInvalidRequestError(error) || isRefusedUpload(error))) {
      return TRANSIENT.has(code) ? { kind: 'fault', code, message } : { kind: 'refused', code, message };
    }
    if (FAULTS.has(code)) return { kind: 'fault', code, message };
    return { kind: 'service', error, code, message, retryAfterMs };
  }
  if (client.isMdsError(error)) return { kind: 'fault', code: null, message: error.message };
  return null;
}

/** Finds the error of the content among the causes: the client wraps it. */
function sourceErrorIn(error: unknown): SourceError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof SourceError) return cause;
  return null;
}
