/** Lowest and highest sample of each bin, 16 bits, signed. Bins have equal length; only the last may be shorter. */
export interface Peaks {
  readonly samplesPerBin: number;
  readonly lowest: Int16Array;
  readonly highest: Int16Array;
}

/** Enough for every size that a preset allows. If the audio is long enough, at least half of the bins are filled. */
const maxBins = 65_536;

/**
 * Collects samples as they arrive into at most {@link maxBins} pairs. When these are full, neighbours are joined, and each pair
 * then covers twice as many samples. So hours need no more memory than seconds, and the length need not be known beforehand.
 */
export function createPeakCollector(): { add(piece: Buffer): void; finish(): Peaks & { readonly samples: number } } {
  const lowest = new Int16Array(maxBins);
  const highest = new Int16Array(maxBins);
  let bins = 0;
  let samplesPerBin = 1;
  let inBin = 0;
  let low = 0;
  let high = 0;
  let samples = 0;
  /** The first byte of a sample whose second byte is still missing. */
  let odd: Buffer | null = null;

  const close = () => {
    lowest[bins] = low;
    highest[bins] = high;
    bins++;
    inBin = 0;
    if (bins < maxBins) return;
    for (let bin = 0; bin < maxBins / 2; bin++) {
      lowest[bin] = Math.min(lowest[bin * 2] ?? 0, lowest[bin * 2 + 1] ?? 0);
      highest[bin] = Math.max(highest[bin * 2] ?? 0, highest[bin * 2 + 1] ?? 0);
    }
    bins = maxBins / 2;
    samplesPerBin *= 2;
  };

  return {
    /** Adds 16-bit little-endian samples; a piece may end within one. */
    add(piece) {
      const whole: Buffer = odd === null ? piece : Buffer.concat([odd, piece]);
      const end = whole.length & ~1;
      odd = end < whole.length ? Buffer.from(whole.subarray(end)) : null;
      for (let at = 0; at < end; at += 2) {
        const sample = whole.readInt16LE(at);
        if (inBin === 0) low = high = sample;
        else if (sample < low) low = sample;
        else if (sample > high) high = sample;
        if (++inBin === samplesPerBin) close();
      }
      samples += end / 2;
    },
    finish() {
      if (inBin > 0) close();
      return { samplesPerBin, samples, lowest: lowest.slice(0, bins), highest: highest.slice(0, bins) };
    },
  };
}

/** Joins neighbours, so that each pair covers `factor` times as many samples. */
export function joinPeaks({ samplesPerBin, lowest, highest }: Peaks, factor: number): Peaks {
  const length = Math.ceil(lowest.length / factor);
  const joined = { lowest: new Int16Array(length), highest: new Int16Array(length) };
  for (let bin = 0; bin < length; bin++) {
    const [low, high] = rangeOf({ samplesPerBin, lowest, highest }, bin * factor, (bin + 1) * factor);
    joined.lowest[bin] = low;
    joined.highest[bin] = high;
  }
  return { samplesPerBin: samplesPerBin * factor, ...joined };
}

/** The lowest and highest sample of the bins from `from` to before `to`. */
export function rangeOf({ lowest, highest }: Peaks, from: number, to: number): [low: number, high: number] {
  let low = lowest[from] ?? 0;
  let high = highest[from] ?? 0;
  for (let bin = from + 1; bin < Math.min(to, lowest.length); bin++) {
    low = Math.min(low, lowest[bin] ?? 0);
    high = Math.max(high, highest[bin] ?? 0);
  }
  return [low, high];
}
