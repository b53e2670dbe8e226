import { join } from 'node:path';
import { parseArgs } from 'node:util';
import sharp, { type Sharp } from 'sharp';
import type { ImagePreset } from '../pictures/image-presets.ts';
import { fileName, fitInside, serveRenderer } from './renderer.ts';

/**
 * Plain sharp as a user would write it: a pipeline for each output, from the file. `--settings equal` gives its encoders our
 * settings, `--settings default` only the format. `--threads` sets those of libvips; the default is sharp's own choice.
 */
const { values } = parseArgs({
  options: {
    settings: { type: 'string', default: 'equal' },
    order: { type: 'string', default: 'loop' },
    threads: { type: 'string' },
  },
});
if (values.threads) sharp.concurrency(Number(values.threads));

serveRenderer(async ({ source, size, outDir, presets }) => {
  const make = (preset: ImagePreset) => {
    const { width, height } = fitInside(size, preset);
    // `fill` to the exact size: with `inside`, sharp scales both directions alike and drops the remaining fraction of a pixel.
    const resized = sharp(source).autoOrient().resize(width, height, { fit: 'fill' });
    const encoded =
      values.settings === 'equal' ? withEqualSettings(resized, preset) : resized.toFormat(preset.container);
    return encoded.toFile(join(outDir, fileName(preset)));
  };
  if (values.order === 'all') await Promise.all(presets.map(make));
  else for (const preset of presets) await make(preset);
});

function withEqualSettings(picture: Sharp, preset: ImagePreset): Sharp {
  switch (preset.container) {
    case 'webp':
      return picture.webp({ quality: preset.quality, effort: preset.effort, lossless: preset.lossless });
    case 'avif':
      return picture.avif({
        quality: preset.quality,
        effort: preset.effort,
        chromaSubsampling: preset.chroma,
        tune: preset.tune,
      });
    case 'jpeg':
      return picture.flatten({ background: preset.background }).jpeg({
        quality: preset.quality,
        chromaSubsampling: preset.chroma,
        progressive: preset.progressive,
        mozjpeg: preset.mozjpeg,
      });
    case 'png':
      return picture.png({ compressionLevel: preset.effort });
  }
}
