import type { ImageFormatId } from '../../formats.ts';

/** The facts that a header parser reads from an image file without decoding pixels. */
export interface ImageHeader {
  format: ImageFormatId;
  codec: string;
  /** Size as stored, in pixels, before `orientation`. For animations, the size of the canvas. */
  width: number;
  height: number;
  /** The EXIF orientation, 1 to 8, for display. HEIF's `irot` and `imir` are converted to the equivalent EXIF value. */
  orientation: number;
  /** Frames that the decoder will return. Counting stops just past the limit. */
  frames: number;
  /** Sum of the frames' delays; null for a still image. */
  durationMs: number | null;
  hasAlpha: boolean;
  bitDepth: number;
  /** `srgb`, `gray`, `cmyk`, `lab`, `p3`, … of the source; `rgb` if only an ICC profile defines it. */
  colorSpace: string;
  icc: boolean;
  /** Sentences for a person. */
  warnings: string[];
}

/** Limits at which counting frames stops: one more than any of these is already too many. */
export interface FrameLimits {
  maxPixels: number;
  maxFrames: number;
}

/** Bytes that break the rules of their format; becomes `corrupt_media`. The message completes "The JPEG is damaged: …". */
export class CorruptHeaderError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'CorruptHeaderError';
  }
}

/** A valid file whose coding the decoder does not support; becomes `unsupported_codec`. The message is a sentence. */
export class UnsupportedCodingError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsupportedCodingError';
  }
}

/** A file that is refused because a decoder could do harm with it; becomes `unsafe_media`. The message is a sentence. */
export class UnsafeContentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsafeContentError';
  }
}

/** A file that begins like an accepted format but is another one; becomes `unsupported_format`. */
export class OtherFormatError extends Error {
  /** "a camera raw file" */
  readonly looksLike: string;

  constructor(looksLike: string) {
    super(looksLike);
    this.name = 'OtherFormatError';
    this.looksLike = looksLike;
  }
}

export const endsEarlyWarning = 'The file ends early; the missing part may appear grey or empty.';
