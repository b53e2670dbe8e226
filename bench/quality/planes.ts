import sharp, { type Sharp } from 'sharp';
import type { Plane } from './ssim.ts';

/** An image as brightness and two differences of colour (ITU-R BT.601, full range), each 0 to 255. */
export interface Planes {
  readonly luma: Plane;
  readonly blueDifference: Plane;
  readonly redDifference: Plane;
}

/** The planes of an encoded image, on `background` if it is transparent. */
export function planesOf(encoded: string | Buffer, background: string): Promise<Planes> {
  return toPlanes(sharp(encoded), background);
}

/**
 * The reference of a rendition: the source scaled to that size with sharp's Lanczos kernel, never encoded. A transparent source is
 * premultiplied, as on every side.
 */
export function referencePlanes(
  source: string,
  size: { width: number; height: number },
  background: string,
): Promise<Planes> {
  return toPlanes(sharp(source).resize(size.width, size.height, { fit: 'fill', kernel: 'lanczos3' }), background);
}

async function toPlanes(image: Sharp, background: string): Promise<Planes> {
  const { data, info } = await image
    .toColourspace('srgb')
    .flatten({ background })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  const [green, blue] = channels >= 3 ? [1, 2] : [0, 0];
  const plane = (red: number, weightOfGreen: number, weightOfBlue: number, offset: number): Plane => {
    const values = new Float32Array(width * height);
    for (let pixel = 0, at = 0; pixel < values.length; pixel++, at += channels) {
      const weighted =
        red * (data[at] ?? 0) + weightOfGreen * (data[at + green] ?? 0) + weightOfBlue * (data[at + blue] ?? 0);
      values[pixel] = offset + weighted;
    }
    return { width, height, data: values };
  };
  return {
    luma: plane(0.299, 0.587, 0.114, 0),
    blueDifference: plane(-0.168736, -0.331264, 0.5, 128),
    redDifference: plane(0.5, -0.418688, -0.081312, 128),
  };
}
