import type { ImageFormatId } from '../../formats.ts';
import type { Bytes } from '../bytes.ts';
import { readGifHeader } from './gif.ts';
import type { FrameLimits, ImageHeader } from './header.ts';
import { readHeifHeader } from './heif.ts';
import { readJpegHeader } from './jpeg.ts';
import { readPngHeader } from './png.ts';
import { readSvgHeader } from './svg.ts';
import { readTiffHeader } from './tiff.ts';
import { readWebpHeader } from './webp.ts';

type HeaderReader = (bytes: Bytes, limits: FrameLimits) => ImageHeader;

/** A format that is registered without a reader does not compile. HEIC and AVIF share a container; its reader distinguishes them. */
const readers = {
  jpeg: readJpegHeader,
  png: readPngHeader,
  webp: readWebpHeader,
  gif: readGifHeader,
  tiff: readTiffHeader,
  svg: readSvgHeader,
  heif: readHeifHeader,
  heic: readHeifHeader,
  avif: readHeifHeader,
} satisfies Record<ImageFormatId | 'heif', HeaderReader>;

/** Reads the header of an image whose format was sniffed. Throws the errors of `header.ts` and `EndOfFileError`. */
export function readImageHeader(format: ImageFormatId | 'heif', bytes: Bytes, limits: FrameLimits): ImageHeader {
  return readers[format](bytes, limits);
}
