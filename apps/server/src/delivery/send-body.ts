import type { FileHandle } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import type { ByteRange } from './byte-ranges.ts';
import type { VerifiedFile } from './verified-body.ts';

const LARGEST_PIECE = 1024 * 1024;
const SMALLEST_PIECE = 64 * 1024;
/** Memory that the pieces of all files under way share, roughly. */
const PIECES_BUDGET = 16 * 1024 * 1024;
/** How long a reader may take nothing at all before its connection is given up. */
const STALL_MS = 120_000;

/** A part of a body: bytes as they are, or a range of the file. */
export type BodyPart = Buffer | ByteRange;

let filesUnderWay = 0;
/** Pieces of the largest size that nobody reads into now: fresh memory costs the system more than the read itself. */
const spare: Buffer[] = [];
const MAX_SPARE = PIECES_BUDGET / LARGEST_PIECE;

/** A reader who never empties its buffer holds one piece, so that many readers get smaller ones. */
function pieceBytes(): number {
  const share = PIECES_BUDGET / filesUnderWay;
  return Math.max(SMALLEST_PIECE, Math.min(LARGEST_PIECE, 2 ** Math.floor(Math.log2(share))));
}

function takePiece(bytes: number): Buffer {
  if (bytes <= LARGEST_PIECE / 2) return Buffer.allocUnsafeSlow(bytes);
  return spare.pop() ?? Buffer.allocUnsafeSlow(LARGEST_PIECE);
}

/** Gives a connection up whose reader takes nothing for two minutes. */
export function giveUpWhenStalled(response: ServerResponse): void {
  response.setTimeout(STALL_MS, () => response.destroy());
}

/**
 * Sends parts of a file, a piece at a time: the next one is read when the reader has taken the last.
 * Resolves when everything is sent or the reader is gone. Closes the file in any case.
 * @returns bytes handed over
 * @throws where the file can't be read; the response is incomplete then and must be destroyed
 */
export async function sendFile(
  response: ServerResponse,
  file: VerifiedFile,
  parts: readonly BodyPart[],
): Promise<number> {
  filesUnderWay += 1;
  let sent = 0;
  try {
    giveUpWhenStalled(response);
    const piece = takePiece(Math.min(pieceBytes(), largestPart(parts)));
    for (const part of parts) {
      if (Buffer.isBuffer(part)) {
        if (!(await write(response, part))) return sent;
        sent += part.length;
        continue;
      }
      let position = part.start;
      while (position <= part.end) {
        const read = await fill(file.handle, piece, position, part.end - position + 1);
        if (!(await write(response, read))) return sent;
        position += read.length;
        sent += read.length;
      }
    }
    response.end();
    // Only here: where the reader left, the system may still be reading from the piece.
    if (piece.length === LARGEST_PIECE && spare.length < MAX_SPARE) spare.push(piece);
    return sent;
  } finally {
    filesUnderWay -= 1;
    await file.close();
  }
}

function largestPart(parts: readonly BodyPart[]): number {
  return Math.max(1, ...parts.map((part) => (Buffer.isBuffer(part) ? 0 : part.end - part.start + 1)));
}

async function fill(handle: FileHandle, piece: Buffer, position: number, wanted: number): Promise<Buffer> {
  const { bytesRead } = await handle.read(piece, 0, Math.min(piece.length, wanted), position);
  if (bytesRead === 0) throw new Error('The file ended before its recorded size.');
  return piece.subarray(0, bytesRead);
}

/** Writes and waits until the operating system has the bytes, so that the piece may be used again. False: the reader is gone. */
function write(response: ServerResponse, bytes: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    if (response.destroyed || response.closed) {
      resolve(false);
      return;
    }
    const gone = () => resolve(false);
    response.once('close', gone);
    response.write(bytes, (error) => {
      response.off('close', gone);
      resolve(!error);
    });
  });
}
