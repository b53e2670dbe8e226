import { createHash, type Hash, hash, subtle } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

declare const verified: unique symbol;

/** Bytes whose SHA-256 was compared with the recorded one. Only this file makes them, so that nothing else can be sent. */
export type VerifiedBuffer = Buffer & { readonly [verified]: true };

/** An open file whose content was compared with the recorded SHA-256. Whoever holds it closes it. */
export interface VerifiedFile {
  readonly [verified]: true;
  readonly handle: FileHandle;
  close(): Promise<void>;
}

/** What a stored object must turn out to be. */
export interface ExpectedObject {
  key: string;
  /** Lower-case hex. */
  sha256: string;
  bytes: number;
}

/** A stored object that is not what was recorded, or not there at all. For the log; callers see `object_corrupt`. */
export class ObjectDamagedError extends Error {
  readonly object: ExpectedObject;
  constructor(object: ExpectedObject, finding: string) {
    super(`The object ${object.key} ${finding}.`);
    this.name = 'ObjectDamagedError';
    this.object = object;
  }
}

/** Longest run of hashing on the event loop; larger buffers are hashed by the thread pool. */
const INLINE_HASH_BYTES = 256 * 1024;
/** Piece of a file that is hashed at a time. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Compares a whole object with what was recorded of it.
 * @throws ObjectDamagedError
 */
export async function verifyBuffer(body: Buffer, object: ExpectedObject): Promise<VerifiedBuffer> {
  if (body.length !== object.bytes) throw wrongSize(object, body.length);
  const digest =
    body.length <= INLINE_HASH_BYTES
      ? hash('sha256', body)
      : Buffer.from(await subtle.digest('SHA-256', body)).toString('hex');
  if (digest !== object.sha256) throw mismatch(object, digest);
  return body as VerifiedBuffer;
}

/** Marks bytes that this process has just made itself. */
export function madeHere(body: Buffer): VerifiedBuffer {
  return body as VerifiedBuffer;
}

/**
 * Reads a file from its start to its end and compares it with what was recorded.
 * @throws ObjectDamagedError
 */
export async function verifyFile(handle: FileHandle, object: ExpectedObject): Promise<VerifiedFile> {
  const { size } = await handle.stat();
  if (size !== object.bytes) throw wrongSize(object, size);
  const digest: Hash = createHash('sha256');
  const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, Math.max(1, object.bytes)));
  let position = 0;
  while (position < object.bytes) {
    const { bytesRead } = await handle.read(piece, 0, Math.min(piece.length, object.bytes - position), position);
    if (bytesRead === 0) throw new ObjectDamagedError(object, `ends after ${position} of ${object.bytes} bytes`);
    digest.update(piece.subarray(0, bytesRead));
    position += bytesRead;
  }
  const found = digest.digest('hex');
  if (found !== object.sha256) throw mismatch(object, found);
  return asVerifiedFile(handle);
}

/** For a file that {@link verifyFile} has passed and that has not changed since. */
export function asVerifiedFile(handle: FileHandle): VerifiedFile {
  return { handle, close: () => handle.close() } as VerifiedFile;
}

function wrongSize(object: ExpectedObject, found: number): ObjectDamagedError {
  return new ObjectDamagedError(object, `has ${found} bytes instead of ${object.bytes}`);
}

function mismatch(object: ExpectedObject, found: string): ObjectDamagedError {
  return new ObjectDamagedError(object, `has SHA-256 ${found} instead of ${object.sha256}`);
}
