/** Lets so many bytes be under way at a time; who wants more waits, first come, first served. */
export interface ByteGate {
  /** Resolves when there is room; what is larger than all room passes alone. Give back what was taken with `leave`. */
  enter(bytes: number): Promise<void>;
  leave(bytes: number): void;
  readonly used: number;
}

/** Makes a {@link ByteGate}. */
export function createByteGate(maxBytes: number): ByteGate {
  const waiting: { bytes: number; pass: () => void }[] = [];
  let used = 0;
  const fits = (bytes: number) => used === 0 || used + bytes <= maxBytes;
  return {
    enter(bytes) {
      if (waiting.length === 0 && fits(bytes)) {
        used += bytes;
        return Promise.resolve();
      }
      return new Promise((pass) => waiting.push({ bytes, pass }));
    },

    leave(bytes) {
      used -= bytes;
      for (let next = waiting[0]; next && fits(next.bytes); next = waiting[0]) {
        waiting.shift();
        used += next.bytes;
        next.pass();
      }
    },

    get used() {
      return used;
    },
  };
}
