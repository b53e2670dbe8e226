import type { Fetch, FetchStatus, MediaDetail } from '@mds/contract';
import { FetchFailedError, TimeoutError } from './errors.ts';
import type { Ingested } from './ingested.ts';
import { type PagePromise, pagePromise } from './page.ts';
import type { ListOptions } from './read-client.ts';
import { sleep } from './sleep.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** How far the service is with a URL. */
export interface FetchProgress {
  /** Of the fetch, which goes on when nobody follows it any more. */
  id: string;
  status: FetchStatus;
  receivedBytes: number;
  /** As the source says; null where it does not say. */
  totalBytes: number | null;
}

/** How to ingest from a URL. */
export interface IngestUrlOptions extends RequestOptions {
  /** A label of at most 255 characters, only ever shown; the last part of the URL's path by default. */
  filename?: string | undefined;
  /** `allow` makes another media object of bytes that the project has already; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /** Makes a repetition of this very request safe: it follows the fetch that the first one made. One is made up if you give none. */
  idempotencyKey?: string | undefined;
  /** Milliseconds after which following it ends with a {@link TimeoutError}; for ever by default. The fetch goes on. */
  timeoutMs?: number | undefined;
  /** Called whenever the state or the bytes have changed. */
  onProgress?: ((progress: FetchProgress) => void) | undefined;
}

/** Which page of the fetches. */
export interface FetchListOptions extends ListOptions {
  status?: FetchStatus | undefined;
}

/** What the service fetches from URLs, and what became of it. */
export interface ControlFetches {
  /** Newest first. Await it for a page; `for await` goes through all pages. */
  list(options?: FetchListOptions): PagePromise<Fetch>;
  get(id: string, options?: RequestOptions): Promise<Fetch>;
  /**
   * Stops a fetch and has what arrived of it removed.
   * @throws ConflictError where it is over, or has arrived and is being accepted
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

/** What {@link ingestUrl} works with. */
export interface IngestUrlParts {
  transport: Transport;
  fetches: Pick<ControlFetches, 'get'>;
  getMedia(id: string, options: RequestOptions): Promise<MediaDetail>;
  newKey(): string;
}

/** Has the service fetch a URL, and follows that until it is over, asking ever less often. */
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
      // A quarter of jitter, so that many who wait do not ask in step.
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
