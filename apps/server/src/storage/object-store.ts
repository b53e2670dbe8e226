import type { Readable } from 'node:stream';

/** Properties of a stored object that are known without reading it. */
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
   * folder), whole or not at all. If the key has an object of this size already, that is left as it is.
   * @throws AppError `insufficient_storage` if there is no room or no permission to write
   */
  put(key: string, file: { path: string; bytes: number; sha256: string }): Promise<void>;
  stat(key: string): Promise<ObjectStat | null>;
  /**
   * Reads an object, or the bytes from `start` to `end` inclusive of it. Null if there is none.
   * The reader owns the stream and must consume or destroy it.
   */
  read(key: string, range?: { start: number; end: number }): Promise<{ stream: Readable; bytes: number } | null>;
  /** The whole object in memory; null if there is none. For objects known to be small. */
  readAll(key: string): Promise<Buffer | null>;
  /** A local path to read the object from, valid until `release` is called: a copy if the store is remote. */
  localFile(key: string): Promise<{ path: string; release(): Promise<void> } | null>;
  /** Removes an object; no error if there is none. */
  delete(key: string): Promise<void>;
  /** All keys under a prefix, in any order. */
  list(prefix: string): AsyncIterable<{ key: string; bytes: number }>;
  /** Writes, reads back and removes a tiny object. */
  probe(): Promise<void>;
}
