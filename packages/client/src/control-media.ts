import type { MediaDetail, MediaExplanation, MediaStatus, MediaVerification } from '@mds/contract';
import { type ControlFetches, type IngestUrlOptions, ingestUrl } from './control-fetches.ts';
import type { Ingested } from './ingested.ts';
import type { MediaWatch } from './media-watch.ts';
import { type PagePromise, pagePromise } from './page.ts';
import { randomKey } from './random-key.ts';
import type { ListOptions } from './read-client.ts';
import { uploadResumably } from './resumable/upload.ts';
import type { ResumableBody, UploadOptions } from './resumable/upload-options.ts';
import { unlessGone } from './retry.ts';
import type { RequestOptions, Transport } from './transport.ts';
import { type UploadBody, type UploadProgress, uploadSource } from './upload-source.ts';
import { type WaitOptions, waitUntilReady } from './wait-until-ready.ts';

/** Options of an ingest. */
export interface IngestOptions extends RequestOptions {
  /** The name of the file, used as a label. At most 255 characters. */
  filename?: string | undefined;
  /** `allow` creates another media object even if the project already has these bytes; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /**
   * Makes a repeated request safe: it resolves with the media object that the first one created. If the body can be sent again, the
   * default is a random key, so that the client's own retries are safe.
   */
  idempotencyKey?: string | undefined;
  /** Length of the body, if the body itself does not know it, as a stream. The service can then refuse a file that is too large at once. */
  bytes?: number | undefined;
  /** Called for every piece sent; starts again from 0 if the upload is repeated. Not called if a browser sends a Blob. */
  onProgress?: ((progress: UploadProgress) => void) | undefined;
}

/** Options of a verification. */
export interface VerifyOptions extends RequestOptions {
  /** Make damaged and missing renditions again; default false. */
  repair?: boolean | undefined;
  /**
   * Time limit in milliseconds; default 600,000, or the client's own limit if that is longer (0: no limit). The service reads every byte
   * within one request, so gigabytes take minutes. Not repeated after a timeout.
   */
  timeoutMs?: number | undefined;
}

const VERIFY_TIMEOUT_MS = 600_000;

/** Options of the operator's list of media. */
export interface DetailListOptions extends ListOptions {
  /** Only media in this state. */
  status?: MediaStatus | undefined;
}

/** The operator's methods for media. `client.media.list` is the public list. */
export interface ControlMedia {
  /**
   * Uploads a file; the service detects the format from its bytes. Resolves after the file is stored safely and before it is processed:
   * see `waitUntilReady`. Repeated after a failure if the body can be sent again.
   * @throws InvalidRequestError if the file is not accepted; its `code` is the reason
   */
  ingest(body: UploadBody, options?: IngestOptions): Promise<Ingested>;
  /**
   * Uploads a file resumably: continues after every broken connection, and with `resumeKey` even in a later call. For large files and
   * unreliable networks; `ingest` takes one request less for small files. Resolves after the file is stored safely. An abort keeps an
   * upload with a `resumeKey`, and deletes any other.
   * @throws InvalidRequestError if the file is not accepted; its `code` is the reason. MdsError if the body does not have the length
   *   `bytes`
   */
  upload(body: ResumableBody, options?: UploadOptions): Promise<Ingested>;
  /**
   * Lets the service fetch a file from an http or https URL, and resolves after the file is stored safely. The service refuses addresses
   * that are not public unless its operator allows them. An abort ends the waiting, not the fetch.
   * @throws FetchFailedError if the file could not be fetched or was not accepted; its `code` is the reason. InvalidRequestError if the
   *   URL is refused at once. TimeoutError after `timeoutMs`
   */
  ingestUrl(url: string | URL, options?: IngestUrlOptions): Promise<Ingested>;
  /** Media in detail, newest first. Await it for a page; `for await` goes through all pages. */
  list(options?: DetailListOptions): PagePromise<MediaDetail>;
  /** A media object in detail. */
  get(id: string, options?: RequestOptions): Promise<MediaDetail>;
  /** Explains the state of a media object: identification, plan, every attempt, and what it waits for. */
  explain(id: string, options?: RequestOptions): Promise<MediaExplanation>;
  /**
   * Processes a failed media object again, or the failed renditions of a ready one. Not repeated by the client.
   * @throws ConflictError if nothing has failed
   */
  retry(id: string, options?: RequestOptions): Promise<MediaDetail>;
  /**
   * Lets the service read every stored byte of a media object and compare it with the record. With `repair`, damaged and missing
   * renditions are made again; the answer's `repair` is the result.
   */
  verify(id: string, options?: VerifyOptions): Promise<MediaVerification>;
  /** Deletes a media object and its renditions. */
  delete(id: string, options?: RequestOptions): Promise<void>;
  /**
   * Waits until the media object is ready. Uses the service's events, with one connection for all waiting calls; without events, polls
   * less and less often.
   * @throws MediaFailedError if the media object fails; TimeoutError after `timeoutMs`
   */
  waitUntilReady(id: string, options?: WaitOptions): Promise<MediaDetail>;
}

/** Parts of {@link createControlMedia}. */
export interface ControlMediaParts {
  transport: Transport;
  fetches: Pick<ControlFetches, 'get'>;
  watch: MediaWatch;
}

/** Makes {@link ControlMedia} over a transport. */
export function createControlMedia({ transport, fetches, watch }: ControlMediaParts): ControlMedia {
  // 0: no limit.
  const verifyTimeoutMs = transport.timeoutMs === 0 ? 0 : Math.max(VERIFY_TIMEOUT_MS, transport.timeoutMs);
  const get = (id: string, { signal }: RequestOptions = {}): Promise<MediaDetail> =>
    transport.callJson('GET /control/v1/media/:id', { params: { id } }, { signal });

  return {
    ingest: (body, options = {}) => ingest(transport, body, options),
    upload: (body, options = {}) => uploadResumably({ transport, getMedia: get }, body, options),
    ingestUrl: (url, options) => ingestUrl({ transport, fetches, getMedia: get, newKey: randomKey }, url, options),
    list: ({ limit, cursor, status, signal } = {}) =>
      pagePromise(
        (at) => transport.callJson('GET /control/v1/media', { query: { limit, cursor: at, status } }, { signal }),
        cursor,
      ),
    get,
    explain: (id, { signal } = {}) =>
      transport.callJson('GET /control/v1/media/:id/explain', { params: { id } }, { signal }),
    retry: (id, { signal } = {}) =>
      transport.callJson('POST /control/v1/media/:id/retry', { params: { id } }, { signal }),
    verify: (id, { repair = false, timeoutMs = verifyTimeoutMs, signal } = {}) =>
      transport.callJson(
        'POST /control/v1/media/:id/verify',
        { params: { id }, query: { repair: repair ? 'true' : 'false' } },
        { signal, repeatable: true, timeoutMs },
      ),
    delete: (id, { signal } = {}) =>
      unlessGone('media_not_found', () =>
        transport.call('DELETE /control/v1/media/:id', { params: { id } }, { signal }),
      ),
    waitUntilReady: (id, options = {}) => waitUntilReady((signal) => get(id, { signal }), watch, id, options),
  };
}

async function ingest(transport: Transport, body: UploadBody, options: IngestOptions): Promise<Ingested> {
  const upload = await uploadSource(body, options.bytes, options.onProgress);
  const idempotencyKey = options.idempotencyKey ?? (upload.replayable ? randomKey() : undefined);
  const headers: Record<string, string> = { 'content-type': 'application/octet-stream' };
  // Browsers set the length themselves and forbid pages to set it.
  if (upload.bytes !== null && !('document' in globalThis)) headers['content-length'] = String(upload.bytes);
  const answer = await transport.call(
    'POST /control/v1/media',
    {
      query: { filename: options.filename, duplicate: options.duplicate },
      headers: { 'idempotency-key': idempotencyKey },
    },
    { signal: options.signal, upload, headers, repeatable: idempotencyKey !== undefined },
  );
  // The other route of this line, which takes JSON, answers with a fetch.
  return { media: answer.body as MediaDetail, created: answer.status === 201 };
}
