import { hash, subtle } from 'node:crypto';
import { PIECE_BYTES } from '@mds/contract';
import type { ByteRange } from './byte-ranges.ts';
import type { HashedFile } from './cache/disk/reading-threads.ts';

declare const verified: unique symbol;

/** Bytes whose SHA-256 matched the recorded one. Only this file makes them, so that nothing else can be sent. */
export type VerifiedBuffer = Buffer & { readonly [verified]: true };

/** Neighbouring pieces of an object in memory. */
export interface VerifiedRun {
  /** Position of the first byte in the object. */
  readonly start: number;
  readonly pieces: readonly VerifiedBuffer[];
}

/** The bytes of a run that lie in a range, without copying them. */
export function cutRun({ start, pieces }: VerifiedRun, range: ByteRange): Buffer[] {
  const cut: Buffer[] = [];
  let at = start;
  for (const piece of pieces) {
    const from = Math.max(range.start - at, 0);
    const to = Math.min(range.end + 1 - at, piece.length);
    if (from < to) cut.push(piece.subarray(from, to));
    at += piece.length;
  }
  return cut;
}

/** The expected properties of a stored object, to verify it by. */
export interface ExpectedObject {
  /** The origin's name for it: the key in the object store, or the delivery path if the origin is another service. */
  key: string;
  /** Lower-case hex. */
  sha256: string;
  bytes: number;
  /**
   * SHA-256 of each piece of `PIECE_BYTES`, 32 bytes after 32 bytes, so that a piece can be verified without the others.
   * Null if the object is one piece, or if they are not known. Then the whole object is verified before any of it is used,
   * which yields the digests.
   */
  pieces: Buffer | null;
}

/** An object, and the media object that it belongs to. */
export interface OwnedObject {
  mediaId: string;
  object: ExpectedObject;
}

/** A stored object differs from its record, or is missing. For the log; callers see `object_corrupt`. */
export class ObjectDamagedError extends Error {
  readonly object: ExpectedObject;
  /** The damaged piece; null for the whole object. */
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

/** Largest buffer that is hashed on the event loop. The thread pool hashes larger ones. */
const INLINE_HASH_BYTES = 256 * 1024;
const DIGEST_BYTES = 32;

/** Number of pieces of an object, at least one. */
export function pieceCount({ bytes }: Pick<ExpectedObject, 'bytes'>): number {
  return Math.max(1, Math.ceil(bytes / PIECE_BYTES));
}

/** Bytes of a piece: `PIECE_BYTES`, except for the last one. */
export function pieceLength({ bytes }: Pick<ExpectedObject, 'bytes'>, index: number): number {
  return Math.min(PIECE_BYTES, bytes - index * PIECE_BYTES);
}

/** Index of the piece with the first byte of a range. */
export const firstPieceOf = ({ start }: ByteRange): number => Math.floor(start / PIECE_BYTES);

/** Index of the piece with the last byte of a range. An empty range has one piece. */
export const lastPieceOf = ({ start, end }: ByteRange): number => Math.floor(Math.max(start, end) / PIECE_BYTES);

/** Whether a piece can be verified without the others. */
export function hasPieceDigests(object: ExpectedObject): boolean {
  return pieceCount(object) === 1 || object.pieces?.length === pieceCount(object) * DIGEST_BYTES;
}

/** SHA-256 in lower-case hex. The bytes must not change until it resolves. */
async function digestOf(bytes: Buffer): Promise<string> {
  if (bytes.length <= INLINE_HASH_BYTES) return hash('sha256', bytes);
  return Buffer.from(await subtle.digest('SHA-256', bytes)).toString('hex');
}

/**
 * Compares a piece with its recorded digest. The bytes must not change until it resolves.
 * @returns null if they differ
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
 * Compares a whole object, which a thread of this process has read and hashed, with its record.
 * @throws ObjectDamagedError
 */
export function verifyHashed({ bytes, sha256, size }: HashedFile, object: ExpectedObject): VerifiedBuffer {
  if (size !== object.bytes || bytes.length !== size) throw wrongSize(object, size);
  if (sha256 !== object.sha256) throw mismatch(object, sha256);
  return bytes as VerifiedBuffer;
}

/** Marks bytes that this process has made itself. */
export function madeHere(body: Buffer): VerifiedBuffer {
  return body as VerifiedBuffer;
}

/** Marks bytes of pieces that were verified in a file which has not changed since. */
export function readFromVerified(bytes: Buffer): VerifiedBuffer {
  return bytes as VerifiedBuffer;
}

/** The error for an object of the wrong size. */
export function wrongSize(object: ExpectedObject, found: number): ObjectDamagedError {
  return new ObjectDamagedError(object, `has ${found} bytes instead of ${object.bytes}`);
}

/** The error for an object with other content. */
export function mismatch(object: ExpectedObject, found: string): ObjectDamagedError {
  return new ObjectDamagedError(object, `has SHA-256 ${found} instead of ${object.sha256}`);
}
