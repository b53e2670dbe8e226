import type { Bytes } from '../bytes.ts';
import { CorruptHeaderError, endsEarlyWarning, type ImageHeader, OtherFormatError } from './header.ts';

const maxPages = 10_000;
const maxEntries = 4_096;

/** Offsets and lengths of strips and tiles: the only relevant tags with more than a few values. */
const listTags: ReadonlySet<number> = new Set([273, 279, 324, 325]);

interface Directory {
  tags: Map<number, number[]>;
  next: number;
}

/** Reads the directories of a TIFF (TIFF 6.0) or BigTIFF; pages after the first are only counted. */
export function readTiffHeader(bytes: Bytes): ImageHeader {
  const little = bytes.take(0, 2).toString('latin1') === 'II';
  const reader = tiffReader(bytes, little);
  const first = reader.directory(reader.first);
  const value = (tag: number) => first.tags.get(tag)?.[0];
  const width = value(256);
  const height = value(257);
  if (!width || !height) throw new CorruptHeaderError('its first page has no size.');
  // DNG names its version. Other camera raw files have a small preview as first page and the image in SubIFDs.
  if (first.tags.has(50_706) || ((value(254) ?? 0) & 1 && first.tags.has(330)))
    throw new OtherFormatError('a camera raw file');

  let pages = 1;
  const seen = new Set([reader.first]);
  for (let next = first.next; next !== 0 && !seen.has(next) && pages < maxPages; pages++) {
    seen.add(next);
    // An unreadable page does not matter, because only the first page is used.
    if (next + 8 > bytes.size) break;
    next = reader.next(next);
  }

  const photometric = value(262) ?? 1;
  const samples = value(277) ?? 1;
  const colours = photometric === 5 ? 4 : photometric === 0 || photometric === 1 || photometric === 3 ? 1 : 3;
  const icc = first.tags.has(34_675);
  const orientation = value(274) ?? 1;
  const warnings: string[] = [];
  if (pages > 1) warnings.push(`The TIFF has ${pages === maxPages ? 'many' : pages} pages; only the first is used.`);
  if (stripsEnd(first) > bytes.size) warnings.push(endsEarlyWarning);
  return {
    format: 'tiff',
    codec: 'tiff',
    width,
    height,
    orientation: orientation >= 1 && orientation <= 8 ? orientation : 1,
    frames: 1,
    durationMs: null,
    hasAlpha: samples > colours && first.tags.has(338),
    bitDepth: value(258) ?? 1,
    colorSpace: photometricNames.get(photometric) ?? (icc ? 'rgb' : 'srgb'),
    icc,
    warnings,
  };
}

const photometricNames = new Map([
  [0, 'gray'],
  [1, 'gray'],
  [5, 'cmyk'],
  [8, 'lab'],
  [9, 'lab'],
]);

/** End of the last strip or tile, as far as the first values of offsets and lengths show it. */
function stripsEnd({ tags }: Directory): number {
  const offsets = tags.get(273) ?? tags.get(324) ?? [];
  const lengths = tags.get(279) ?? tags.get(325) ?? [];
  return offsets.reduce((end, offset, index) => Math.max(end, offset + (lengths[index] ?? 0)), 0);
}

function tiffReader(bytes: Bytes, little: boolean) {
  const u16 = little ? bytes.u16le : bytes.u16be;
  const u32 = little ? bytes.u32le : bytes.u32be;
  const u64 = (offset: number) => {
    const [low, high] = little ? [u32(offset), u32(offset + 4)] : [u32(offset + 4), u32(offset)];
    return high * 2 ** 32 + low;
  };
  const big = u16(2) === 43;
  const word = big ? u64 : u32;
  const wordBytes = big ? 8 : 4;

  const readers = new Map<number, { size: number; read: (offset: number) => number }>([
    [1, { size: 1, read: bytes.u8 }],
    [3, { size: 2, read: u16 }],
    [4, { size: 4, read: u32 }],
    [13, { size: 4, read: u32 }],
    [16, { size: 8, read: u64 }],
    [18, { size: 8, read: u64 }],
  ]);

  const entryBytes = 4 + 2 * wordBytes;

  const locate = (offset: number) => {
    const count = big ? u64(offset) : u16(offset);
    if (count === 0 || count > maxEntries)
      throw new CorruptHeaderError(`the directory at byte ${offset} has ${count} entries.`);
    const start = offset + (big ? 8 : 2);
    const after = start + count * entryBytes;
    return { count, start, next: after + wordBytes <= bytes.size ? word(after) : 0 };
  };

  return {
    first: word(big ? 8 : 4),
    next: (offset: number): number => locate(offset).next,
    directory(offset: number): Directory {
      const { count, start, next } = locate(offset);
      const tags = new Map<number, number[]>();
      for (let index = 0; index < count; index++) {
        const entry = start + index * entryBytes;
        const tag = u16(entry);
        const reader = readers.get(u16(entry + 2));
        const values = word(entry + 4);
        const read = Math.min(values, listTags.has(tag) ? 65_536 : 16);
        const inline = reader && values * reader.size <= wordBytes;
        const at = inline ? entry + 4 + wordBytes : word(entry + 4 + wordBytes);
        const fits = reader && at + read * reader.size <= bytes.size;
        tags.set(tag, fits ? Array.from({ length: read }, (_, item) => reader.read(at + item * reader.size)) : []);
      }
      return { tags, next };
    },
  };
}
