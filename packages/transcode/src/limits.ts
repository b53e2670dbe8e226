/** Limits on files, and on the resources of a task. */
export interface EngineLimits {
  /** Width x height, summed over the frames of an animation. */
  maxPixels: number;
  /** Frames of an animation. */
  maxFrames: number;
  /** Seconds of an animation, of video and of audio. */
  maxDurationS: number;
  /** Resident memory of one child process. Above it the child is killed and its task fails with `out_of_memory`. */
  maxMemoryBytes: number;
  /** Wall-clock time to identify one file. */
  identifyTimeoutMs: number;
  /** Wall-clock time for all renditions of one file. */
  renderTimeoutMs: number;
}

/** 268 megapixels is libvips's own default (0x3FFF x 0x3FFF). Decoded to RGB they take 0.8 GB, hence the memory limit. */
export const defaultLimits: EngineLimits = {
  maxPixels: 268_435_456,
  maxFrames: 1_000,
  maxDurationS: 14_400,
  maxMemoryBytes: 3 * 1024 ** 3,
  identifyTimeoutMs: 20_000,
  renderTimeoutMs: 300_000,
};

/** An SVG is parsed as a whole; real drawings are far smaller than this. */
export const maxSvgBytes = 10 * 1024 * 1024;
