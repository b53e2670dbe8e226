import type { ImageFormatId } from '../../formats.ts';

/** What a header parser reads from an image file without decoding a pixel. */
export interface ImageHeader {
  format: ImageFormatId;
  codec: string;
  /** Size as stored, in pixels, before `orientation`. For animations that of the canvas. */
  width: number;
  height: number;
  /** EXIF orientation 1 to 8 that displaying it needs; HEIF's `irot` and `imir` are given as the equal EXIF value. */
  orientation: number;
  /** Frames that the decoder will give. Counting stops just past the limit. */
  frames: number;
  /** Sum of the frames' delays; null for a still. */
  durationMs: number | null;
  hasAlpha: boolean;
  bitDepth: number;
  /** `srgb`, `gray`, `cmyk`, `lab`, `p3`, … of the source; `rgb` where an ICC profile alone says which. */
  colorSpace: string;
  icc: boolean;
  /** Sentences for a person. */
  warnings: string[];
}

/** Where counting frames may stop: one past any of these is too many already. */
export interface FrameLimits {
  maxPixels: number;
  maxFrames: number;
}

/** Bytes that break the format's own rules; becomes `corrupt_media`. The message completes "The JPEG is damaged: …". */
export class CorruptHeaderError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'CorruptHeaderError';
  }
}

/** A legal file whose coding the decoder does not have; becomes `unsupported_codec`. The message is a sentence. */
export class UnsupportedCodingError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsupportedCodingError';
  }
}

/** A file that is refused for what it could make a decoder do; becomes `unsafe_media`. The message is a sentence. */
export class UnsafeContentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsafeContentError';
  }
}

/** A file whose first bytes were those of an accepted format but that is something else; becomes `unsupported_format`. */
export class OtherFormatError extends Error {
  /** "a camera raw file" */
  readonly looksLike: string;

  constructor(looksLike: string) {
    super(looksLike);
    this.name = 'OtherFormatError';
    this.looksLike = looksLike;
  }
}

export const endsEarlyWarning = 'The file ends early; what is missing may show as a grey or empty part.';
