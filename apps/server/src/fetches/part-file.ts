import { createHash, type Hash } from 'node:crypto';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { storageError } from '../base/storage-error.ts';
import type { StagedFile } from '../ingest/receive.ts';

/** The part of a file that has arrived. Its synced bytes survive a restart. */
export interface PartFile {
  readonly bytes: number;
  /** Drops all bytes. */
  restart(): Promise<void>;
  append(piece: Uint8Array): Promise<void>;
  /** @returns the number of bytes that are durable now */
  sync(): Promise<number>;
  /** Syncs the file and completes its hash; nothing can be appended any more. */
  finish(): Promise<StagedFile>;
  close(): Promise<void>;
}

const READ_BYTES = 1024 * 1024;

/**
 * Opens or creates a part. Only synced bytes are kept: after a power loss, the bytes after them may be anything. They are read once, to
 * restore their hash.
 * @throws AppError `insufficient_storage`
 */
export async function openPartFile(path: string, syncedBytes: number, signal: AbortSignal): Promise<PartFile> {
  const file = await kept(open(path, constants.O_RDWR | constants.O_CREAT, 0o600));
  try {
    const bytes = Math.min((await file.stat()).size, syncedBytes);
    await kept(file.truncate(bytes));
    return partFile(path, file, bytes, await hashOf(file, bytes, signal));
  } catch (error) {
    await file.close();
    throw error;
  }
}

function partFile(path: string, file: FileHandle, already: number, hashed: Hash): PartFile {
  let bytes = already;
  let hash = hashed;
  const sync = async () => {
    const written = bytes;
    await kept(file.datasync());
    return written;
  };
  return {
    get bytes() {
      return bytes;
    },
    async restart() {
      await kept(file.truncate(0));
      bytes = 0;
      hash = createHash('sha256');
    },
    async append(piece) {
      // One `write` may take only a part of the piece.
      for (let written = 0; written < piece.length; ) {
        written += (await kept(file.write(piece, written, piece.length - written, bytes + written))).bytesWritten;
      }
      hash.update(piece);
      bytes += piece.length;
    },
    sync,
    async finish() {
      await sync();
      return { path, bytes, sha256: hash.digest('hex') };
    },
    close: () => file.close(),
  };
}

async function hashOf(file: FileHandle, bytes: number, signal: AbortSignal): Promise<Hash> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, Math.max(1, bytes)));
  for (let at = 0; at < bytes; ) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) throw new Error('a part became shorter while it was read');
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}

async function kept<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storageError(error);
  }
}
