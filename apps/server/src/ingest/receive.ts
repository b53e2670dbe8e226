import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';
import type { PieceWriting } from './piece-writing.ts';
import type { StagingReservation, StagingSpace } from './staging-space.ts';

/** A body that arrived complete, in a file of its own. Its holder removes the file when done. */
export interface StagedFile {
  path: string;
  bytes: number;
  sha256: string;
}

export interface ReceiveOptions {
  stagingDir: string;
  maxBytes: number;
  /** Room for the body is reserved here until the file is removed or handed over. */
  space: StagingSpace;
  /** The size that the sender announced; null if it announced none. */
  declaredBytes: number | null;
  signal?: AbortSignal | undefined;
  writing: PieceWriting;
  onBytes(count: number): void;
}

/**
 * Writes a body into a staging file and hashes it on the way. An incomplete body leaves nothing behind.
 *
 * The body is destroyed if the sender or `signal` aborted it. A body that is refused is left as it is, so that an answer can still be
 * sent on its connection.
 * @throws AppError `payload_too_large`, `incomplete_body`, `empty_file`, `insufficient_storage`
 */
export async function receive(body: Readable, options: ReceiveOptions): Promise<StagedFile> {
  const { stagingDir, declaredBytes } = options;
  if (declaredBytes !== null && declaredBytes > options.maxBytes) throw tooLarge(options.maxBytes);
  const room = await options.space.reserve(declaredBytes ?? 0);

  // The name is ours: no part of a path ever comes from a client.
  const path = join(stagingDir, `${randomUUID()}.part`);
  try {
    const file = await open(path, 'wx', 0o600);
    try {
      return { path, ...(await copy(body, file, room, options)) };
    } finally {
      await file.close();
    }
  } catch (error) {
    await rm(path, { force: true });
    throw storageError(error);
  } finally {
    // A complete file is about to be accepted or removed: it no longer grows.
    room.release();
  }
}

async function copy(
  body: Readable,
  file: FileHandle,
  room: StagingReservation,
  options: ReceiveOptions,
): Promise<Omit<StagedFile, 'path'>> {
  const { maxBytes, declaredBytes, signal, onBytes } = options;
  const hash = createHash('sha256');
  let bytes = 0;
  let written = 0;
  const writer = options.writing.begin(file, 0, (more) => {
    written += more;
    room.wrote(written);
    onBytes(more);
  });
  try {
    for await (const piece of piecesOf(body, signal)) {
      bytes += piece.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      if (declaredBytes !== null && bytes > declaredBytes)
        throw otherLength(declaredBytes, `more than ${declaredBytes}`);
      if (bytes > room.bytes) await room.grow(bytes);
      const taken = writer.take(piece);
      // At the same time as the write, which another thread does.
      hash.update(piece);
      await taken;
    }
    await writer.finish();
  } finally {
    await writer.close();
  }
  if (declaredBytes !== null && bytes < declaredBytes) throw otherLength(declaredBytes, String(bytes));
  if (bytes === 0) throw new AppError('empty_file', 'The body has no bytes. Send the file as the body of the request.');
  return { bytes, sha256: hash.digest('hex') };
}

/** The pieces of a body. An early end becomes `incomplete_body`, or the AppError that it was ended with. */
async function* piecesOf(body: Readable, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  // A body may break while nobody reads it: before the first piece, or after it was refused. An error event without a listener would end
  // the process.
  body.on('error', () => undefined);
  const stop = () => body.destroy();
  if (signal?.aborted) stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    yield* body.iterator({ destroyOnReturn: false });
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError(
      'incomplete_body',
      'The body ended before it was complete, and nothing was kept. Send it again.',
      {
        cause: signal?.aborted ? signal.reason : error,
      },
    );
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError('payload_too_large', `The file is larger than the ${maxBytes} bytes that are accepted here.`);
}

function otherLength(declared: number, arrived: string): AppError {
  const detail = `The body was announced with ${declared} bytes, but ${arrived} arrived. Nothing was kept; send it again.`;
  return new AppError('incomplete_body', detail);
}
