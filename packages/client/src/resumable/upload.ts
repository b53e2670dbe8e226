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
    throw new ConfigurationError('maxRetries has to be a whole number from 0 up');
  }
  const endpoint = transport.baseUrl + UPLOADS_PATH;
  const memory = resumeKey === undefined ? null : createMemory(endpoint, resumeKey, options.resumeStore);
  const inBrowser = 'XMLHttpRequest' in globalThis;
  const source = contentSource(body, { bytes: options.bytes, chunkBytes: options.chunkBytes, streams: !inBrowser });
  const state: UploadState = { url: null, size: source.size, acceptedBytes: 0 };
  const abandon = () => abandonUpload(transport, state.url);
  try {
    state.url = (await memory?.find()) ?? null;
    // Loaded on first use: programs that only read do not need it.
    const tus = await import('tus-js-client');
    const parts = { transport, endpoint };
    const run = createRun({
      shouldRetry: transport.shouldRetry,
      attempt: () =>
        attemptUpload({
          tus,
          stack: inBrowser ? createBrowserStack(tus.defaultOptions.httpStack, parts) : createFetchStack(parts),
          source,
          endpoint,
          metadata: metadataOf(options),
          state,
          signal,
          onCreated: async (url) => memory?.save(url),
          onProgress: createProgress(state, options.onProgress),
        }),
      async restart(error) {
        if (error instanceof AnotherLengthError) abandon();
        await memory?.forget();
        state.url = null;
        state.acceptedBytes = 0;
        state.size = source.size;
        options.onProgress?.({ sentBytes: 0, acceptedBytes: 0, totalBytes: state.size });
      },
    });
    const { id, created } = await run(source, state, maxRetries, signal);
    const media = await getMedia(id, { signal });
    await memory?.forget();
    return { media, created };
  } catch (error) {
    // Nothing could resume it, and it would use storage until it expires.
    if (memory === null) abandon();
    // A failure to delete the address must not hide the reason.
    else if (isRefused(error)) await memory.forget().catch(() => undefined);
    throw error;
  } finally {
    source.close();
  }
}

interface Finished {
  id: string;
  created: boolean;
}

interface RunParts {
  attempt(): Promise<HttpResponse>;
  /** Forgets the current upload, so that the next attempt creates another. */
  restart(error: unknown): Promise<void>;
  /** See `ClientOptions.shouldRetry`. */
  shouldRetry(error: unknown): boolean;
}

/** Repeats attempts until the upload is complete or another attempt is useless. */
function createRun({ attempt, restart, shouldRetry }: RunParts) {
  return async (
    source: ContentSource,
    state: UploadState,
    maxRetries: number,
    signal: AbortSignal | undefined,
  ): Promise<Finished> => {
    let failures = 0;
    let restarts = 0;
    let acceptedBefore = 0;
    for (;;) {
      try {
        return finishedBy(await attempt(), state);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof LengthKnownError) continue;
        // Only failures in a row count: an upload that makes progress may break any number of times.
        if (state.acceptedBytes > acceptedBefore) failures = 0;
        acceptedBefore = state.acceptedBytes;
        failures++;
        if (state.url !== null && isForgotten(error)) {
          const startsAnew = (source.reopenable || acceptedBefore === 0) && restarts < MAX_RESTARTS;
          if (!startsAnew) throw error;
          restarts++;
          acceptedBefore = 0;
          await restart(error);
          continue;
        }
        if (error instanceof ApiError) error.attempts = failures;
        const delayMs = failures <= maxRetries ? uploadDelayMs(error, failures) : null;
        if (delayMs === null || !shouldRetry(error)) throw error;
        await sleep(delayMs, signal);
      }
    }
  };
}

/** The answer to the last byte did not name the media object; the next attempt requests its id. */
class UnnamedMediaError extends MdsError {}

function finishedBy(response: HttpResponse, state: UploadState): Finished {
  const field = (name: string) => response.getHeader(name) as string | null | undefined;
  const id = field(MEDIA_ID);
  if (!id) {
    throw new UnnamedMediaError(
      `${state.url} is complete, but nothing says which media object it became: its answer has no ${MEDIA_ID} that this program can see`,
    );
  }
  return { id, created: field(MEDIA_CREATED) !== 'false' };
}

/** The pause before the next attempt in milliseconds; null if there must be none. See {@link retryDelayMs}. */
function uploadDelayMs(error: unknown, attempt: number): number | null {
  if (error instanceof UnnamedMediaError) return backoffMs(attempt);
  // Another request still holds the upload or changed it; the next attempt first requests the offset.
  const resolves =
    error instanceof ApiError && (error.status === 408 || error.status === 423 || isOffsetConflict(error));
  return resolves && error.retryAfterMs === null ? backoffMs(attempt) : retryDelayMs(error, attempt);
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

interface Memory {
  find(): Promise<string | null>;
  save(url: string): Promise<void>;
  forget(): Promise<void>;
}

function createMemory(endpoint: string, resumeKey: string, given: UploadStore | undefined): Memory {
  const store = given ?? defaultUploadStore();
  const key = `${endpoint} ${resumeKey}`;
  const explainFailure = async <T>(action: Promise<T>): Promise<T> => {
    try {
      return await action;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new MdsError(`The upload cannot be made resumable: its address could not be kept: ${reason}`, {
        cause: error,
      });
    }
  };
  return {
    async find() {
      const url = await explainFailure(store.get(key));
      // An upload at another address would get the token.
      return url?.startsWith(`${endpoint}/`) ? url : null;
    },
    save: (url) => explainFailure(store.set(key, url)),
    forget: () => explainFailure(store.delete(key)),
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
