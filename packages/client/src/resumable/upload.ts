import type { MediaDetail } from '@mds/contract';
import type { HttpResponse } from 'tus-js-client';
import { ApiError, ConfigurationError, InvalidRequestError, MdsError } from '../errors.ts';
import type { Ingested } from '../ingested.ts';
import { randomKey } from '../random-key.ts';
import { backoffMs, retryDelayMs } from '../retry.ts';
import { sleep } from '../sleep.ts';
import type { RequestOptions, Transport } from '../transport.ts';
import { MEDIA_CREATED, MEDIA_ID, UPLOADS_PATH } from '../upload-protocol.ts';
import { AnotherLengthError, attemptUpload, LengthKnownError, type UploadState } from './attempt.ts';
import type { ContentSource } from './content-reader.ts';
import { contentSource } from './content-source.ts';
import { createBrowserStack, createFetchStack } from './http-stack.ts';
import type { ResumableBody, UploadOptions, UploadStore } from './upload-options.ts';
import { defaultUploadStore } from './upload-store.ts';

const MAX_RETRIES = 8;
/** Maximum restarts of an upload that the service has forgotten. */
const MAX_RESTARTS = 2;
const ABANDON_TIMEOUT_MS = 5_000;

/** Parts of a resumable upload. */
export interface UploadParts {
  transport: Transport;
  /** Requests a media object in detail. */
  getMedia(id: string, options: RequestOptions): Promise<MediaDetail>;
}

/**
 * Uploads resumably (tus 1.0.0), and continues by itself after a broken connection.
 * @throws the errors of `ControlMedia.upload`
 */
export async function uploadResumably(
  { transport, getMedia }: UploadParts,
  body: ResumableBody,
  options: UploadOptions,
): Promise<Ingested> {
  const { signal, resumeKey } = options;
  signal?.throwIfAborted();
  // Fails without a token before anything is opened.
  transport.controlHeaders();
  const maxRetries = options.maxRetries ?? MAX_RETRIES;
  if (!Number.isSafeInteger(maxRetries) || maxRetries < 0) {
    throw new ConfigurationError('maxRetries must be a whole number, 0 or more');
  }
  const endpoint = transport.baseUrl + UPLOADS_PATH;
  const resumeRecord = resumeKey === undefined ? null : createResumeRecord(endpoint, resumeKey, options.resumeStore);
  const inBrowser = 'XMLHttpRequest' in globalThis;
  const source = contentSource(body, { bytes: options.bytes, chunkBytes: options.chunkBytes, streams: !inBrowser });
  const state: UploadState = { url: null, size: source.size, acceptedBytes: 0 };
  const abandon = () => abandonUpload(transport, state.url);
  try {
    state.url = (await resumeRecord?.find()) ?? null;
    // Loaded on first use: programs that only read do not need it.
    const tus = await import('tus-js-client');
    const parts = { transport, endpoint };
    const { id, created } = await retryUntilDone({
      ...{ source, state, maxRetries, signal, shouldRetry: transport.shouldRetry },
      attempt: () =>
        attemptUpload({
          tus,
          stack: inBrowser ? createBrowserStack(tus.defaultOptions.httpStack, parts) : createFetchStack(parts),
          source,
          endpoint,
          metadata: metadataOf(options),
          state,
          signal,
          onCreated: async (url) => resumeRecord?.save(url),
          onProgress: createProgress(state, options.onProgress),
        }),
      async restart(error) {
        if (error instanceof AnotherLengthError) abandon();
        await resumeRecord?.forget();
        state.url = null;
        state.acceptedBytes = 0;
        state.size = source.size;
        options.onProgress?.({ sentBytes: 0, acceptedBytes: 0, totalBytes: state.size });
      },
    });
    const media = await getMedia(id, { signal });
    await resumeRecord?.forget();
    return { media, created };
  } catch (error) {
    // Nothing could resume it, and it would use storage until it expires.
    if (resumeRecord === null) abandon();
    // A failure to delete the URL must not hide the reason.
    else if (isRefused(error)) await resumeRecord.forget().catch(() => undefined);
    throw error;
  } finally {
    source.close();
  }
}

/** The result of a complete upload. */
interface UploadResult {
  id: string;
  created: boolean;
}

interface RetryParts {
  source: ContentSource;
  state: UploadState;
  maxRetries: number;
  signal: AbortSignal | undefined;
  attempt(): Promise<HttpResponse>;
  /** Forgets the current upload, so that the next attempt creates another. */
  restart(error: unknown): Promise<void>;
  /** See `ClientOptions.shouldRetry`. */
  shouldRetry(error: unknown): boolean;
}

/** Repeats attempts until the upload is complete or another attempt cannot help. */
async function retryUntilDone(parts: RetryParts): Promise<UploadResult> {
  const { source, state, maxRetries, signal } = parts;
  let failures = 0;
  let restarts = 0;
  let acceptedBefore = 0;
  for (;;) {
    try {
      return uploadResultOf(await parts.attempt(), state);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof LengthKnownError) continue;
      // Only failures in a row count: an upload that makes progress may break any number of times.
      if (state.acceptedBytes > acceptedBefore) failures = 0;
      acceptedBefore = state.acceptedBytes;
      failures++;
      if (state.url !== null && isForgotten(error)) {
        const canRestart = (source.reopenable || acceptedBefore === 0) && restarts < MAX_RESTARTS;
        if (!canRestart) throw error;
        restarts++;
        acceptedBefore = 0;
        await parts.restart(error);
        continue;
      }
      if (error instanceof ApiError) error.attempts = failures;
      const delayMs = failures <= maxRetries ? uploadDelayMs(error, failures) : null;
      if (delayMs === null || !parts.shouldRetry(error)) throw error;
      await sleep(delayMs, signal);
    }
  }
}

/** The answer to the last byte did not name the media object; the next attempt requests its id. */
class UnnamedMediaError extends MdsError {}

function uploadResultOf(response: HttpResponse, state: UploadState): UploadResult {
  const field = (name: string) => response.getHeader(name) as string | null | undefined;
  const id = field(MEDIA_ID);
  if (!id) {
    throw new UnnamedMediaError(
      `${state.url} is complete, but its media object is unknown: this program can see no header ${MEDIA_ID} in the response`,
    );
  }
  return { id, created: field(MEDIA_CREATED) !== 'false' };
}

/** The pause before the next attempt in milliseconds; null if there must be none. See {@link retryDelayMs}. */
function uploadDelayMs(error: unknown, attempt: number): number | null {
  if (error instanceof UnnamedMediaError) return backoffMs(attempt);
  // Another request still holds the upload or changed it; the next attempt first requests the offset.
  const isTransient =
    error instanceof ApiError && (error.status === 408 || error.status === 423 || isOffsetConflict(error));
  return isTransient && error.retryAfterMs === null ? backoffMs(attempt) : retryDelayMs(error, attempt);
}

function isOffsetConflict({ status, code }: ApiError): boolean {
  return status === 409 && (code === null || code === 'upload_offset_conflict');
}

/** Whether the upload no longer exists. A refused upload has the code of its reason instead. */
function isForgotten(error: unknown): boolean {
  if (error instanceof AnotherLengthError) return true;
  if (!(error instanceof ApiError)) return false;
  const { status, code } = error;
  return (status === 404 || status === 410) && (code === null || code === 'upload_not_found' || code === 'upload_gone');
}

/** Whether the service has refused the content, so that there is nothing to resume. */
function isRefused(error: unknown): boolean {
  return error instanceof InvalidRequestError || (error instanceof ApiError && error.status === 410);
}

/** The URL of one upload in the resume store. */
interface ResumeRecord {
  find(): Promise<string | null>;
  save(url: string): Promise<void>;
  forget(): Promise<void>;
}

function createResumeRecord(endpoint: string, resumeKey: string, given: UploadStore | undefined): ResumeRecord {
  const store = given ?? defaultUploadStore();
  const key = `${endpoint} ${resumeKey}`;
  const explainFailure = async <T>(action: string, done: Promise<T>): Promise<T> => {
    try {
      return await done;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new MdsError(`The URL of the upload could not be ${action} the resume store: ${reason}`, { cause: error });
    }
  };
  return {
    async find() {
      const url = await explainFailure('read from', store.get(key));
      // A URL of another service must not receive the token.
      return url?.startsWith(`${endpoint}/`) ? url : null;
    },
    save: (url) => explainFailure('saved to', store.set(key, url)),
    forget: () => explainFailure('deleted from', store.delete(key)),
  };
}

function metadataOf({
  filename,
  duplicate,
  checksum,
  idempotencyKey = randomKey(),
}: UploadOptions): Record<string, string> {
  const metadata = { filename, duplicate, checksum, idempotency_key: idempotencyKey };
  return Object.fromEntries(
    Object.entries(metadata).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

function createProgress(state: UploadState, onProgress: UploadOptions['onProgress']): (sentBytes: number) => void {
  let last = '';
  return (sentBytes) => {
    const { acceptedBytes, size } = state;
    const now = `${sentBytes} ${acceptedBytes}`;
    if (now === last) return;
    last = now;
    onProgress?.({ sentBytes, acceptedBytes, totalBytes: size });
  };
}

function abandonUpload(transport: Transport, url: string | null): void {
  if (url === null) return;
  const options = {
    headers: { ...transport.controlHeaders(), 'tus-resumable': '1.0.0' },
    timeoutMs: ABANDON_TIMEOUT_MS,
  };
  // If this fails, the upload expires by itself; the caller gets the reason why the upload ended.
  transport.exchange({ method: 'DELETE', url }, options).catch(() => undefined);
}
