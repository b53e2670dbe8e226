import { type Random, seededRandom } from './seeded-random.ts';

/** An intact file to mutate. */
export interface Sample {
  /** Its name in reports, such as `mp4`. */
  name: string;
  bytes: Buffer;
}

/** A file made of one sample or two, with the same bytes for the same seed and number. */
export interface Mutant {
  /** Its name in reports, from which it can be made again: `mp4 splice #117`. */
  title: string;
  how: MutationName;
  bytes: Buffer<ArrayBuffer>;
}

/** The input of a mutation: the sample to change, another one to take pieces of, and random numbers. */
interface Material {
  bytes: Buffer;
  other: Buffer;
  random: Random;
}

/** Damage by accident or on purpose, whatever the result means. */
const mutations = {
  /** Flips up to 64 bits, as a bad cable or memory does. */
  flip_bits: ({ bytes, random }) => {
    const mutant = Buffer.from(bytes);
    for (let left = 1 + below(random, 64); left > 0; left--) {
      const at = below(random, mutant.length);
      mutant[at] = (mutant[at] ?? 0) ^ (1 << below(random, 8));
    }
    return mutant;
  },
  /** Sets up to 16 bytes to values on which comparisons and shifts fail. */
  set_extremes: ({ bytes, random }) => {
    const mutant = Buffer.from(bytes);
    for (let left = 1 + below(random, 16); left > 0; left--) {
      mutant[below(random, mutant.length)] = pick(random, [0, 1, 0x7f, 0x80, 0xfe, 0xff]);
    }
    return mutant;
  },
  /** Cuts the file, as an upload that broke off. */
  truncate: ({ bytes, random }) => bytes.subarray(0, below(random, bytes.length)),
  /** Removes a piece, so that offsets after it are wrong. */
  remove: ({ bytes, random }) => {
    const [start, end] = range(random, bytes.length);
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]);
  },
  /** Inserts or overwrites with a piece of another file. */
  splice: ({ bytes, other, random }) => {
    const [start, end] = range(random, other.length);
    const at = below(random, bytes.length);
    const goOn = random() < 0.5 ? at : Math.min(bytes.length, at + end - start);
    return Buffer.concat([bytes.subarray(0, at), other.subarray(start, end), bytes.subarray(goOn)]);
  },
  /** Changes a number of 2, 4 or 8 bytes that may be a length, a count or an offset, to an absurd value or by one. */
  lie_about_length: ({ bytes, random }) => {
    const mutant = Buffer.from(bytes);
    for (let left = 1 + below(random, 4); left > 0; left--) tellLength(mutant, random);
    return mutant;
  },
  /** Repeats a piece up to a megabyte: endless boxes, frames or tables. */
  repeat: ({ bytes, random }) => {
    const [start, end] = range(random, bytes.length);
    const piece = bytes.subarray(start, end);
    const times = 2 + below(random, Math.min(5_000, Math.ceil(1_000_000 / Math.max(1, piece.length))));
    return Buffer.concat([bytes.subarray(0, end), ...Array<Buffer>(times).fill(piece), bytes.subarray(end)]);
  },
  /** Joins the first bytes of one format with the rest of another. */
  swap_header: ({ bytes, other, random }) => {
    const head = pick(random, [4, 8, 12, 16, 32, 64, 256]);
    return Buffer.concat([other.subarray(0, head), bytes.subarray(head)]);
  },
  /** Joins two files, or wraps a file in a page, a script or an archive. */
  join: ({ bytes, other, random }) =>
    Buffer.concat(
      pick<Buffer[]>(random, [
        [bytes, other],
        [other, bytes],
        [bytes, MARKUP],
        [MARKUP, bytes],
        [PLAYLIST, bytes],
        [bytes, ARCHIVE],
        [Buffer.from('\ufeff'), bytes],
        [Buffer.alloc(1 + below(random, 4096)), bytes],
      ]),
    ),
  /** Fills a range with one value, as a failing disk does. */
  blank: ({ bytes, random }) => {
    const mutant = Buffer.from(bytes);
    const [start, end] = range(random, mutant.length);
    return mutant.fill(pick(random, [0, 0xff, 0xa5]), start, end);
  },
} satisfies Record<string, (material: Material) => Buffer>;

export type MutationName = keyof typeof mutations;

/** Every mutation. */
export const mutationNames = Object.keys(mutations) as MutationName[];

const MARKUP = Buffer.from('<html><script>alert(1)</script><svg xmlns="http://www.w3.org/2000/svg"/></html>');
const PLAYLIST = Buffer.from('#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n');
/** The local header of a ZIP file, and its end record. */
const ARCHIVE = Buffer.from('504b0304140000000800000000000000504b0506000000000000', 'hex');

/**
 * Makes the mutant of this seed and number. Samples and mutations take turns, so that each sample meets each mutation. Some mutants are
 * mutated again.
 */
export function mutantOf(samples: readonly Sample[], seed: number, number: number): Mutant {
  const random = seededRandom(Math.imul(seed, 0x9e37_79b1) ^ Math.imul(number + 1, 0x85eb_ca77));
  const sample = samples[number % samples.length];
  const how = mutationNames[Math.floor(number / samples.length) % mutationNames.length];
  if (!sample || !how) throw new RangeError('There are no samples to mutate.');
  let bytes: Buffer = sample.bytes;
  const rounds = random() < 0.2 ? 2 : 1;
  for (let round = 0; round < rounds; round++) {
    // An empty file has nothing to change.
    if (bytes.length === 0) break;
    const name = round === 0 ? how : pick(random, mutationNames);
    bytes = mutations[name]({ bytes, other: pick(random, samples).bytes, random });
  }
  return { title: `${sample.name} ${how} #${number}`, how, bytes: Buffer.from(bytes) };
}

/** Finds a number that may be a length, which is one not above twice the file's, and overwrites it. */
function tellLength(mutant: Buffer, random: Random): void {
  const size = pick(random, [2, 4, 4, 4, 8]);
  if (mutant.length < size) return;
  const isBigEndian = random() < 0.6;
  let at = below(random, mutant.length - size + 1);
  for (let tries = 0; tries < 200; tries++) {
    const value = read(mutant, at, size, isBigEndian);
    if (value > 0n && value <= BigInt(mutant.length * 2)) break;
    at = below(random, mutant.length - size + 1);
  }
  const value = read(mutant, at, size, isBigEndian);
  const most = (1n << BigInt(size * 8)) - 1n;
  const lie = pick(random, [
    0n,
    1n,
    value + 1n,
    value - 1n,
    value * 2n,
    most,
    most >> 1n,
    (most >> 1n) + 1n,
    most - 7n,
  ]);
  const field = Buffer.from((lie & most).toString(16).padStart(size * 2, '0'), 'hex');
  mutant.set(isBigEndian ? field : field.reverse(), at);
}

function read(bytes: Buffer, at: number, size: number, isBigEndian: boolean): bigint {
  const field = Buffer.from(bytes.subarray(at, at + size));
  return BigInt(`0x${(isBigEndian ? field : field.reverse()).toString('hex')}`);
}

/** Start and end of a piece; mostly a short one, sometimes nearly all. */
function range(random: Random, length: number): [number, number] {
  const start = below(random, length);
  const most = pick(random, [16, 256, 4096, length]);
  return [start, Math.min(length, start + 1 + below(random, most))];
}

function below(random: Random, limit: number): number {
  return Math.floor(random() * limit);
}

function pick<T>(random: Random, values: readonly T[]): T {
  const value = values[below(random, values.length)];
  if (value === undefined) throw new RangeError('There is nothing to pick from.');
  return value;
}
