import type { AnswerSink } from '../../../http/answer-sink.ts';
import type { VerifiedBuffer } from '../../verified-body.ts';

/** What of the memory tier is held by readers that do not take it, however long the tier has let go of it. */
export interface PinnedMemory {
  /** Whether one more object might be given out from memory: a forecast, for who has still to wait for it. */
  readonly hasRoom: boolean;
  /** Whether a body may be given to one more reader from memory: it is held anyway, or there is room for it. */
  allows(body: VerifiedBuffer): boolean;
  /** Notes that an answer holds a body, if it still does after everything was handed to the system. */
  watch(sink: Pick<AnswerSink, 'unsentBytes' | 'onceTaken'>, body: VerifiedBuffer): void;
  /** Of bodies of {@link PINNABLE_BYTES} and more never more than the budget, as long as nothing waits between `allows` and `watch`. */
  readonly bytes: number;
}

/** A body below this size goes out from memory in any case: reading it piece by piece would hold as much. */
const PINNABLE_BYTES = 64 * 1024;

/** Makes {@link PinnedMemory}. @param maxBytes beyond which bodies go out piece by piece from the disk */
export function createPinnedMemory(maxBytes: number): PinnedMemory {
  // By the buffer and not by its content: an object that the tier let go of and read again is in memory twice.
  const readers = new Map<VerifiedBuffer, number>();
  let total = 0;
  return {
    get hasRoom() {
      return total < maxBytes;
    },
    allows: (body) => body.length < PINNABLE_BYTES || total + body.length <= maxBytes || readers.has(body),
    watch(sink, body) {
      if (sink.unsentBytes === 0) return;
      const before = readers.get(body) ?? 0;
      if (before === 0) total += body.length;
      readers.set(body, before + 1);
      sink.onceTaken(() => {
        const left = (readers.get(body) ?? 1) - 1;
        if (left > 0) {
          readers.set(body, left);
          return;
        }
        readers.delete(body);
        total -= body.length;
      });
    },
    get bytes() {
      return total;
    },
  };
}
