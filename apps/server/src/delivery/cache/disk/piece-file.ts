import { createHash, subtle } from 'node:crypto';
import { PIECE_BYTES } from '@mds/contract';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ExpectedObject, pieceCount, pieceLength, type VerifiedBuffer, verifyPiece } from '../../verified-body.ts';
import type { OpenFile } from './open-file.ts';

/** How a file compares with its state when its pieces were verified. An unlinked file still has its content. */
export type FileFinding = 'same' | 'unlinked' | 'changed';

/** The pieces of an object in a file of this machine: the object's own file, or a file of the cache folder that fills on demand. */
export interface PieceFile {
  readonly object: ExpectedObject;
  /** Whether the pieces from `first` to `last` will be here for the next reader too. A forecast for pieces not yet obtained. */
  keeps(first: number, last: number): Promise<boolean>;
  /** Notes a use, for the order of eviction. */
  use(): void;
  /** Whether all pieces from `first` to `last` are in the file and verified. */
  holds(first: number, last: number): boolean;
  /** Whether a piece is being obtained now. */
  isUnderWay(index: number): boolean;
  /**
   * Obtains and verifies a piece. Requests for the same piece share this.
   * @param through last piece that the request needs; those up to it may be obtained together
   * @returns the piece if the file could not take it; null: read it from the file
   * @throws ObjectDamagedError, OriginUnavailableError
   */
  ensure(index: number, through: number): Promise<VerifiedBuffer | null>;
  /** Obtains the pieces that a sequential reader needs next. Errors are left to the reader, who will ask for the same pieces. */
  readAhead(from: number, through: number): void;
  /** Looks for pieces that an earlier process left in the file. Obtains none. */
  lookInFile(first: number, last: number): Promise<void>;
  /** Fills `into` from the file. Valid only for pieces that {@link holds} or {@link ensure} confirmed. */
  read(into: Buffer, position: number): Promise<number>;
  /** Compares the file with its state when its pieces were verified. */
  examine(): Promise<FileFinding>;
  close(): Promise<void>;
}

/** Reads a piece from a file and compares it with its digest. A piece of zeros was never written. */
export async function verifyPieceInFile(
  file: Pick<OpenFile, 'read'>,
  object: ExpectedObject,
  index: number,
  gate: ByteGate,
): Promise<'right' | 'absent' | 'wrong'> {
  const size = pieceLength(object, index);
  await gate.enter(size);
  const buffer = takePieceBuffer(size);
  try {
    const piece = buffer.subarray(0, size);
    const count = await file.read(piece, index * PIECE_BYTES);
    if (count === piece.length && (await verifyPiece(piece, object, index)) !== null) return 'right';
    // The holes of a sparse file read as zeros.
    return piece.subarray(0, count).equals(ZEROS.subarray(0, count)) ? 'absent' : 'wrong';
  } finally {
    givePieceBuffer(buffer);
    gate.leave(size);
  }
}

const ZEROS = Buffer.alloc(PIECE_BYTES);

/** SHA-256 of a file up to the size of the object, in lower-case hex, and of its pieces. */
export async function hashOpenFile(
  file: Pick<OpenFile, 'read'>,
  object: ExpectedObject,
  gate: ByteGate,
): Promise<{ sha256: string; pieces: Buffer }> {
  const digests = createPieceDigests(object);
  await gate.enter(PIECE_BYTES);
  const buffer = takePieceBuffer();
  try {
    for (let index = 0; index < pieceCount(object); index += 1) {
      const piece = buffer.subarray(0, pieceLength(object, index));
      await digests.take(piece.subarray(0, await file.read(piece, index * PIECE_BYTES)));
    }
    return digests.end();
  } finally {
    givePieceBuffer(buffer);
    gate.leave(PIECE_BYTES);
  }
}

const DIGEST_BYTES = 32;

/** SHA-256 of an object and of its pieces, which are taken in order from the first. */
export interface PieceDigests {
  /** The bytes must not change until it resolves. */
  take(piece: Buffer): Promise<void>;
  /** `sha256` of all bytes taken, in lower-case hex; `pieces` as in {@link ExpectedObject}. */
  end(): { sha256: string; pieces: Buffer };
}

export function createPieceDigests(object: Pick<ExpectedObject, 'bytes'>): PieceDigests {
  const whole = createHash('sha256');
  const pieces = Buffer.alloc(pieceCount(object) * DIGEST_BYTES);
  let taken = 0;
  return {
    async take(piece) {
      // The thread pool hashes the piece while the event loop adds it to the hash of the whole, which is sequential.
      const digest = subtle.digest('SHA-256', piece);
      whole.update(piece);
      pieces.set(new Uint8Array(await digest), taken * DIGEST_BYTES);
      taken += 1;
    },
    end: () => ({ sha256: whole.digest('hex'), pieces }),
  };
}

/** The verified pieces of an object. */
export interface PieceMap {
  /** Whether all pieces from `first` to `last`, both included, are verified. */
  hasAll(first: number, last: number): boolean;
  has(index: number): boolean;
  add(index: number): void;
  addAll(): void;
}

/** Makes a {@link PieceMap} without verified pieces. */
export function createPieceMap(object: Pick<ExpectedObject, 'bytes'>): PieceMap {
  const pieces = new Uint8Array(pieceCount(object));
  // The common case, a large object that is complete, must not cost a walk over its pieces.
  let missing = pieces.length;
  return {
    hasAll(first, last) {
      if (missing === 0) return true;
      for (let index = first; index <= last; index += 1) if (pieces[index] !== 1) return false;
      return true;
    },
    has: (index) => pieces[index] === 1,
    add(index) {
      if (pieces[index] === 1) return;
      pieces[index] = 1;
      missing -= 1;
    },
    addAll() {
      pieces.fill(1);
      missing = 0;
    },
  };
}

const MAX_SPARE = 32;
/** Buffers of a piece for reuse: fresh memory costs more than the read itself. */
const spare: Buffer[] = [];

/** A buffer of at least so many bytes, at most a piece. Its content is undefined. */
export function takePieceBuffer(bytes = PIECE_BYTES): Buffer {
  if (bytes <= PIECE_BYTES / 2) return Buffer.allocUnsafeSlow(bytes);
  return spare.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
}

/** Returns a buffer of {@link takePieceBuffer}. Nobody, the system included, may still read from it. */
export function givePieceBuffer(buffer: Buffer): void {
  if (buffer.length === PIECE_BYTES && spare.length < MAX_SPARE) spare.push(buffer);
}
