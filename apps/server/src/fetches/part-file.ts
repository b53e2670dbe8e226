import { createHash, type Hash } from 'node:crypto';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { storageError } from '../base/storage-error.ts';
import type { StagedFile } from '../ingest/receive.ts';

/** What has arrived of a file. It survives a restart as far as it was synced. */
export interface PartFile {
  readonly bytes: number;
  /** Drops what there is. */
  restart(): Promise<void>;
  append(piece: Uint8Array): Promise<void>;
  /** @returns how many bytes are on disk now, come what may */
  sync(): Promise<number>;
  /** Syncs it and takes its hash; nothing can be appended any more. */
  finish(): Promise<StagedFile>;
  close(): Promise<void>;
}

const READ_BYTES = 1024 * 1024;

/**
 * Opens a part, or makes one. Of what is there no more is kept than was synced: after a power loss, what comes after it may be
 * anything. That is read once, to take up its hash.
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
      // `write` may take only a part of what it is given.
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
