import type { RequestOptions } from '../transport.ts';
import type { UploadContent, UploadProgress } from '../upload-source.ts';

/** Content of which any part can be read: a file on a disk. Going on after a break reads nothing twice. */
export interface SeekableContent {
  /** Length in bytes. */
  bytes: number;
  /** Opens the content at a byte: `(start) => createReadStream(path, { start })`. */
  open(start: number): UploadContent;
}

/**
 * What can be uploaded resumably: all that can be ingested, and {@link SeekableContent}. A function that opens the content
 * is read from its beginning again after a break, up to where the service stands.
 */
export type ResumableBody = UploadContent | (() => UploadContent) | SeekableContent;

/** How far a resumable upload is. */
export interface ResumableProgress extends UploadProgress {
  /** What the service has for good. After a break `sentBytes` falls back to it, and is told so. */
  acceptedBytes: number;
}

/** Where the addresses of unfinished uploads are kept, so that a later call can go on. An address is no secret: the token is. */
export interface UploadStore {
  /** The address that is kept under a key; null where there is none. */
  get(key: string): Promise<string | null>;
  /** Keeps an address. */
  set(key: string, url: string): Promise<void>;
  /** Forgets an address; one that is not there, too. */
  delete(key: string): Promise<void>;
}

/** How to upload. */
export interface UploadOptions extends RequestOptions {
  /** The name that the file had; only ever shown. At most 255 characters. */
  filename?: string | undefined;
  /** `allow` makes another media object of bytes that the project has already; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /** As of `ingest`: a repetition under the same key gives the media object that the first one made. One is made up if you give none. */
  idempotencyKey?: string | undefined;
  /** Length of the body, where you know it and the body does not. Content of another length fails. */
  bytes?: number | undefined;
  /** SHA-256 of the whole content, 64 hexadecimal digits or `sha256 <base64>`: the service refuses what does not match. */
  checksum?: string | undefined;
  /** Called as the upload gets on, from 0 again where it had to begin anew. */
  onProgress?: ((progress: ResumableProgress) => void) | undefined;
  /**
   * Names this content for a later call, in this process or another one: a call with the same key goes on where the one before
   * stopped, if the content is as long. It has to stand for these very bytes: path, size and time of change of a file, say.
   */
  resumeKey?: string | undefined;
  /** Where the addresses of unfinished uploads are kept. Default: localStorage in browsers, the user's state folder in Node. */
  resumeStore?: UploadStore | undefined;
  /**
   * Bytes of one request at most, for proxies that bound bodies. Default: no bound where the length is known and the runtime
   * can send what it does not hold in memory; else 8 MiB, of which a copy is held.
   */
  chunkBytes?: number | undefined;
  /** How often in a row it is tried again without the service having got further; default 8. */
  maxRetries?: number | undefined;
}
