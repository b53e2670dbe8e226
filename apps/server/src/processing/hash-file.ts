import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { PIECE_BYTES } from '@mds/contract';

/** The hashes and the size by which a file is recorded. */
export interface FileDigests {
  /** SHA-256 of the whole file, in lower-case hex. */
  sha256: string;
  bytes: number;
  /** SHA-256 of each piece of `PIECE_BYTES`, 32 bytes each; null if the file is one piece. */
  pieces: Buffer | null;
}

/** Reads a file once and takes the SHA-256 of it and of its pieces. Aborting throws the signal's AbortError. */
export async function hashFile(path: string, signal?: AbortSignal): Promise<FileDigests> {
  const whole = createHash('sha256');
  const pieces: Buffer[] = [];
  let piece = createHash('sha256');
  let filled = 0;
  let bytes = 0;
  const endPiece = () => {
    pieces.push(piece.digest());
    piece = createHash('sha256');
    filled = 0;
  };
  for await (const chunk of createReadStream(path, { highWaterMark: PIECE_BYTES, ...(signal && { signal }) })) {
    const read = chunk as Buffer;
    whole.update(read);
    bytes += read.length;
    // A stream may return less than it was asked for; the bounds of the pieces are fixed.
    for (let at = 0; at < read.length; ) {
      const part = read.subarray(at, at + PIECE_BYTES - filled);
      piece.update(part);
      filled += part.length;
      at += part.length;
      if (filled === PIECE_BYTES) endPiece();
    }
  }
  if (filled > 0) endPiece();
  return { sha256: whole.digest('hex'), bytes, pieces: bytes > PIECE_BYTES ? Buffer.concat(pieces) : null };
}
