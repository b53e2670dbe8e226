import { PIECE_BYTES } from '@mds/contract';
import { ObjectDamagedError, readFromVerified, type VerifiedBuffer } from '../verified-body.ts';
import type { FileFinding, PieceFile } from './disk/piece-file.ts';

/** Bytes of one object for one answer, verified before they are given out. */
export interface ObjectReader {
  /**
   * Reads from `position` on, at most `length` bytes and what `into` has room for; it may be fewer, and another buffer.
   * @throws ObjectDamagedError, OriginUnavailableError
   */
  read(into: Buffer, position: number, length: number): Promise<VerifiedBuffer>;
  /** Called by whoever has read its last; once is enough. */
  close(): void;
}

/** How long a file is trusted to be what it was: changes meanwhile are those that nobody but an intruder makes. */
const TRUSTED_MS = 1_000;
/** Times that a file may turn out to be another one in the middle of an answer. */
const REOPENINGS = 3;

/**
 * {@link ObjectReader} over a file of pieces. The file is compared with what it was at the first read, and every second from then on.
 * @param file held for this reader
 * @param parts.last the last piece that the answer needs
 */
export function createObjectReader(
  file: PieceFile,
  parts: {
    last: number;
    /** The object's file as it is now, held for this reader. @param stale is not to be used by anybody any more */
    reopen: (stale: PieceFile) => Promise<PieceFile>;
    release: (file: PieceFile) => void;
    /** Told of what goes wrong. */
    report: (error: unknown) => unknown;
  },
): ObjectReader {
  const { last, reopen, release, report } = parts;
  let current = file;
  let examinedMs = Number.NEGATIVE_INFINITY;
  let reopenings = 0;
  let closed = false;
  /** A piece that no file could take, and that is asked for bit by bit. */
  let handed: { index: number; piece: VerifiedBuffer } | null = null;

  const take = (position: number, length: number): VerifiedBuffer | null => {
    if (handed === null || handed.index !== Math.floor(position / PIECE_BYTES)) return null;
    const offset = position - handed.index * PIECE_BYTES;
    return handed.piece.subarray(offset, offset + length) as VerifiedBuffer;
  };

  /** Obtains the pieces from `from` to `to`. @returns the last of them that can be read from the file; before `from`: none */
  const obtain = async (from: number, to: number): Promise<number> => {
    for (let index = from; index <= to; index += 1) {
      if (current.holds(index, index)) continue;
      const piece = await current.ensure(index, last);
      if (piece === null) continue;
      handed = { index, piece };
      return index - 1;
    }
    return to;
  };

  const read: ObjectReader['read'] = async (into, position, length) => {
    for (;;) {
      const ready = take(position, Math.min(length, into.length));
      if (ready !== null) return ready;
      handed = null;
      const wanted = Math.min(length, into.length);
      const from = Math.floor(position / PIECE_BYTES);
      const to = Math.floor((position + wanted - 1) / PIECE_BYTES);
      const until = current.holds(from, to) ? to : await obtain(from, to);
      if (until < from) continue;
      const view = until === to ? into.subarray(0, wanted) : into.subarray(0, (until + 1) * PIECE_BYTES - position);
      const now = performance.now();
      const isFirst = examinedMs === Number.NEGATIVE_INFINITY;
      const examine = now - examinedMs > TRUSTED_MS;
      if (examine) examinedMs = now;
      // At the same time: a change in the microseconds between the two is one that no reader of a file can exclude.
      const [count, finding] = await Promise.all([
        current.read(view, position),
        examine ? current.examine() : ('same' as FileFinding),
      ]);
      // What was deleted while it is being read stays readable to its reader; whoever begins looks for what is there now.
      const usable = finding === 'same' || (finding === 'unlinked' && !isFirst);
      if (usable && count === view.length) {
        if (to < last) current.readAhead(to + 1, last);
        return readFromVerified(view);
      }
      reopenings += 1;
      if (reopenings > REOPENINGS) throw new ObjectDamagedError(current.object, 'changes while it is read');
      examinedMs = Number.NEGATIVE_INFINITY;
      const stale = current;
      current = await reopen(stale);
      if (closed) release(current);
    }
  };

  return {
    read: (into, position, length) =>
      read(into, position, length).catch((error: unknown) => {
        throw report(error);
      }),

    close() {
      if (closed) return;
      closed = true;
      release(current);
    },
  };
}
