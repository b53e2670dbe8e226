import type { Bytes } from '../bytes.ts';
import { exifOrientation } from './exif.ts';
import { CorruptHeaderError, endsEarlyWarning, type FrameLimits, type ImageHeader } from './header.ts';

const maxChunks = 200_000;

/** Walks the RIFF chunks of a WebP (RFC 9649) and counts frames and durations. No image data is decoded. */
export function readWebpHeader(bytes: Bytes, limits: FrameLimits): ImageHeader {
  const riffEnd = 8 + bytes.u32le(4);
  const header: ImageHeader = {
    format: 'webp',
    codec: 'vp8',
    width: 0,
    height: 0,
    orientation: 1,
    frames: 1,
    durationMs: null,
    hasAlpha: false,
    bitDepth: 8,
    colorSpace: 'srgb',
    icc: false,
    warnings: riffEnd > bytes.size ? [endsEarlyWarning] : [],
  };
  let offset = 12;
  let extended = false;
  let animationFrames = 0;
  let durationMs = 0;
  for (let chunk = 0; chunk < maxChunks && offset + 8 <= Math.min(riffEnd, bytes.size); chunk++) {
    const type = bytes.take(offset, 4).toString('latin1');
    const length = bytes.u32le(offset + 4);
    const data = offset + 8;
    if (type === 'VP8X') {
      extended = true;
      const flags = bytes.u8(data);
      header.hasAlpha = (flags & 0x10) !== 0;
      header.width = bytes.u24le(data + 4) + 1;
      header.height = bytes.u24le(data + 7) + 1;
    } else if (type === 'VP8 ' || type === 'VP8L') {
      readBitstream(bytes, data, type, header, extended);
      if (!extended) break;
    } else if (type === 'ANMF') {
      animationFrames++;
      durationMs += bytes.u24le(data + 12);
      if (bytes.peek(data + 16, 4).toString('latin1') === 'VP8L') header.codec = 'vp8l';
    } else if (type === 'ICCP') {
      header.icc = true;
      header.colorSpace = 'rgb';
    } else if (type === 'EXIF') {
      header.orientation = webpOrientation(bytes.peek(data, Math.min(length, 65_536)));
    }
    if (animationFrames > limits.maxFrames || animationFrames * header.width * header.height > limits.maxPixels) break;
    // Chunks are padded to an even length.
    offset = data + length + (length & 1);
  }
  if (header.width === 0) throw new CorruptHeaderError('it has no image.');
  if (animationFrames > 0) header.frames = animationFrames;
  if (animationFrames > 1) header.durationMs = durationMs;
  return header;
}

/** Dimensions of a lossy (RFC 6386, 9.1) or lossless (RFC 9649, 3.4) image; a VP8X canvas overrides them. */
function readBitstream(bytes: Bytes, data: number, type: string, header: ImageHeader, extended: boolean): void {
  if (type === 'VP8L') {
    if (bytes.u8(data) !== 0x2f) throw new CorruptHeaderError('its lossless image lacks a signature.');
    const bits = bytes.u32le(data + 1);
    header.codec = 'vp8l';
    header.hasAlpha ||= ((bits >>> 28) & 1) === 1;
    if (!extended) [header.width, header.height] = [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
    return;
  }
  if (bytes.take(data + 3, 3).toString('hex') !== '9d012a')
    throw new CorruptHeaderError('its image lacks a key frame.');
  if (!extended) [header.width, header.height] = [bytes.u16le(data + 6) & 0x3fff, bytes.u16le(data + 8) & 0x3fff];
}

/** Some writers repeat JPEG's "Exif" preamble inside the chunk. */
function webpOrientation(chunk: Buffer): number {
  const exif = chunk.toString('latin1', 0, 6) === 'Exif\0\0' ? chunk.subarray(6) : chunk;
  return exifOrientation(Buffer.from(exif));
}
