import type { RequestOptions } from '../transport.ts';
import type { UploadContent, UploadProgress } from '../upload-source.ts';

/** Content that can be opened at any byte, such as a file. Resuming reads nothing twice. */
export interface SeekableContent {
  /** Length in bytes. */
  bytes: number;
  /** Opens the content at a byte: `(start) => createReadStream(path, { start })`. */
  open(start: number): UploadContent;
}

/**
 * A body for a resumable upload: every body of `ingest`, and {@link SeekableContent}. After a broken connection, content from a function is
 * read again from its beginning up to the service's offset.
 */
export type ResumableBody = UploadContent | (() => UploadContent) | SeekableContent;

/** Progress of a resumable upload. */
export interface ResumableProgress extends UploadProgress {
  /** Bytes that the service has stored. After a broken connection, `sentBytes` falls back to this value. */
  acceptedBytes: number;
}

/** A store for the addresses of unfinished uploads, so that a later call can continue. An address is not secret, unlike the token. */
export interface UploadStore {
  /** The address stored under a key; null if there is none. */
  get(key: string): Promise<string | null>;
  /** Stores an address. */
  set(key: string, url: string): Promise<void>;
  /** Deletes an address, if there is one. */
  delete(key: string): Promise<void>;
}

/** Options of a resumable upload. */
export interface UploadOptions extends RequestOptions {
  /** The name of the file, used as a label. At most 255 characters. */
  filename?: string | undefined;
  /** `allow` creates another media object even if the project already has these bytes; default `existing`. */
  duplicate?: 'existing' | 'allow' | undefined;
  /** As for `ingest`: a repeated upload with the same key gives the media object of the first one. The default is a random key. */
  idempotencyKey?: string | undefined;
  /** Length of the body, if the body itself does not know it. Content of another length fails. */
  bytes?: number | undefined;
  /** SHA-256 of the whole content, 64 hexadecimal digits or `sha256 <base64>`: the service refuses what does not match. */
  checksum?: string | undefined;
  /** Called as the upload progresses; starts again from 0 if the upload is repeated. */
  onProgress?: ((progress: ResumableProgress) => void) | undefined;
  /**
   * Names this content for a later call, in this process or another one. A call with the same key continues where the last one stopped, if
   * the content has the same length. The key must identify these bytes, for example by a file's path, size and modification time.
   */
  resumeKey?: string | undefined;
  /** Store for the addresses of unfinished uploads. Default: localStorage in browsers, the user's state folder in Node. */
  resumeStore?: UploadStore | undefined;
  /**
   * Maximum bytes of one request, for proxies that limit bodies. Default: no limit if the length is known and the runtime can send a body
   * that is not in memory; else 8 MiB, kept as a copy in memory.
   */
  chunkBytes?: number | undefined;
  /** Maximum retries in a row without progress; default 8. */
  maxRetries?: number | undefined;
}
