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

/** The source as upright 8-bit sRGB (or grey) pixels at the requested size. */
export interface DecodedStill extends RawPixels {
  /** Sentences for a person: losses during decoding. */
  warnings: string[];
}

const damageWarning = 'The file is damaged. Its readable part is shown; the rest may be missing or wrong.';
const hdrWarning = 'The image has high dynamic range; its renditions do not, and may look dull.';

/**
 * Decodes the first frame once, shrunk to `width` x `height` (as displayed, at most the size of the source). A damaged file is
 * read as far as possible, with a warning. Throws if nothing can be read.
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
 * Formats whose decoders fill missing parts with grey or nothing. Other decoders leave old memory there: parts of this image, or
 * of another one.
 */
const fillsMissingParts: ReadonlySet<string> = new Set(['jpeg', 'gif']);

/** Decodes strictly first. If that fails, errors are ignored in a second attempt, but only if nothing is made up. */
async function decodeTolerantly(
  path: string,
  header: ImageHeader,
  size: { width: number; height: number },
  limits: EngineLimits,
): Promise<DecodedStill> {
  const decode = (failOn: 'warning' | 'none') => {
    const picture = sharp(path, { failOn, limitInputPixels: limits.maxPixels, sequentialRead: true, autoOrient: true });
    // With a profile, sharp works with 16 bits in Display P3. Without an explicit target profile it keeps those values.
    return toRaw(header.icc && header.bitDepth > 8 ? picture.withIccProfile('srgb') : picture, size);
  };
  try {
    return { ...(await decode('warning')), warnings: [] };
  } catch (error) {
    if (!fillsMissingParts.has(header.format)) throw error;
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

/** Converts a file's own colours to sRGB. This follows the shrinking because its cost grows with the pixels. */
async function applyProfile(pixels: RawPixels, color: HeifColor): Promise<RawPixels> {
  const profile = profileOf(color);
  if (!profile) return pixels;
  return toRaw(sharp(rawTiff(pixels, profile), { limitInputPixels: false }), pixels);
}

function hdrWarnings(color: HeifColor): string[] {
  return isHdr(color) ? [hdrWarning] : [];
}

/** A sharp image from raw pixels. */
export function fromRaw({ data, width, height, channels }: RawPixels): Sharp {
  return sharp(data, { raw: { width, height, channels }, limitInputPixels: false });
}

/** Shrinks to the size, converts to 8-bit sRGB, and returns the pixels. */
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
