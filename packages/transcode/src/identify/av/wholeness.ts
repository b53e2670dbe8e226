import type { AvContainer } from '../../formats-av.ts';
import type { Bytes } from '../bytes.ts';
import { readMovie, type Wholeness } from './movie-boxes.ts';

const open = { encrypted: false };

/** @throws MediaRejectedError if the missing part is one that players need to start */
export function checkWholeness(container: AvContainer, bytes: Bytes): Wholeness {
  switch (container) {
    case 'mp4':
    case 'mov':
      return readMovie(bytes);
    case 'avi':
    case 'wav':
      return { ...open, endsEarly: riffEndsEarly(bytes) };
    case 'webm':
    case 'matroska':
      return { ...open, endsEarly: segmentEndsEarly(bytes) };
    case 'ogg':
      return { ...open, endsEarly: oggEndsEarly(bytes) };
    default:
      return { ...open, endsEarly: false };
  }
}

/** A RIFF file has its size in its header. Programs that do not know it yet write 0 or all ones. */
function riffEndsEarly(bytes: Bytes): boolean {
  const size = bytes.u32le(4);
  return size !== 0 && size !== 0xffffffff && size + 8 > bytes.size + 1;
}

/** RFC 8794 and 9559: the EBML header is followed by a Segment, whose size is that of the rest, or unknown. */
function segmentEndsEarly(bytes: Bytes): boolean {
  const header = element(bytes, 0);
  const segment = header?.end == null ? null : element(bytes, header.end);
  return segment?.end != null && segment.end > bytes.size;
}

/** An EBML element; its end is null if its size is unknown. */
function element(bytes: Bytes, offset: number): { end: number | null } | null {
  const idLength = lengthOf(bytes.peek(offset, 1)[0] ?? 0);
  const sizeAt = offset + idLength;
  const sizeLength = lengthOf(bytes.peek(sizeAt, 1)[0] ?? 0);
  const coded = bytes.peek(sizeAt, sizeLength);
  if (idLength > 4 || sizeLength > 8 || coded.length < sizeLength) return null;
  let size = (coded[0] ?? 0) & (0xff >> sizeLength);
  let unknown = size === 0xff >> sizeLength;
  for (const byte of coded.subarray(1)) {
    size = size * 256 + byte;
    unknown &&= byte === 0xff;
  }
  return { end: unknown ? null : sizeAt + sizeLength + size };
}

/** Length in bytes of a variable-length number, from the leading zeros of its first byte. */
function lengthOf(first: number): number {
  return first === 0 ? 9 : Math.clz32(first) - 23;
}

/**
 * RFC 3533, 6: the last page of a stream is flagged. A page has at most 65,307 bytes. Its header has 27 bytes, and the last of
 * these is the number of entries in a table of up to 255 sizes. The table and data of that total size follow.
 */
function oggEndsEarly(bytes: Bytes): boolean {
  const tail = bytes.peek(Math.max(0, bytes.size - 65_536), 65_536);
  const last = tail.lastIndexOf('OggS', undefined, 'latin1');
  if (last < 0 || ((tail[last + 5] ?? 0) & 4) === 0) return true;
  const count = tail[last + 26] ?? 0;
  const sizes = tail.subarray(last + 27, last + 27 + count);
  return last + 27 + count + sizes.reduce((sum, size) => sum + size, 0) > tail.length;
}
