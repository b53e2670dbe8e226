import type { ServerResponse } from 'node:http';
import { PIECE_BYTES } from '@mds/contract';
import type { ByteRange } from './byte-ranges.ts';
import { givePieceBuffer, takePieceBuffer } from './cache/disk/piece-file.ts';
import type { ObjectReader } from './cache/object-reader.ts';

const SMALLEST_STRETCH = 32 * 1024;
/** Memory for the bodies in progress. Beyond it, each body gets the smallest stretches. */
const STRETCHES_BUDGET = 34 * 1024 * 1024;
/** Share of the remaining memory that one body may take, so that some is always left for the next one. */
const LARGEST_SHARE = 1 / 2;
/** A reader that takes nothing for this time is given up. */
export const STALL_MS = 120_000;

/** A part of a body: bytes as they are, or a range of the object. */
export type BodyPart = Buffer | ByteRange;

/** Size of all buffers of bodies in progress. */
let bytesUnderWay = 0;

/** Shares the remaining memory, not all of it, because a slow reader keeps the buffers that it has. */
function stretchBytes(buffers: number): number {
  const share = ((STRETCHES_BUDGET - bytesUnderWay) * LARGEST_SHARE) / buffers;
  // Whole pieces if possible: they come from a pool, and fresh memory costs more than the read.
  if (share >= PIECE_BYTES) return PIECE_BYTES;
  // More than half a piece would take a whole one from the pool.
  const affordable = Math.min(PIECE_BYTES / 2, Math.floor(share / SMALLEST_STRETCH) * SMALLEST_STRETCH);
  return Math.max(SMALLEST_STRETCH, affordable);
}

/** A part cut into stretches that are read and written one at a time. */
type Stretch = Buffer | { position: number; length: number };

function* stretchesOf(parts: readonly BodyPart[], bytes: number): Generator<Stretch> {
  for (const part of parts) {
    if (Buffer.isBuffer(part)) {
      yield part;
      continue;
    }
    for (let position = part.start; position <= part.end; position += bytes) {
      yield { position, length: Math.min(bytes, part.end - position + 1) };
    }
  }
}

/**
 * Sends parts of an object. The next stretch is read while one is being written, and no more than that.
 * Resolves when everything is sent or the client is gone. Always closes the object's reader.
 * @param begin writes the head; called when the first bytes of the object are there, unless the client has left
 * @returns bytes handed over
 * @throws if the object cannot be read; if the head is written, the response is incomplete and must be destroyed
 */
export async function sendObject(
  response: ServerResponse,
  object: ObjectReader,
  parts: readonly BodyPart[],
  begin: () => void,
): Promise<number> {
  // A part of at most one stretch needs no second buffer.
  const buffersNeeded = largestPart(parts) > PIECE_BYTES ? 2 : 1;
  const bytes = Math.min(stretchBytes(buffersNeeded), largestPart(parts));
  const bufferBytes = buffersNeeded * bytes;
  bytesUnderWay += bufferBytes;
  const buffers = createBufferPair(bytes);
  /** Bytes before the first ones of the object. They wait, because a failed read must still become an error answer. */
  const leading: Buffer[] = [];
  let isBegun = false;
  let sent = 0;
  let writing: Promise<boolean> = Promise.resolve(true);
  /** Writes bytes when the system has taken those before them. False: the client is gone. */
  const hand = async (next: Buffer): Promise<boolean> => {
    if (!(await writing)) return false;
    writing = write(response, next);
    sent += next.length;
    return true;
  };
  try {
    for (const stretch of stretchesOf(parts, bytes)) {
      if (Buffer.isBuffer(stretch)) {
        if (!isBegun) leading.push(stretch);
        else if (!(await hand(stretch))) return sent;
        continue;
      }
      for (let at = 0; at < stretch.length; ) {
        const read = await object.read(buffers.next(), stretch.position + at, stretch.length - at);
        at += read.length;
        if (!isBegun) {
          if (response.destroyed) return sent;
          isBegun = true;
          begin();
          response.setTimeout(STALL_MS, () => response.destroy());
          for (const buffer of leading) await hand(buffer);
        }
        if (!(await hand(read))) return sent;
      }
    }
    if (!isBegun) {
      if (response.destroyed) return sent;
      begin();
      for (const buffer of leading) await hand(buffer);
    }
    if (!(await writing)) return sent;
    response.end();
    // Not after an early return: the system may still be reading from them.
    buffers.giveBack();
    return sent;
  } finally {
    bytesUnderWay -= bufferBytes;
    object.close();
  }
}

function createBufferPair(bytes: number) {
  const pair: Buffer[] = [];
  let turn = 0;
  return {
    next(): Buffer {
      turn = 1 - turn;
      pair[turn] ??= takePieceBuffer(bytes);
      return (pair[turn] as Buffer).subarray(0, bytes);
    },
    giveBack(): void {
      for (const buffer of pair) if (buffer) givePieceBuffer(buffer);
    },
  };
}

function largestPart(parts: readonly BodyPart[]): number {
  return Math.max(1, ...parts.map((part) => (Buffer.isBuffer(part) ? 0 : part.end - part.start + 1)));
}

/** Writes and waits until the system has taken the bytes, so that the buffer may be reused. False: the client is gone. */
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
