import type { ServerResponse } from 'node:http';
import { PIECE_BYTES } from '@mds/contract';
import type { ByteRange } from './byte-ranges.ts';
import { givePieceBuffer, takePieceBuffer } from './cache/disk/piece-file.ts';
import type { ObjectReader } from './cache/object-reader.ts';

const SMALLEST_STRETCH = 32 * 1024;
/** Memory for the bodies under way; beyond it each gets the smallest stretches. */
const STRETCHES_BUDGET = 34 * 1024 * 1024;
/** What one body may take of what is left, so that there is always something left for the next. */
const LARGEST_SHARE = 1 / 2;
/** How long a reader may take nothing at all before its connection is given up. */
export const STALL_MS = 120_000;

/** A part of a body: bytes as they are, or a range of the object. */
export type BodyPart = Buffer | ByteRange;

/** Of all buffers of bodies under way. */
let bytesUnderWay = 0;

/** A reader may never empty its buffers, and keeps those that it has, so that what is left is shared out and not what there is. */
function stretchBytes(buffers: number): number {
  const share = ((STRETCHES_BUDGET - bytesUnderWay) * LARGEST_SHARE) / buffers;
  // Whole pieces as long as that is affordable: they come out of a pool, and fresh memory costs more than the read.
  if (share >= PIECE_BYTES) return PIECE_BYTES;
  // More than half a piece would take a whole one out of the pool.
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
 * Sends parts of an object. While one stretch is on its way to the reader the next one is read, and no more than that.
 * Resolves when everything is sent or the reader is gone. Closes the object's reader in any case.
 * @param begin writes the head; called once the first bytes of the object are there, unless the reader has left
 * @returns bytes handed over
 * @throws where the object can't be read; if the head is written, the response is incomplete and must be destroyed
 */
export async function sendObject(
  response: ServerResponse,
  object: ObjectReader,
  parts: readonly BodyPart[],
  begin: () => void,
): Promise<number> {
  // What is no more than a stretch needs no second buffer.
  const buffersNeeded = largestPart(parts) > PIECE_BYTES ? 2 : 1;
  const bytes = Math.min(stretchBytes(buffersNeeded), largestPart(parts));
  const bufferBytes = buffersNeeded * bytes;
  bytesUnderWay += bufferBytes;
  const buffers = createBufferPair(bytes);
  /** What stands before the first bytes of the object: those decide whether there is an answer at all. */
  const leading: Buffer[] = [];
  let begun = false;
  let sent = 0;
  let writing: Promise<boolean> = Promise.resolve(true);
  /** Hands bytes over when those before them are with the system. False: the reader is gone. */
  const hand = async (next: Buffer): Promise<boolean> => {
    if (!(await writing)) return false;
    writing = write(response, next);
    sent += next.length;
    return true;
  };
  try {
    for (const stretch of stretchesOf(parts, bytes)) {
      if (Buffer.isBuffer(stretch)) {
        if (!begun) leading.push(stretch);
        else if (!(await hand(stretch))) return sent;
        continue;
      }
      for (let at = 0; at < stretch.length; ) {
        const read = await object.read(buffers.next(), stretch.position + at, stretch.length - at);
        at += read.length;
        if (!begun) {
          if (response.destroyed) return sent;
          begun = true;
          begin();
          response.setTimeout(STALL_MS, () => response.destroy());
          for (const buffer of leading) await hand(buffer);
        }
        if (!(await hand(read))) return sent;
      }
    }
    if (!begun) {
      if (response.destroyed) return sent;
      begin();
      for (const buffer of leading) await hand(buffer);
    }
    if (!(await writing)) return sent;
    response.end();
    // Only here: where the reader left, the system may still be reading from them.
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

/** Writes and waits until the operating system has the bytes, so that the buffer may be used again. False: the reader is gone. */
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
