/** Limits the bytes that are in use at a time. Callers wait in the order of their arrival. */
export interface ByteGate {
  /** Resolves when there is room. A request beyond the limit passes alone. Every `enter` needs a `leave` of the same bytes. */
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
