import { MediaRejectedError } from '../errors.ts';
import type { Programs } from '../ffmpeg/programs.ts';
import { acceptedFormatsText, formatById, formatName, type ImageFormatId } from '../formats.ts';
import type { IdentifiedFields } from '../identified.ts';
import type { EngineLimits } from '../limits.ts';
import { identifyAv } from './av/identify-av.ts';
import { type Bytes, EndOfFileError, openBytes } from './bytes.ts';
import { checkDecoder } from './image/check-decoder.ts';
import { displayedSize } from './image/exif.ts';
import {
  CorruptHeaderError,
  type ImageHeader,
  OtherFormatError,
  UnsafeContentError,
  UnsupportedCodingError,
} from './image/header.ts';
import { readImageHeader } from './image/read-header.ts';
import { sniff } from './sniff.ts';

/**
 * Identifies a file by its bytes alone and refuses formats that are not accepted. It sniffs the format, reads the header, checks
 * the limits, and lets the decoder that will render the file open it. Our own parsers read headers of images; ffprobe reads
 * those of video and audio. Without `programs`, video and audio are refused. Runs in the isolated process. Throws a
 * `MediaRejectedError`.
 */
export async function identifyFile(
  path: string,
  limits: EngineLimits,
  programs: Programs | null = null,
): Promise<IdentifiedFields> {
  const bytes = openBytes(path);
  try {
    if (bytes.size === 0) {
      throw new MediaRejectedError('empty_file', 'The file is empty. Check that it was saved and sent completely.');
    }
    const sniffed = sniff(bytes);
    if ('looksLike' in sniffed) throw notAccepted(sniffed.looksLike);
    if ('container' in sniffed) {
      if (programs === null) throw noPrograms();
      return await identifyAv({ path, bytes, container: sniffed.container }, limits, programs);
    }
    const header = readKnownHeader(sniffed.format, bytes, limits);
    checkLimits(header, limits);
    await checkDecoder(path, header);
    return describe(header, bytes.size);
  } finally {
    bytes.close();
  }
}

function noPrograms(): MediaRejectedError {
  return new MediaRejectedError(
    'unsupported_format',
    'This is a video or audio file. This service accepts only images until its operator installs ffmpeg.',
  );
}

/** Sniffs and reads the header of an image. Failures become a `MediaRejectedError`. */
export function readHeader(bytes: Bytes, limits: EngineLimits): ImageHeader {
  const sniffed = sniff(bytes);
  if ('looksLike' in sniffed) throw notAccepted(sniffed.looksLike);
  if ('container' in sniffed) throw notAccepted('a video or audio file');
  return readKnownHeader(sniffed.format, bytes, limits);
}

function readKnownHeader(format: ImageFormatId | 'heif', bytes: Bytes, limits: EngineLimits): ImageHeader {
  try {
    return readImageHeader(format, bytes, limits);
  } catch (error) {
    throw rejectionOf(error, formatName(format));
  }
}

function rejectionOf(error: unknown, name: string): unknown {
  if (error instanceof CorruptHeaderError) {
    return corrupt(`The ${name} is damaged: ${error.message}`, error);
  }
  if (error instanceof EndOfFileError) return corrupt(`The ${name} is cut off: its header is incomplete.`, error);
  if (error instanceof OtherFormatError) return notAccepted(error.looksLike);
  if (error instanceof UnsupportedCodingError) {
    return new MediaRejectedError('unsupported_codec', error.message, { cause: error });
  }
  if (error instanceof UnsafeContentError)
    return new MediaRejectedError('unsafe_media', error.message, { cause: error });
  return error;
}

function corrupt(what: string, cause: unknown): MediaRejectedError {
  return new MediaRejectedError('corrupt_media', `${what} Export or copy it again and retry.`, { cause });
}

function notAccepted(looksLike: string): MediaRejectedError {
  return new MediaRejectedError(
    'unsupported_format',
    `This looks like ${looksLike}, whatever its name is. Accepted formats: ${acceptedFormatsText}.`,
  );
}

function checkLimits(header: ImageHeader, limits: EngineLimits): void {
  const { width, height, frames, durationMs } = header;
  if (width < 1 || height < 1) {
    throw new MediaRejectedError(
      'corrupt_media',
      `The header of the image gives its size as ${width} x ${height} pixels, so there is nothing to show.`,
    );
  }
  if (frames > limits.maxFrames) {
    throw new MediaRejectedError(
      'too_many_frames',
      `The animation has more than ${limits.maxFrames} frames. Shorten it, or send it as a video.`,
    );
  }
  if (width * height * frames > limits.maxPixels) {
    const over = frames > 1 ? ` in each of ${frames} or more frames` : '';
    throw new MediaRejectedError(
      'too_many_pixels',
      `The image has ${width} x ${height} pixels${over}; at most ${megapixels(limits.maxPixels)} million in total are accepted. Make it smaller.`,
    );
  }
  if (durationMs !== null && durationMs > limits.maxDurationS * 1_000) {
    throw new MediaRejectedError(
      'too_long',
      `The animation lasts ${Math.round(durationMs / 1_000)} s; at most ${limits.maxDurationS} s are accepted.`,
    );
  }
}

function megapixels(pixels: number): string {
  return (pixels / 1e6).toFixed(pixels < 1e7 ? 1 : 0);
}

function describe(header: ImageHeader, size: number): IdentifiedFields {
  const format = formatById(header.format);
  return {
    kind: 'image',
    format: header.format,
    contentType: format.contentTypes[0] ?? 'application/octet-stream',
    extension: format.extensions[0] ?? header.format,
    bytes: size,
    ...displayedSize(header),
    durationMs: header.durationMs,
    frames: header.frames,
    codecs: { image: header.codec },
    hasAlpha: header.hasAlpha,
    orientation: header.orientation,
    colorSpace: header.colorSpace,
    bitDepth: header.bitDepth,
    icc: header.icc,
    tracks: null,
    warnings: header.warnings,
  };
}
