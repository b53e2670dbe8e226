import { hash, subtle } from 'node:crypto';
import { PIECE_BYTES } from '@mds/contract';
import type { HashedFile } from './cache/disk/reading-threads.ts';

declare const verified: unique symbol;

/** Bytes whose SHA-256 was compared with the recorded one. Only this file makes them, so that nothing else can be sent. */
export type VerifiedBuffer = Buffer & { readonly [verified]: true };

/** What a stored object must turn out to be. */
export interface ExpectedObject {
  /** What its origin knows it by: the key in the object store, or, of an edge's origin, the delivery path. */
  key: string;
  /** Lower-case hex. */
  sha256: string;
  bytes: number;
  /**
   * SHA-256 of each piece of `PIECE_BYTES`, 32 bytes after 32 bytes, so that a piece can be verified without the others.
   * Null where the object is one piece, and where they are not known: then the whole is verified before any of it is used, and
   * they are, from then on.
   */
  pieces: Buffer | null;
}

/** A stored object that is not what was recorded, or not there at all. For the log; callers see `object_corrupt`. */
export class ObjectDamagedError extends Error {
  readonly object: ExpectedObject;
  /** The one piece that is damaged; null: all of it is. */
  readonly piece: number | null;
  constructor(object: ExpectedObject, finding: string, piece: number | null = null) {
    super(
      `The object ${object.key} ${finding}${piece === null ? '' : `, in piece ${piece} of ${pieceCount(object)}`}.`,
    );
    this.name = 'ObjectDamagedError';
    this.object = object;
    this.piece = piece;
  }
}

/** Longest run of hashing on the event loop; larger buffers are hashed by the thread pool. */
const INLINE_HASH_BYTES = 256 * 1024;
const DIGEST_BYTES = 32;

/** Pieces that an object consists of; one at least. */
export function pieceCount({ bytes }: Pick<ExpectedObject, 'bytes'>): number {
  return Math.max(1, Math.ceil(bytes / PIECE_BYTES));
}

/** Bytes of a piece: all have `PIECE_BYTES` but the last. */
export function pieceLength({ bytes }: Pick<ExpectedObject, 'bytes'>, index: number): number {
  return Math.min(PIECE_BYTES, bytes - index * PIECE_BYTES);
}

/** Whether a piece can be verified without the others. */
export function hasPieceDigests(object: ExpectedObject): boolean {
  return pieceCount(object) === 1 || object.pieces?.length === pieceCount(object) * DIGEST_BYTES;
}

/** SHA-256 of bytes, lower-case hex. The bytes must not change until it resolves. */
async function digestOf(bytes: Buffer): Promise<string> {
  if (bytes.length <= INLINE_HASH_BYTES) return hash('sha256', bytes);
  return Buffer.from(await subtle.digest('SHA-256', bytes)).toString('hex');
}

/**
 * Compares a piece with what was recorded of it. The bytes must not change meanwhile.
 * @returns null where it is something else
 */
export async function verifyPiece(
  bytes: Buffer,
  object: ExpectedObject,
  index: number,
): Promise<VerifiedBuffer | null> {
  if (bytes.length !== pieceLength(object, index)) return null;
  const recorded =
    pieceCount(object) === 1
      ? object.sha256
      : object.pieces?.toString('hex', index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES);
  return (await digestOf(bytes)) === recorded ? (bytes as VerifiedBuffer) : null;
}

/**
 * Compares a whole object, read and hashed elsewhere in this process, with what was recorded of it.
 * @throws ObjectDamagedError
 */
export function verifyHashed({ bytes, sha256, size }: HashedFile, object: ExpectedObject): VerifiedBuffer {
  if (size !== object.bytes || bytes.length !== size) throw wrongSize(object, size);
  if (sha256 !== object.sha256) throw mismatch(object, sha256);
  return bytes as VerifiedBuffer;
}

/** Marks bytes that this process has just made itself. */
export function madeHere(body: Buffer): VerifiedBuffer {
  return body as VerifiedBuffer;
}

/** Marks bytes read from a file of which these pieces were verified and that has not changed since. */
export function readFromVerified(bytes: Buffer): VerifiedBuffer {
  return bytes as VerifiedBuffer;
}

/** What is said of an object that has the wrong size. */
export function wrongSize(object: ExpectedObject, found: number): ObjectDamagedError {
  return new ObjectDamagedError(object, `has ${found} bytes instead of ${object.bytes}`);
}

/** What is said of an object whose content is another one. */
export function mismatch(object: ExpectedObject, found: string): ObjectDamagedError {
  return new ObjectDamagedError(object, `has SHA-256 ${found} instead of ${object.sha256}`);
}
