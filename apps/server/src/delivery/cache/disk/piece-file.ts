import { PIECE_BYTES } from '@mds/contract';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ExpectedObject, pieceCount, pieceLength, type VerifiedBuffer, verifyPiece } from '../../verified-body.ts';
import type { OpenFile } from './open-file.ts';
import { createPieceDigests } from './piece-digests.ts';
import { givePieceBuffer, takePieceBuffer } from './piece-pool.ts';

/** What became of a file since its pieces were verified. An unlinked one still has its content. */
export type FileFinding = 'same' | 'unlinked' | 'changed';

/** An object's pieces in a file of this machine: the object's own, or one of the cache folder that fills as they are asked for. */
export interface PieceFile {
  readonly object: ExpectedObject;
  /** Whether the pieces from `first` to `last` are there for the next reader, too, as far as can be told before they are obtained. */
  keeps(first: number, last: number): Promise<boolean>;
  /** Notes that it is wanted. */
  use(): void;
  /** Whether all pieces from `first` to `last` are in the file and verified. */
  holds(first: number, last: number): boolean;
  /** Whether a piece is being obtained at the moment. */
  isUnderWay(index: number): boolean;
  /**
   * Obtains and verifies a piece; whoever asks for it meanwhile shares that.
   * @param through last piece that is going to be asked for, so that those up to it may be obtained together
   * @returns the piece where the file could not take it; else null: read it from the file
   * @throws ObjectDamagedError, OriginUnavailableError
   */
  ensure(index: number, through: number): Promise<VerifiedBuffer | null>;
  /** Obtains what a sequential reader is about to ask for. Reports nothing: the reader finds out. */
  readAhead(from: number, through: number): void;
  /** Tries whether the pieces are in the file already, as a process before this one may have left them. Obtains none. */
  lookInFile(first: number, last: number): Promise<void>;
  /** Fills `into` from the file. Only what {@link holds} or {@link ensure} have spoken for may be used. */
  read(into: Buffer, position: number): Promise<number>;
  /** Compares the file with what it was when its pieces were verified. */
  examine(): Promise<FileFinding>;
  close(): Promise<void>;
}

/** Reads a piece from a file and compares it. @returns whether it is right, and, if not, whether it is just not there */
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
    // What was never written of a sparse file reads as zeros.
    return piece.subarray(0, count).equals(ZEROS.subarray(0, count)) ? 'absent' : 'wrong';
  } finally {
    givePieceBuffer(buffer);
    gate.leave(size);
  }
}

const ZEROS = Buffer.alloc(PIECE_BYTES);

/** SHA-256 of a file as far as the object goes, lower-case hex, and of its pieces. */
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
