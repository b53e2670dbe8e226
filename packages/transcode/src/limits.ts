/** What a file may ask of the engine, and what a task may ask of the machine. */
export interface EngineLimits {
  /** Width x height, summed over the frames of an animation. */
  maxPixels: number;
  /** Frames of an animation. */
  maxFrames: number;
  /** Seconds of an animation, of video and of audio. */
  maxDurationS: number;
  /** Resident memory of one child process; past it the child is killed and its task fails with `out_of_memory`. */
  maxMemoryBytes: number;
  /** Wall-clock time for looking at one file. */
  identifyTimeoutMs: number;
  /** Wall-clock time for all renditions of one file. */
  renderTimeoutMs: number;
}

/** 268 megapixels is libvips's own default (0x3FFF x 0x3FFF); decoded to RGB they take 0.8 GB, hence the memory cap. */
export const defaultLimits: EngineLimits = {
  maxPixels: 268_435_456,
  maxFrames: 1_000,
  maxDurationS: 14_400,
  maxMemoryBytes: 3 * 1024 ** 3,
  identifyTimeoutMs: 20_000,
  renderTimeoutMs: 300_000,
};

/** An SVG is text that is parsed whole; nothing that people draw comes near this. */
export const maxSvgBytes = 10 * 1024 * 1024;
