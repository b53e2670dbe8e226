import { MediaRejectedError } from '../../errors.ts';
import type { Bytes } from '../bytes.ts';

/** The state of a container, as its outermost structure shows it. */
export interface Wholeness {
  /** The end of the file is missing. */
  readonly endsEarly: boolean;
  readonly encrypted: boolean;
}

/** Boxes that are read at the top, and in the index. Most files have a few; fragmented files have two for every second or so. */
const maxBoxes = 100_000;

/** ISO/IEC 14496-12, 4.2. If data is missing, `end` may lie beyond the file or the enclosing box. */
interface Box {
  type: string;
  start: number;
  end: number;
}

/**
 * Reads from the boxes of an MP4 or QuickTime file whether it is complete and whether it is encrypted.
 * @throws MediaRejectedError if the index is missing, without which nothing can be played
 */
export function readMovie(bytes: Bytes): Wholeness {
  const top = [...boxesIn(bytes, 0, bytes.size)];
  const index = top.find(({ type, end }) => type === 'moov' && end <= bytes.size);
  if (index === undefined) {
    throw new MediaRejectedError(
      'corrupt_media',
      'The video or audio file is cut off: its index (the part named moov) is missing. Copy or send the complete file again.',
    );
  }
  const cutOff = top.some(({ type, end }) => end > bytes.size && topTypes.has(type));
  return { endsEarly: cutOff, encrypted: isEncrypted(bytes, index) };
}

/**
 * Boxes at the top level (ISO/IEC 14496-12, 6.2.3, and QuickTime's). Any other "box" that reaches beyond the file is appended
 * data, such as a line of text, whose first letters look like a size.
 */
const topTypes: ReadonlySet<string> = new Set(
  'ftyp styp pdin moov moof mfra mdat free skip wide pnot udta meta uuid sidx ssix prft emsg junk PICT'.split(' '),
);

/** ISO/IEC 23001-7: the sample entries of encrypted tracks are named `encv` and `enca`. ffmpeg reports the inner names. */
function isEncrypted(bytes: Bytes, index: Box): boolean {
  let read = 0;
  const inside = ({ start, end }: Pick<Box, 'start' | 'end'>): Box[] => {
    const inner: Box[] = [];
    for (const box of boxesIn(bytes, start, end)) {
      read += 1;
      if (read > maxBoxes) throw tooManyBoxes();
      // A box that claims more than its parent has would contain its siblings, and each of those the rest of them.
      inner.push({ ...box, end: Math.min(box.end, end) });
    }
    return inner;
  };
  let level: Box[] = [index];
  for (const type of ['trak', 'mdia', 'minf', 'stbl', 'stsd']) {
    level = level.flatMap((box) => inside(box).filter((inner) => inner.type === type));
  }
  // `stsd` has a count before its entries.
  const entries = level.flatMap(({ start, end }) => inside({ start: start + 8, end }));
  return entries.some(({ type }) => type === 'encv' || type === 'enca');
}

function tooManyBoxes(): MediaRejectedError {
  return new MediaRejectedError(
    'unsafe_media',
    `The index of the video or audio file has more than ${maxBoxes} boxes. Copy its streams into a new file and retry.`,
  );
}

/** The boxes in a range, in order. Size 1 means that a 64-bit size follows; size 0 means the rest of the range. */
function* boxesIn(bytes: Bytes, start: number, end: number): Generator<Box> {
  let offset = start;
  for (let count = 0; count < maxBoxes && offset + 8 <= Math.min(end, bytes.size); count++) {
    const head = bytes.peek(offset, 16);
    const short = head.readUInt32BE(0);
    const type = head.toString('latin1', 4, 8);
    const long = short === 1;
    const size = long && head.length === 16 ? Number(head.readBigUInt64BE(8)) : short === 0 ? end - offset : short;
    const header = long ? 16 : 8;
    // Not a box, so reading stops here.
    if (size < header) return;
    yield { type, start: offset + header, end: offset + size };
    offset += size;
  }
}
