import type { AnswerSink } from '../../../http/answer-sink.ts';
import type { VerifiedBuffer } from '../../verified-body.ts';

/**
 * Pieces of the memory tier that slow readers hold, even after the tier has evicted them. Pieces of at least
 * {@link PINNABLE_BYTES} never hold more than the budget, as long as nothing is awaited between `allows` and `watch`.
 */
export interface PinnedMemory {
  /** Whether another piece may be sent from memory. Only a forecast for requests that still have to wait for it. */
  readonly hasRoom: boolean;
  /** Whether one more reader may be sent these pieces from memory: readers hold them already, or there is room. */
  allows(pieces: readonly VerifiedBuffer[]): boolean;
  /** Counts the pieces until the system has taken the whole answer. Counts nothing if it has done so already. */
  watch(sink: Pick<AnswerSink, 'unsentBytes' | 'onceTaken'>, pieces: readonly VerifiedBuffer[]): void;
  readonly bytes: number;
}

/** A smaller piece is always sent from memory: reading it from the disk would hold as much. */
const PINNABLE_BYTES = 64 * 1024;

/** Makes {@link PinnedMemory}. @param maxBytes beyond this, bodies are read from the disk piece by piece */
export function createPinnedMemory(maxBytes: number): PinnedMemory {
  // By buffer, not by content: a piece that was evicted and read again is in memory twice.
  const readers = new Map<VerifiedBuffer, number>();
  let total = 0;

  const release = (piece: VerifiedBuffer): void => {
    const left = (readers.get(piece) ?? 1) - 1;
    if (left > 0) {
      readers.set(piece, left);
      return;
    }
    readers.delete(piece);
    total -= piece.length;
  };

  return {
    get hasRoom() {
      return total < maxBytes;
    },

    allows(pieces) {
      let more = 0;
      for (const piece of pieces) if (piece.length >= PINNABLE_BYTES && !readers.has(piece)) more += piece.length;
      return more === 0 || total + more <= maxBytes;
    },

    watch(sink, pieces) {
      if (sink.unsentBytes === 0) return;
      for (const piece of pieces) {
        const before = readers.get(piece) ?? 0;
        if (before === 0) total += piece.length;
        readers.set(piece, before + 1);
      }
      sink.onceTaken(() => {
        for (const piece of pieces) release(piece);
      });
    },

    get bytes() {
      return total;
    },
  };
}
