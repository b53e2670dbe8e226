import type { Bytes } from '../bytes.ts';
import { exifOrientation } from './exif.ts';
import { CorruptHeaderError, endsEarlyWarning, type ImageHeader, UnsupportedCodingError } from './header.ts';

/** Segments before the image data. A camera writes a dozen; an ICC profile or maker notes need some hundreds. */
const maxSegments = 5_000;

/** Start-of-frame markers that libjpeg decodes: baseline, extended and progressive with Huffman or arithmetic coding. */
const decodableFrames: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2, 0xc9, 0xca]);

/** Reads the marker segments up to the image data (ITU-T T.81, annex B). */
export function readJpegHeader(bytes: Bytes): ImageHeader {
  let offset = 2;
  let orientation = 1;
  let icc = false;
  let adobeTransform: number | null = null;
  let frame: { width: number; height: number; precision: number; components: number } | null = null;

  for (let segment = 0; segment < maxSegments; segment++) {
    if (bytes.u8(offset) !== 0xff) throw new CorruptHeaderError(`a marker was expected at byte ${offset}.`);
    // Any number of 0xFF may pad a marker.
    while (bytes.u8(offset + 1) === 0xff) offset++;
    const marker = bytes.u8(offset + 1);
    offset += 2;
    if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;
    if (marker === 0xd9) throw new CorruptHeaderError('it ends before the image data begins.');
    const length = bytes.u16be(offset);
    if (length < 2) throw new CorruptHeaderError(`the segment at byte ${offset} has no room for its own length.`);
    const body = offset + 2;

    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) {
      if (!decodableFrames.has(marker)) {
        throw new UnsupportedCodingError(
          'This JPEG uses lossless or hierarchical coding, which common decoders cannot read. Save it as an ordinary JPEG or as PNG.',
        );
      }
      frame = {
        precision: bytes.u8(body),
        height: bytes.u16be(body + 1),
        width: bytes.u16be(body + 3),
        components: bytes.u8(body + 5),
      };
    } else if (marker === 0xe1 && bytes.peek(body, 6).toString('latin1') === 'Exif\0\0') {
      orientation = exifOrientation(Buffer.from(bytes.peek(body + 6, Math.min(length - 8, 65_533))));
    } else if (marker === 0xe2 && bytes.peek(body, 12).toString('latin1') === 'ICC_PROFILE\0') {
      icc = true;
    } else if (marker === 0xee && bytes.peek(body, 5).toString('latin1') === 'Adobe' && length >= 14) {
      adobeTransform = bytes.u8(body + 11);
    } else if (marker === 0xda) {
      break;
    }
    offset += length;
  }

  if (!frame) throw new CorruptHeaderError('it has no frame header.');
  if (frame.precision !== 8) {
    throw new UnsupportedCodingError(
      `This JPEG has ${frame.precision} bits per sample; only 8 can be decoded. Save it as PNG or TIFF.`,
    );
  }
  if (![1, 3, 4].includes(frame.components)) throw new CorruptHeaderError(`it has ${frame.components} components.`);
  return {
    format: 'jpeg',
    codec: 'jpeg',
    width: frame.width,
    height: frame.height,
    orientation,
    frames: 1,
    durationMs: null,
    hasAlpha: false,
    bitDepth: 8,
    colorSpace: colorSpaceOf(frame.components, adobeTransform, icc),
    icc,
    warnings: endsWithMarker(bytes) ? [] : [endsEarlyWarning],
  };
}

function colorSpaceOf(components: number, adobeTransform: number | null, icc: boolean): string {
  if (components === 1) return 'gray';
  if (components === 4) return adobeTransform === 2 ? 'ycck' : 'cmyk';
  return icc ? 'rgb' : 'srgb';
}

/** Searches the whole tail, because cameras append previews and padding after the end marker. */
function endsWithMarker(bytes: Bytes): boolean {
  const tail = Math.min(bytes.size, 64 * 1024);
  return bytes.peek(bytes.size - tail, tail).includes(Buffer.from([0xff, 0xd9]));
}
