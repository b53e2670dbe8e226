import type { Random } from '../seeded-random.ts';

/** A request for a file, before the tags of a side are filled in. */
export interface MixedRequest {
  method: 'GET' | 'HEAD';
  /** Index of the file. */
  file: number;
  /** Header fields by their lower-case names; `{etag}` stands for the tag by which a side knows the file. */
  headers: Readonly<Record<string, string>>;
  /** Bytes of the body after which the reader leaves; null: it stays. */
  leavesAfter: number | null;
}

/** The facts of a file that the generator needs. */
export interface FileFacts {
  bytes: number;
  lastModifiedMs: number;
}

/** Makes the next random request. */
export function mixedRequest(random: Random, files: readonly FileFacts[]): MixedRequest {
  const below = (limit: number) => Math.floor(random() * limit);
  const oneOf = <T>(choices: readonly T[]): T => choices[below(choices.length)] as T;
  const chance = (share: number) => random() < share;

  const file = below(files.length);
  const { bytes, lastModifiedMs } = files[file] as FileFacts;
  const headers: Record<string, string> = {};
  if (chance(0.65)) {
    headers['range'] = range({ below, oneOf, chance }, bytes);
    if (chance(0.25)) headers['if-range'] = oneOf([tag, tag, date])({ below, oneOf, chance }, lastModifiedMs);
  }
  for (const [name, share, make] of CONDITIONS) {
    if (chance(share)) headers[name] = make({ below, oneOf, chance }, lastModifiedMs);
  }
  const method = chance(0.15) ? 'HEAD' : 'GET';
  return { method, file, headers, leavesAfter: method === 'GET' && chance(0.04) ? 1 + below(bytes) : null };
}

interface Dice {
  below(limit: number): number;
  oneOf<T>(choices: readonly T[]): T;
  chance(share: number): boolean;
}

const CONDITIONS: readonly [name: string, share: number, make: (dice: Dice, lastModifiedMs: number) => string][] = [
  ['if-none-match', 0.2, (dice, at) => (dice.chance(0.9) ? tags(dice, at) : malformedTags(dice))],
  ['if-match', 0.12, (dice, at) => (dice.chance(0.9) ? tags(dice, at) : malformedTags(dice))],
  ['if-modified-since', 0.2, date],
  ['if-unmodified-since', 0.12, date],
];

function tag({ oneOf }: Dice, _lastModifiedMs: number): string {
  return oneOf(['{etag}', '{etag}', 'W/{etag}', '"other"', 'W/"other"', '""']);
}

function tags(dice: Dice, lastModifiedMs: number): string {
  if (dice.chance(0.1)) return '*';
  const many = Array.from({ length: 1 + dice.below(3) }, () => tag(dice, lastModifiedMs));
  return many.join(dice.oneOf([', ', ',', ' , ']));
}

function malformedTags({ oneOf }: Dice): string {
  return oneOf(['other', '"other', 'w/"other"', "'other'", '"a" "b"']);
}

const DAY_MS = 86_400_000;

function date({ oneOf }: Dice, lastModifiedMs: number): string {
  const at = new Date(lastModifiedMs + oneOf([0, 0, 0, -1000, 1000, -DAY_MS, DAY_MS, -400 * DAY_MS]));
  return oneOf<(value: Date) => string>([
    imfFixdate,
    imfFixdate,
    imfFixdate,
    rfc850,
    asctime,
    () =>
      oneOf([
        'yesterday',
        '0',
        'Thu, 32 Jan 2026 00:00:00 GMT',
        '2026-01-01T00:00:00Z',
        'Thu, 01 Jan 2026 24:61:00 GMT',
      ]),
  ])(at);
}

const imfFixdate = (at: Date) => at.toUTCString();
const LONG_DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

function rfc850(at: Date): string {
  const [, day, month, year, time] = at.toUTCString().split(' ');
  return `${LONG_DAYS[at.getUTCDay()]}, ${day}-${month}-${year?.slice(2)} ${time} GMT`;
}

function asctime(at: Date): string {
  const [weekday, day, month, year, time] = at.toUTCString().split(' ');
  return `${weekday?.slice(0, 3)} ${month} ${day?.replace(/^0/, ' ')} ${time} ${year}`;
}

function range(dice: Dice, bytes: number): string {
  const { below, oneOf, chance } = dice;
  if (chance(0.12)) return oneOf(ODD_RANGES);
  const count = chance(0.55) ? 1 : chance(0.97) ? 2 + below(5) : 33 + below(10);
  const separator = oneOf([',', ', ', ' , ']);
  if (count > 1 && chance(0.5)) return `bytes=${apart(dice, bytes, count).join(separator)}`;
  return `bytes=${Array.from({ length: count }, () => stretch(dice, bytes)).join(separator)}`;
}

/** Ranges that neither overlap nor touch, in any order, if the file is large enough. */
function apart({ below, chance }: Dice, bytes: number, count: number): string[] {
  const share = Math.floor(bytes / count);
  if (share < 3) return ['0-0'];
  const ranges = Array.from({ length: count }, (_, index) => {
    const start = index * share + below(share - 2);
    return `${start}-${start + below((index + 1) * share - 1 - start)}`;
  });
  return chance(0.5) ? ranges : ranges.reverse();
}

function stretch({ below, oneOf }: Dice, bytes: number): string {
  const start = below(bytes + 1);
  const length = 1 + below(Math.min(bytes + 1, oneOf([10, 5_000, 2_000_000])));
  return oneOf([
    `${start}-${start + length - 1}`,
    `${start}-${start + length - 1}`,
    `${start}-`,
    `-${length}`,
    `-${bytes + below(3)}`,
    `${bytes + below(3)}-`,
    `${bytes}-${bytes + length}`,
    `${start}-${bytes - 1 + below(3)}`,
  ]);
}

/** Invalid and unusual ranges, and numbers that do not fit into a machine word. */
const ODD_RANGES = [
  'bytes=abc',
  'bytes=',
  'bytes=-',
  'bytes=--5',
  'bytes=5-2',
  'bytes=1-2-3',
  'bytes=0x1-5',
  'bytes=0 -5',
  'bytes= 0-5',
  'bytes=-0',
  'bytes=,0-1',
  'bytes=0-1,,4-5',
  'bytes=0-1,abc',
  'bytes=0-1,5-2',
  'Bytes=0-5',
  'items=0-5',
  'bytes 0-5',
  'bytes=0-99999999999999999999',
  'bytes=99999999999999999999-',
  'bytes=-99999999999999999999',
];
