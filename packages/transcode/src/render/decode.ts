import { readFileSync } from 'node:fs';
import type { Sharp } from 'sharp';
import { openHeic, type RawPixels } from '../heic.ts';
import { bytesOf } from '../identify/bytes.ts';
import type { ImageHeader } from '../identify/image/header.ts';
import { type HeifColor, readHeif } from '../identify/image/heif.ts';
import { readSvg } from '../identify/image/svg.ts';
import type { EngineLimits } from '../limits.ts';
import { sharp } from '../vips.ts';
import { isHdr, profileOf } from './color-profile.ts';
import { rawTiff } from './raw-tiff.ts';

/** The source as 8-bit sRGB (or grey) pixels, upright, at the size asked for. */
export interface DecodedStill extends RawPixels {
  /** Sentences for a person: what was lost on the way. */
  warnings: string[];
}

const damageWarning = 'The file is damaged; what could be read of it is shown, and parts may be missing or wrong.';
const hdrWarning = 'The picture is in high dynamic range; its renditions are not, and may look dull.';

/**
 * Decodes the first frame once, shrunk on the way to `width` x `height` (as displayed; never more than the source has).
 * A damaged file is read as far as the decoder gets, with a warning. Throws where nothing can be read.
 */
export async function decodeStill(
  path: string,
  header: ImageHeader,
  size: { width: number; height: number },
  limits: EngineLimits,
): Promise<DecodedStill> {
  switch (header.format) {
    case 'heic':
      return decodeHeic(path, size);
    case 'svg':
      return { ...(await toRaw(sharp(readSvg(fileBytes(path)).at(size.width, size.height)), size)), warnings: [] };
    case 'avif': {
      const { color } = readHeif(fileBytes(path));
      const decoded = await decodeTolerantly(path, header, size, limits);
      // libvips applies an ICC profile but not code points.
      if (color.profile) return decoded;
      return { ...(await applyProfile(decoded, color)), warnings: [...decoded.warnings, ...hdrWarnings(color)] };
    }
    default:
      return decodeTolerantly(path, header, size, limits);
  }
}

/**
 * Formats whose decoders fill what is missing with grey or nothing. Others leave what the memory held before: strips of the
 * same picture, and who can say of which other one.
 */
const recovering: ReadonlySet<string> = new Set(['jpeg', 'gif']);

/** Strictly first; only a file that fails is read again with its errors forgiven, where that shows nothing made up. */
async function decodeTolerantly(
  path: string,
  header: ImageHeader,
  size: { width: number; height: number },
  limits: EngineLimits,
): Promise<DecodedStill> {
  const decode = (failOn: 'warning' | 'none') => {
    const picture = sharp(path, { failOn, limitInputPixels: limits.maxPixels, sequentialRead: true, autoOrient: true });
    // sharp works on 16 bits in Display P3 where there is a profile, and leaves the numbers so unless told where to go.
    return toRaw(header.icc && header.bitDepth > 8 ? picture.withIccProfile('srgb') : picture, size);
  };
  try {
    return { ...(await decode('warning')), warnings: [] };
  } catch (error) {
    if (!recovering.has(header.format)) throw error;
    return { ...(await decode('none')), warnings: [damageWarning] };
  }
}

async function decodeHeic(path: string, size: { width: number; height: number }): Promise<DecodedStill> {
  const file = readFileSync(path);
  const { color } = readHeif(bytesOf(file));
  const picture = openHeic(file);
  let pixels: RawPixels;
  try {
    pixels = picture.pixels();
  } finally {
    picture.close();
  }
  const shrunk = await toRaw(fromRaw(pixels), size);
  return { ...(await applyProfile(shrunk, color)), warnings: hdrWarnings(color) };
}

/** Pixels in a file's own colours to sRGB. After shrinking, because colour conversion costs by the pixel. */
async function applyProfile(pixels: RawPixels, color: HeifColor): Promise<RawPixels> {
  const profile = profileOf(color);
  if (!profile) return pixels;
  return toRaw(sharp(rawTiff(pixels, profile), { limitInputPixels: false }), pixels);
}

function hdrWarnings(color: HeifColor): string[] {
  return isHdr(color) ? [hdrWarning] : [];
}

/** Bare pixels as a picture to go on with. */
export function fromRaw({ data, width, height, channels }: RawPixels): Sharp {
  return sharp(data, { raw: { width, height, channels }, limitInputPixels: false });
}

/** Shrinks to the size, converts to sRGB and 8 bits, and gives the pixels. */
export async function toRaw(picture: Sharp, { width, height }: { width: number; height: number }): Promise<RawPixels> {
  const { data, info } = await picture
    .resize(width, height, { fit: 'fill' })
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height, channels: info.channels };
}

function fileBytes(path: string) {
  return bytesOf(readFileSync(path));
}
