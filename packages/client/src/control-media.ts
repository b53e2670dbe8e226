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

/** How to ingest a file. */
export interface IngestOptions extends RequestOptions {
  /** The name that the file had; only ever shown. At most 255 characters. */
  filename?: string | undefined;
  /** `allow` makes another media object of bytes that the project has already; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /**
   * Makes a repetition of this very request safe, by this client or by you: it gives the media object that the first one made.
   * Where the body can be sent again, one is made up if you give none, so that the client's own retries are safe.
   */
  idempotencyKey?: string | undefined;
  /** Length of the body, where you know it and the body does not: a stream's. Lets the service refuse at once what is too large. */
  bytes?: number | undefined;
  /** Called for every piece that goes out; from 0 again where the upload had to begin anew. Not called where a browser sends a Blob. */
  onProgress?: ((progress: UploadProgress) => void) | undefined;
}

/** How to verify a media object. */
export interface VerifyOptions extends RequestOptions {
  /** Make damaged and missing renditions again; default false. */
  repair?: boolean | undefined;
  /**
   * Milliseconds that it may take; default 600,000, or the client's own limit where that is longer (0: for ever). It is one
   * request in which every byte is read, so that gigabytes take minutes. Not repeated when it is over.
   */
  timeoutMs?: number | undefined;
}

const VERIFY_TIMEOUT_MS = 600_000;

/** Which page of the operator's list. */
export interface DetailListOptions extends ListOptions {
  /** Only media in this state. */
  status?: MediaStatus | undefined;
}

/** The operator's part of the media. `media.list` of the client itself is the public list. */
export interface ControlMedia {
  /**
   * Uploads a file; what it is, the service reads from its bytes. Resolves once it is stored safely, while processing is
   * still ahead: see `waitUntilReady`. Tried again after a failure where the body can be sent again.
   * @throws InvalidRequestError for what is not accepted, its `code` saying why
   */
  ingest(body: UploadBody, options?: IngestOptions): Promise<Ingested>;
  /**
   * Uploads a file resumably: goes on where it stopped after every break, and with `resumeKey` in a later call, too. For what is
   * large or comes over a network that breaks; small files are one request less with `ingest`. Resolves once it is stored safely.
   * An abort leaves an upload with a `resumeKey` as it is; one that nobody could go on with is dropped.
   * @throws InvalidRequestError for what is not accepted, its `code` saying why; MdsError where the body has another length
   *   than `bytes`
   */
  upload(body: ResumableBody, options?: UploadOptions): Promise<Ingested>;
  /**
   * Has the service fetch a file from an http or https URL, and resolves once it is stored safely. The service refuses
   * addresses that are not public unless its operator allows them. Aborting ends the following, not the fetch.
   * @throws FetchFailedError where it could not be fetched or was not accepted, its `code` saying why; InvalidRequestError where
   *   the URL is refused at once; TimeoutError after `timeoutMs`
   */
  ingestUrl(url: string | URL, options?: IngestUrlOptions): Promise<Ingested>;
  /** Media in detail, newest first. Await it for a page; `for await` goes through all pages. */
  list(options?: DetailListOptions): PagePromise<MediaDetail>;
  /** A media object in detail. */
  get(id: string, options?: RequestOptions): Promise<MediaDetail>;
  /** Why a media object is as it is: what it was found to be, what was planned, every attempt, and what it waits for. */
  explain(id: string, options?: RequestOptions): Promise<MediaExplanation>;
  /**
   * Processes a failed media object again, or those renditions of a ready one that failed. Not repeated by the client.
   * @throws ConflictError where nothing has failed
   */
  retry(id: string, options?: RequestOptions): Promise<MediaDetail>;
  /**
   * Has the service read every stored byte of a media object and compare it with what was recorded. `repair`: makes renditions
   * that are damaged or missing again; the answer's `repair` says what came of it.
   */
  verify(id: string, options?: VerifyOptions): Promise<MediaVerification>;
  /** Deletes a media object and its renditions. */
  delete(id: string, options?: RequestOptions): Promise<void>;
  /**
   * Waits until the media object is ready: over the service's events, one connection for all that are waited for; where it has
   * none, by asking ever less often.
   * @throws MediaFailedError with the failure where it fails; TimeoutError after `timeoutMs`
   */
  waitUntilReady(id: string, options?: WaitOptions): Promise<MediaDetail>;
}

/** What {@link createControlMedia} works with. */
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
