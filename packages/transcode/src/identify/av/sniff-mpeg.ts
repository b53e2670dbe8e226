import type { AvContainer } from '../../formats-av.ts';
import type { Bytes } from '../bytes.ts';

/** One frame of MP3 or AAC. */
interface Frame {
  bytes: number;
  /** Equal for frames of one stream: bits 23 to 3 of the header, except those that may differ (see `mp3Frame`). */
  kind: string;
}

/** This many frames in a row are no coincidence, because each must start where the previous one ends. */
const framesInRow = 4;
/** Rippers leave zeros or parts of a cut frame at the start. */
const searchedBytes = 4_096;

/**
 * The format after an ID3v2 tag at the start of a file. Tags may have any size, because they contain images.
 * https://id3.org/id3v2.4.0-structure, section 3.1
 */
export function sniffAfterId3(bytes: Bytes): AvContainer | null {
  const start = afterId3(bytes);
  if (bytes.peek(start, 4).toString('latin1') === 'fLaC') return 'flac';
  return sniffFrames(bytes, start);
}

function afterId3(bytes: Bytes): number {
  let offset = 0;
  // A file has one tag, or two if a program did not recognize the first.
  for (let tags = 0; tags < 8; tags++) {
    const head = bytes.peek(offset, 10);
    if (head.length < 10 || head.toString('latin1', 0, 3) !== 'ID3') break;
    const size = head.subarray(6).reduce((sum, byte) => sum * 128 + (byte & 0x7f), 0);
    const footer = ((head[5] ?? 0) & 0x10) === 0 ? 0 : 10;
    offset += 10 + size + footer;
  }
  return offset;
}

/** Recognizes MP3 or AAC (ADTS) by consecutive frames, starting near `start`. */
export function sniffFrames(bytes: Bytes, start = 0): 'mp3' | 'aac' | null {
  const head = bytes.peek(start, searchedBytes);
  for (let at = 0; at + 4 <= head.length; at++) {
    if (head[at] !== 0xff) continue;
    if (chain(bytes, start + at, adtsFrame)) return 'aac';
    if (chain(bytes, start + at, mp3Frame)) return 'mp3';
  }
  return null;
}

/** A short file may end earlier, but only at the end of a frame or within one. */
function chain(bytes: Bytes, start: number, read: (header: Buffer) => Frame | null): boolean {
  let offset = start;
  let kind: string | null = null;
  for (let count = 0; count < framesInRow; count++) {
    if (offset >= bytes.size) return count >= 2;
    const frame = read(bytes.peek(offset, 8));
    if (frame === null || (kind !== null && frame.kind !== kind)) return false;
    kind = frame.kind;
    offset += frame.bytes;
  }
  return true;
}

/** ISO/IEC 13818-7, 6.2: twelve bits of sync, layer 0, and a length of 13 bits. */
function adtsFrame(header: Buffer): Frame | null {
  if (header.length < 7) return null;
  const [b0 = 0, b1 = 0, b2 = 0, b3 = 0, b4 = 0, b5 = 0] = header;
  if (b0 !== 0xff || (b1 & 0xf6) !== 0xf0) return null;
  const rate = (b2 >> 2) & 15;
  const length = ((b3 & 3) << 11) | (b4 << 3) | (b5 >> 5);
  if (rate > 12 || length < 7) return null;
  return { bytes: length, kind: `${b1 & 8} ${b2 & 0xfc} ${b2 & 1}${b3 & 0xc0}` };
}

/** Kilobits per second of Layer III, MPEG-1 and MPEG-2/2.5. ISO/IEC 11172-3, 2.4.2.3 and 13818-3. */
const bitrates = {
  1: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
} as const;
const sampleRates = [44_100, 48_000, 32_000] as const;

function mp3Frame(header: Buffer): Frame | null {
  if (header.length < 4) return null;
  const [b0 = 0, b1 = 0, b2 = 0] = header;
  const version = (b1 >> 3) & 3;
  const layer = (b1 >> 1) & 3;
  if (b0 !== 0xff || (b1 & 0xe0) !== 0xe0 || version === 1 || layer !== 1) return null;
  const isFirst = version === 3;
  const kbps = bitrates[isFirst ? 1 : 2][b2 >> 4];
  const base = sampleRates[(b2 >> 2) & 3];
  if (!kbps || base === undefined) return null;
  const rate = version === 3 ? base : version === 2 ? base / 2 : base / 4;
  const bytes = Math.floor(((isFirst ? 144 : 72) * kbps * 1_000) / rate) + ((b2 >> 1) & 1);
  return { bytes, kind: `${version} ${rate}` };
}

/** Packets of a transport stream that must follow each other. ISO/IEC 13818-1, 2.4.3.2: each begins with 0x47. */
const packetsInRow = 5;

/** MPEG-TS with packets of 188 bytes, or of 192 with a time stamp before each (M2TS). It may begin within a packet. */
export function isTransportStream(bytes: Bytes): boolean {
  return [188, 192].some((size) => {
    const head = bytes.peek(0, size * (packetsInRow + 1));
    const wanted = Math.min(packetsInRow, Math.floor(bytes.size / size));
    if (wanted < 3) return false;
    for (let start = 0; start < size; start++) {
      if (Array.from({ length: wanted }, (_, index) => head[start + index * size]).every((byte) => byte === 0x47)) {
        return true;
      }
    }
    return false;
  });
}
