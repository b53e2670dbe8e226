import { type Bytes, EndOfFileError } from '../bytes.ts';
import { CorruptHeaderError } from './header.ts';

/** A box of an ISO base media file (ISO/IEC 14496-12, 4.2): `start` and `end` bound its body. */
export interface Box {
  type: string;
  start: number;
  end: number;
}

/** A file with more boxes in a row is an attack on our time. */
const maxBoxes = 20_000;

/**
 * The boxes in a range of the file, in order. A box that reaches beyond the range throws: part of it is missing, and no HEIF
 * decoder recovers from that.
 */
export function boxesIn(bytes: Bytes, start: number, end: number): Box[] {
  const boxes: Box[] = [];
  let offset = start;
  while (offset + 8 <= end) {
    if (boxes.length >= maxBoxes) throw new CorruptHeaderError('it has too many boxes.');
    const short = bytes.u32be(offset);
    const type = bytes.take(offset + 4, 4).toString('latin1');
    const long = short === 1;
    // 0 means "to the end of the file"; it is valid only in the last box.
    const length = long
      ? bytes.u32be(offset + 8) * 2 ** 32 + bytes.u32be(offset + 12)
      : short === 0
        ? end - offset
        : short;
    const body = offset + (long ? 16 : 8);
    if (length < body - offset)
      throw new CorruptHeaderError(`the box at byte ${offset} has no room for its own header.`);
    if (offset + length > end) {
      if (end === bytes.size) throw new EndOfFileError(offset, length, bytes.size);
      throw new CorruptHeaderError(`the box at byte ${offset} is larger than the box around it.`);
    }
    boxes.push({ type, start: body, end: offset + length });
    offset += length;
  }
  return boxes;
}

/** Reads a body from start to end, but never past the end. */
export interface Cursor {
  u8(): number;
  u16(): number;
  u32(): number;
  text(length: number): string;
  /** A number of 16 bits, or of 32 if `wide`. */
  id(wide: boolean): number;
  readonly left: number;
}

export function cursorIn(bytes: Bytes, box: Box, skip = 0): Cursor {
  let offset = box.start + skip;
  const next = (length: number): Buffer => {
    if (offset + length > box.end) throw new CorruptHeaderError(`its ${box.type} box is too short.`);
    const taken = bytes.take(offset, length);
    offset += length;
    return taken;
  };
  return {
    u8: () => next(1).readUInt8(0),
    u16: () => next(2).readUInt16BE(0),
    u32: () => next(4).readUInt32BE(0),
    text: (length) => next(length).toString('latin1'),
    id: (wide) => (wide ? next(4).readUInt32BE(0) : next(2).readUInt16BE(0)),
    get left() {
      return Math.max(0, box.end - offset);
    },
  };
}
