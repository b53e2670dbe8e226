import { PIECE_BYTES } from '@mds/contract';

const MAX_SPARE = 32;
/** Buffers of a piece that nobody reads into now: fresh memory costs the system more than the read itself. */
const spare: Buffer[] = [];

/** A buffer for so many bytes, at most a piece, and perhaps for more; whatever it holds. */
export function takePieceBuffer(bytes = PIECE_BYTES): Buffer {
  if (bytes <= PIECE_BYTES / 2) return Buffer.allocUnsafeSlow(bytes);
  return spare.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
}

/** Takes a buffer of {@link takePieceBuffer} back. Only where nobody, the system included, reads from it any more. */
export function givePieceBuffer(buffer: Buffer): void {
  if (buffer.length === PIECE_BYTES && spare.length < MAX_SPARE) spare.push(buffer);
}
