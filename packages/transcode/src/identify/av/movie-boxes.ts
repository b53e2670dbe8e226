import { MediaRejectedError } from '../../errors.ts';
import type { Bytes } from '../bytes.ts';

/** The state of a container, read from its outermost structure. */
export interface Wholeness {
  /** The end of the file is missing. */
  readonly endsEarly: boolean;
  readonly encrypted: boolean;
}

/** Files have some boxes at the top; fragmented ones two for every second or so. */
const maxBoxes = 100_000;

/** ISO/IEC 14496-12, 4.2: `end` may lie beyond the file, or beyond the box around it, where something is missing. */
interface Box {
  type: string;
  start: number;
  end: number;
}

/**
 * What the boxes of an MP4 or QuickTime file tell: whether all of it is there, and whether it is encrypted.
 * @throws MediaRejectedError where the index is missing, without which nothing can be played
 */
export function readMovie(bytes: Bytes): Wholeness {
  const top = [...boxesIn(bytes, 0, bytes.size)];
  const index = top.find(({ type, end }) => type === 'moov' && end <= bytes.size);
  if (index === undefined) {
    throw new MediaRejectedError(
      'corrupt_media',
      'The video or sound is cut off: its index (the part named moov) is missing. Copy or send it again, completely.',
    );
  }
  const cutOff = top.some(({ type, end }) => end > bytes.size && topTypes.has(type));
  return { endsEarly: cutOff, encrypted: isEncrypted(bytes, index) };
}

/**
 * Boxes that stand at the top (ISO/IEC 14496-12, 6.2.3, and QuickTime's). What is none of them and reaches beyond the file is no
 * box that was cut off: something was appended, such as a line of text, whose first letters look like a size.
 */
const topTypes: ReadonlySet<string> = new Set(
  'ftyp styp pdin moov moof mfra mdat free skip wide pnot udta meta uuid sidx ssix prft emsg junk PICT'.split(' '),
);

/** ISO/IEC 23001-7: the sample entries of encrypted tracks are named `encv` and `enca`. ffmpeg shows the names within. */
function isEncrypted(bytes: Bytes, index: Box): boolean {
  let level: Box[] = [index];
  for (const type of ['trak', 'mdia', 'minf', 'stbl', 'stsd']) {
    level = level.flatMap((box) => [...boxesIn(bytes, box.start, box.end)].filter((inner) => inner.type === type));
  }
  // `stsd` counts its entries before they begin.
  const entries = level.flatMap(({ start, end }) => [...boxesIn(bytes, start + 8, end)]);
  return entries.some(({ type }) => type === 'encv' || type === 'enca');
}

/** The boxes of a stretch, one after the other. A size of 1 means that 64 bits follow, 0 that it is the rest. */
function* boxesIn(bytes: Bytes, start: number, end: number): Generator<Box> {
  let offset = start;
  for (let count = 0; count < maxBoxes && offset + 8 <= Math.min(end, bytes.size); count++) {
    const head = bytes.peek(offset, 16);
    const short = head.readUInt32BE(0);
    const type = head.toString('latin1', 4, 8);
    const long = short === 1;
    const size = long && head.length === 16 ? Number(head.readBigUInt64BE(8)) : short === 0 ? end - offset : short;
    const header = long ? 16 : 8;
    // Not a box: what follows is read by nobody.
    if (size < header) return;
    yield { type, start: offset + header, end: offset + size };
    offset += size;
  }
}
