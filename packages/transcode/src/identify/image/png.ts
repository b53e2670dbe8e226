import type { Bytes } from '../bytes.ts';
import { exifOrientation } from './exif.ts';
import { CorruptHeaderError, endsEarlyWarning, type ImageHeader } from './header.ts';

/** Most chunks that are read, each by its length alone: a 10 GB file of empty chunks must not take minutes. */
const maxChunks = 200_000;

/** Reads IHDR and the names of the chunks that follow (W3C PNG, third edition). Nothing is inflated. */
export function readPngHeader(bytes: Bytes): ImageHeader {
  if (bytes.take(12, 4).toString('latin1') !== 'IHDR') throw new CorruptHeaderError('its first chunk is not IHDR.');
  const width = bytes.u32be(16);
  const height = bytes.u32be(20);
  const bitDepth = bytes.u8(24);
  const colorType = bytes.u8(25);
  const kind = colorTypes.get(colorType);
  if (!kind) throw new CorruptHeaderError(`its colour type is ${colorType}.`);

  let transparent = kind.alpha;
  let icc = false;
  let orientation = 1;
  let animatedFrames = 0;
  let ended = false;
  let primaries: number | null = null;
  let offset = 8;
  for (let chunk = 0; chunk < maxChunks && offset + 8 <= bytes.size; chunk++) {
    const length = bytes.u32be(offset);
    const type = bytes.take(offset + 4, 4).toString('latin1');
    const data = offset + 8;
    if (type === 'IEND') ended = true;
    else if (type === 'tRNS') transparent = true;
    else if (type === 'iCCP') icc = true;
    else if (type === 'cICP') primaries = bytes.u8(data);
    else if (type === 'acTL') animatedFrames = bytes.u32be(data);
    else if (type === 'eXIf') orientation = exifOrientation(Buffer.from(bytes.peek(data, Math.min(length, 65_536))));
    if (ended) break;
    offset = data + length + 4;
  }

  const warnings = ended ? [] : [endsEarlyWarning];
  if (animatedFrames > 1) warnings.push('This is an animated PNG; only its first frame is used.');
  return {
    format: 'png',
    codec: 'png',
    width,
    height,
    orientation,
    frames: 1,
    durationMs: null,
    hasAlpha: transparent,
    bitDepth,
    colorSpace: kind.gray ? 'gray' : icc ? 'rgb' : primaries === 12 ? 'p3' : 'srgb',
    icc,
    warnings,
  };
}

const colorTypes = new Map([
  [0, { gray: true, alpha: false }],
  [2, { gray: false, alpha: false }],
  [3, { gray: false, alpha: false }],
  [4, { gray: true, alpha: true }],
  [6, { gray: false, alpha: true }],
]);
