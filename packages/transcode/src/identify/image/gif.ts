import type { Bytes } from '../bytes.ts';
import { CorruptHeaderError, endsEarlyWarning, type FrameLimits, type ImageHeader } from './header.ts';

/** Browsers play a delay of 0 or 1 hundredths as this long, and so do we. */
const minDelayMs = 100;

/**
 * Walks the blocks of a GIF (GIF89a specification) and counts frames and their delays. No image data is decompressed. When
 * decoded, every frame takes a whole canvas, even if the frame covers only a part of it.
 */
export function readGifHeader(bytes: Bytes, limits: FrameLimits): ImageHeader {
  const width = bytes.u16le(6);
  const height = bytes.u16le(8);
  const flags = bytes.u8(10);
  let offset = 13 + colorTableBytes(flags);
  let frames = 0;
  let durationMs = 0;
  let delayMs = minDelayMs;
  let transparent = false;
  let complete = false;
  const enough = Math.min(limits.maxFrames, limits.maxPixels / Math.max(1, width * height));

  while (frames <= enough) {
    const introducer = bytes.peek(offset, 1)[0];
    if (introducer === undefined) break;
    if (introducer === 0x3b) {
      complete = true;
      break;
    }
    if (introducer === 0x2c) {
      const descriptor = bytes.peek(offset, 10);
      if (descriptor.length < 10) break;
      frames++;
      durationMs += delayMs;
      delayMs = minDelayMs;
      // The minimum code size comes between the local colour table and the data.
      offset = skipSubBlocks(bytes, offset + 10 + colorTableBytes(descriptor.readUInt8(9)) + 1);
    } else if (introducer === 0x21) {
      if (bytes.peek(offset + 1, 1)[0] === 0xf9 && bytes.peek(offset, 8).length === 8) {
        transparent ||= (bytes.u8(offset + 3) & 1) === 1;
        const hundredths = bytes.u16le(offset + 4);
        delayMs = hundredths <= 1 ? minDelayMs : hundredths * 10;
      }
      offset = skipSubBlocks(bytes, offset + 2);
    } else if (frames > 0) {
      // Garbage after the last frame: decoders stop here too.
      break;
    } else {
      throw new CorruptHeaderError(`an unknown block begins at byte ${offset}.`);
    }
  }
  if (frames === 0) throw new CorruptHeaderError('it has no frame.');

  return {
    format: 'gif',
    codec: 'gif',
    width,
    height,
    orientation: 1,
    frames,
    durationMs: frames > 1 ? durationMs : null,
    hasAlpha: transparent,
    bitDepth: 8,
    colorSpace: 'srgb',
    icc: false,
    warnings: complete || frames > enough ? [] : [endsEarlyWarning],
  };
}

function colorTableBytes(flags: number): number {
  return flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0;
}

/** Offset after the empty block that ends a chain of sub-blocks, or the end of the file. */
function skipSubBlocks(bytes: Bytes, start: number): number {
  let offset = start;
  while (offset < bytes.size) {
    const length = bytes.u8(offset);
    offset += 1 + length;
    if (length === 0) return offset;
  }
  return bytes.size;
}
