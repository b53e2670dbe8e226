import type { Readable } from 'node:stream';

/** What is known of a stored object without reading it. */
export interface ObjectStat {
  bytes: number;
}

/**
 * Whole, immutable objects under keys of lower-case letters, digits, `/`, `.`, `-` and `_`. A key's content never
 * changes: keys are derived from content and preset revision, so a second put writes the same bytes.
 */
export interface ObjectStore {
  /**
   * Moves a finished local file into the store; the file is gone afterwards. Durable on return (fsync of file and
   * folder), whole or not there at all. A key that holds an object of this size already is left as it is.
   * @throws AppError `insufficient_storage` where there is no room or no right to write
   */
  put(key: string, file: { path: string; bytes: number; sha256: string }): Promise<void>;
  stat(key: string): Promise<ObjectStat | null>;
  /**
   * Reads an object, or the bytes from `start` to `end` inclusive of it. Null where there is none.
   * The reader owns the stream and must consume or destroy it.
   */
  read(key: string, range?: { start: number; end: number }): Promise<{ stream: Readable; bytes: number } | null>;
  /** The whole object in memory; null where there is none. For objects known to be small. */
  readAll(key: string): Promise<Buffer | null>;
  /** A local path to read the object from, valid until `release` is called: a copy where the store is remote. */
  localFile(key: string): Promise<{ path: string; release(): Promise<void> } | null>;
  /** Removes an object; no error where there is none. */
  delete(key: string): Promise<void>;
  /** All keys under a prefix, in no promised order. */
  list(prefix: string): AsyncIterable<{ key: string; bytes: number }>;
  /** Writes, reads back and removes a tiny object. */
  probe(): Promise<void>;
}
