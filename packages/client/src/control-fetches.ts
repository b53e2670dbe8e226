import type { Fetch, FetchStatus, MediaDetail } from '@mds/contract';
import { FetchFailedError, TimeoutError } from './errors.ts';
import type { Ingested } from './ingested.ts';
import { type PagePromise, pagePromise } from './page.ts';
import type { ListOptions } from './read-client.ts';
import { sleep } from './sleep.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** Progress of a fetch. */
export interface FetchProgress {
  /** Id of the fetch, which continues even if nobody follows it any more. */
  id: string;
  status: FetchStatus;
  receivedBytes: number;
  /** As announced by the source; null if it announces nothing. */
  totalBytes: number | null;
}

/** Options of an ingest from a URL. */
export interface IngestUrlOptions extends RequestOptions {
  /** A label of at most 255 characters; by default the last part of the URL's path. */
  filename?: string | undefined;
  /** `allow` creates another media object even if the project already has these bytes; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /** Makes a repeated request safe: it follows the fetch that the first one created. The default is a random key. */
  idempotencyKey?: string | undefined;
  /** Milliseconds after which waiting ends with a {@link TimeoutError}; by default there is no limit. The fetch continues. */
  timeoutMs?: number | undefined;
  /** Called whenever the status or the received bytes change. */
  onProgress?: ((progress: FetchProgress) => void) | undefined;
}

/** Options of the list of fetches. */
export interface FetchListOptions extends ListOptions {
  status?: FetchStatus | undefined;
}

/** The operator's methods for fetches from URLs. */
export interface ControlFetches {
  /** Newest first. Await it for a page; `for await` goes through all pages. */
  list(options?: FetchListOptions): PagePromise<Fetch>;
  get(id: string, options?: RequestOptions): Promise<Fetch>;
  /**
   * Stops a fetch and removes the bytes received so far.
   * @throws ConflictError if the fetch is finished, or if the file has arrived and is being accepted
   */
  cancel(id: string, options?: RequestOptions): Promise<Fetch>;
}

/** Makes {@link ControlFetches} over a transport. */
export function createControlFetches(transport: Transport): ControlFetches {
  return {
    list: ({ limit, cursor, status, signal } = {}) =>
      pagePromise(
        (at) => transport.callJson('GET /control/v1/fetches', { query: { limit, cursor: at, status } }, { signal }),
        cursor,
      ),
    get: (id, { signal } = {}) =>
      transport.callJson('GET /control/v1/fetches/:fetch', { params: { fetch: id } }, { signal }),
    // Not repeated: the second time there would be nothing left to cancel.
    cancel: (id, { signal } = {}) =>
      transport.callJson('DELETE /control/v1/fetches/:fetch', { params: { fetch: id } }, { signal, repeatable: false }),
  };
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** Parts of {@link ingestUrl}. */
export interface IngestUrlParts {
  transport: Transport;
  fetches: Pick<ControlFetches, 'get'>;
  getMedia(id: string, options: RequestOptions): Promise<MediaDetail>;
  newKey(): string;
}

/** Starts a fetch of a URL and follows it until it is finished, polling less and less often. */
export async function ingestUrl(
  { transport, fetches, getMedia, newKey }: IngestUrlParts,
  url: string | URL,
  options: IngestUrlOptions = {},
): Promise<Ingested> {
  const { filename, duplicate, idempotencyKey = newKey(), timeoutMs, onProgress } = options;
  const expiry = timeoutMs === undefined ? null : expiryAfter(timeoutMs);
  const signals = [options.signal, expiry?.signal].filter((signal) => signal !== undefined);
  const signal = AbortSignal.any(signals);
  const report = changesOnly(onProgress);
  try {
    const request = {
      headers: { 'idempotency-key': idempotencyKey },
      body: { source_url: String(url), filename, duplicate },
    };
    // Without a Prefer header, the answer to a JSON body is a fetch.
    let fetch = (await transport.callJson('POST /control/v1/media', request, { signal, repeatable: true })) as Fetch;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 1.5)) {
      const { id, status, received_bytes: receivedBytes, total_bytes: totalBytes } = fetch;
      report({ id, status, receivedBytes, totalBytes });
      if (fetch.status === 'failed' || fetch.status === 'canceled') throw new FetchFailedError(fetch);
      if (fetch.media_id !== null) {
        return { media: await getMedia(fetch.media_id, { signal }), created: fetch.created ?? true };
      }
      // Up to a quarter of jitter, so that many waiting clients do not poll in step.
      await sleep(pauseMs * (1 + Math.random() / 4), signal);
      fetch = await fetches.get(fetch.id, { signal });
    }
  } finally {
    expiry?.stop();
  }
}

function expiryAfter(timeoutMs: number) {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new TimeoutError(`The file was not fetched within ${timeoutMs} ms`, timeoutMs));
  }, timeoutMs);
  return { signal: controller.signal, stop: () => clearTimeout(timer) };
}

function changesOnly(onProgress: IngestUrlOptions['onProgress']): (progress: FetchProgress) => void {
  let last = '';
  return (progress) => {
    const now = JSON.stringify(progress);
    if (now === last) return;
    last = now;
    onProgress?.(progress);
  };
}
