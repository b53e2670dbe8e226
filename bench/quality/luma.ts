import sharp, { type Sharp } from 'sharp';
import type { Luma } from './ssim.ts';

/** An encoded picture as brightness (ITU-R BT.601 weights), laid over `background` where it is transparent. */
export function lumaOf(encoded: string | Buffer, background: string): Promise<Luma> {
  return toLuma(sharp(encoded), background);
}

/**
 * What a rendition is judged by: the source shrunk straight to that size with sharp's Lanczos kernel, never encoded.
 * Premultiplied where there is transparency, as every side does.
 */
export function referenceLuma(
  source: string,
  size: { width: number; height: number },
  background: string,
): Promise<Luma> {
  return toLuma(sharp(source).resize(size.width, size.height, { fit: 'fill', kernel: 'lanczos3' }), background);
}

async function toLuma(picture: Sharp, background: string): Promise<Luma> {
  const { data, info } = await picture
    .toColourspace('srgb')
    .flatten({ background })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  const [green, blue] = channels >= 3 ? [1, 2] : [0, 0];
  const luma = new Float32Array(width * height);
  for (let pixel = 0, at = 0; pixel < luma.length; pixel++, at += channels) {
    luma[pixel] = 0.299 * (data[at] ?? 0) + 0.587 * (data[at + green] ?? 0) + 0.114 * (data[at + blue] ?? 0);
  }
  return { width, height, data: luma };
}
