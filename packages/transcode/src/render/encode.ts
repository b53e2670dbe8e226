import type { Sharp } from 'sharp';
import type { PicturePreset } from '../presets/picture.ts';

/** Sets the encoder of a preset. Metadata is never written: sharp drops EXIF, GPS, XMP and ICC by default. */
export function encodeWith(picture: Sharp, preset: PicturePreset): Sharp {
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
