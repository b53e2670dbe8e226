import { readFileSync } from 'node:fs';
import { MediaRejectedError } from '../../errors.ts';
import { formatName } from '../../formats.ts';
import { openHeic } from '../../heic.ts';
import { sharp } from '../../vips.ts';
import { bytesOf } from '../bytes.ts';
import type { ImageHeader } from './header.ts';
import { readSvg } from './svg.ts';

/** libheif-js needs the whole file in WebAssembly memory. A 200-megapixel HEIC has about 100 MB. */
const maxHeicBytes = 1024 ** 3;

/**
 * Lets the decoder that will render the file open it, and compares its result with our own reading of the header. A file that
 * is two formats or two sizes at once is refused. Pixels are not decoded: damage further in appears when rendering, as a warning
 * or a failure. Throws a `MediaRejectedError`.
 */
export async function checkDecoder(path: string, header: ImageHeader): Promise<void> {
  const seen = await openWithDecoder(path, header);
  if (seen.format !== header.format) {
    throw new MediaRejectedError(
      'unsafe_media',
      `The file begins like ${formatName(header.format)}, but the decoder recognizes ${formatName(seen.format)}. Export it again as one of them.`,
    );
  }
  if (seen.width !== header.width || seen.height !== header.height) {
    throw new MediaRejectedError(
      'corrupt_media',
      `The header of the image gives its size as ${header.width} x ${header.height} pixels, but the decoder finds ${seen.width} x ${seen.height}. Export it again.`,
    );
  }
}

async function openWithDecoder(
  path: string,
  header: ImageHeader,
): Promise<{ format: string; width: number; height: number }> {
  try {
    if (header.format === 'heic') return { format: 'heic', ...storedSize(openHeicFile(path), header) };
    const input = header.format === 'svg' ? readSvg(bytesOf(readFileSync(path))).at(header.width, header.height) : path;
    const { format, compression, width, height, pageHeight } = await sharp(input, {
      limitInputPixels: false,
      failOn: 'none',
    }).metadata();
    if (format !== 'heif') return { format, width, height: pageHeight ?? height };
    return { format: compression === 'av1' ? 'avif' : 'heic', ...storedSize({ width, height }, header) };
  } catch (error) {
    if (error instanceof MediaRejectedError) throw error;
    const reason = error instanceof Error ? error.message.replaceAll(path, 'the file').split('\n')[0] : '';
    throw new MediaRejectedError(
      'corrupt_media',
      `The ${formatName(header.format)} cannot be decoded (${reason}). Export or copy it again and retry.`,
      { cause: error },
    );
  }
}

function openHeicFile(path: string): { width: number; height: number } {
  const file = readFileSync(path);
  if (file.length > maxHeicBytes)
    throw new Error(`it has ${file.length} bytes, but at most ${maxHeicBytes} are accepted`);
  const picture = openHeic(file);
  try {
    return { width: picture.width, height: picture.height };
  } finally {
    picture.close();
  }
}

/** Undoes the rotation, because libheif reports the size after it. */
function storedSize(displayed: { width: number; height: number }, { orientation }: ImageHeader) {
  return orientation >= 5 ? { width: displayed.height, height: displayed.width } : displayed;
}
