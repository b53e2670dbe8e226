import { PIECE_BYTES } from '@mds/contract';
import { ObjectDamagedError, readFromVerified, type VerifiedBuffer } from '../verified-body.ts';
import type { PieceFile } from './disk/piece-file.ts';

/** Reads the verified bytes of one object for one answer. */
export interface ObjectReader {
  /**
   * Reads from `position` on, at most `length` bytes and at most what fits into `into`. The result may be shorter, and may be
   * another buffer.
   * @throws ObjectDamagedError, OriginUnavailableError
   */
  read(into: Buffer, position: number, length: number): Promise<VerifiedBuffer>;
  /** To be called after the last read. Further calls have no effect. */
  close(): void;
}

/** A file is trusted to be unchanged for this time: only an intruder would change it. */
const TRUSTED_MS = 1_000;
/** How often a file may turn out to be another one during an answer. */
const MAX_REOPENINGS = 3;

/**
 * {@link ObjectReader} over a file of pieces. The file is compared with its recorded state at the first read, and every second after.
 * @param file held for this reader
 * @param parts.first the first piece that the answer needs
 * @param parts.last the last piece that the answer needs
 * @param parts.loose the first piece, if the file could not take it
 */
export function createObjectReader(
  file: PieceFile,
  parts: {
    first: number;
    last: number;
    loose: VerifiedBuffer | null;
    /** Opens the object's file as it is now, held for this reader. Nobody may use `stale` any more. */
    reopen: (stale: PieceFile) => Promise<PieceFile>;
    release: (file: PieceFile) => void;
    /** Receives each error. @returns the error to throw */
    report: (error: unknown) => unknown;
  },
): ObjectReader {
  const { last, reopen, release, report } = parts;
  let current = file;
  let examinedMs = Number.NEGATIVE_INFINITY;
  let reopenings = 0;
  let isClosed = false;
  /** A piece that the file could not take, and that the answer uses bit by bit. */
  let loose = parts.loose && { index: parts.first, piece: parts.loose };

  const takeLoose = (position: number, length: number): VerifiedBuffer | null => {
    if (loose === null || loose.index !== Math.floor(position / PIECE_BYTES)) return null;
    const offset = position - loose.index * PIECE_BYTES;
    return loose.piece.subarray(offset, offset + length) as VerifiedBuffer;
  };

  /** Obtains the pieces from `from` to `to`. @returns the last of them that is in the file; `from - 1` if none is */
  const obtain = async (from: number, to: number): Promise<number> => {
    for (let index = from; index <= to; index += 1) {
      if (current.holds(index, index)) continue;
      const piece = await current.ensure(index, last);
      if (piece === null) continue;
      loose = { index, piece };
      return index - 1;
    }
    return to;
  };

  /** Reads from the file. Null: it is another file by now. */
  const readFile = async (view: Buffer, position: number): Promise<VerifiedBuffer | null> => {
    const now = performance.now();
    const isFirst = examinedMs === Number.NEGATIVE_INFINITY;
    const mustExamine = now - examinedMs > TRUSTED_MS;
    if (mustExamine) examinedMs = now;
    // Both at the same time: no reader of a file can exclude a change in the microseconds between the two.
    const [count, finding] = await Promise.all([
      current.read(view, position),
      mustExamine ? current.examine() : ('same' as const),
    ]);
    // A file that is deleted during an answer stays readable. A new answer must use the file that is there now.
    const isUsable = finding === 'same' || (finding === 'unlinked' && !isFirst);
    return isUsable && count === view.length ? readFromVerified(view) : null;
  };

  const replaceFile = async (): Promise<void> => {
    reopenings += 1;
    if (reopenings > MAX_REOPENINGS) throw new ObjectDamagedError(current.object, 'changes while it is read');
    examinedMs = Number.NEGATIVE_INFINITY;
    current = await reopen(current);
    if (isClosed) release(current);
  };

  const read: ObjectReader['read'] = async (into, position, length) => {
    const wanted = Math.min(length, into.length);
    const from = Math.floor(position / PIECE_BYTES);
    const to = Math.floor((position + wanted - 1) / PIECE_BYTES);
    for (;;) {
      const ready = takeLoose(position, wanted);
      if (ready !== null) return ready;
      loose = null;
      const until = current.holds(from, to) ? to : await obtain(from, to);
      if (until < from) continue;
      const view = into.subarray(0, until === to ? wanted : (until + 1) * PIECE_BYTES - position);
      const bytes = await readFile(view, position);
      if (bytes === null) {
        await replaceFile();
        continue;
      }
      if (to < last) current.readAhead(to + 1, last);
      return bytes;
    }
  };

  return {
    read: (into, position, length) =>
      read(into, position, length).catch((error: unknown) => {
        throw report(error);
      }),

    close() {
      if (isClosed) return;
      isClosed = true;
      release(current);
    },
  };
}
