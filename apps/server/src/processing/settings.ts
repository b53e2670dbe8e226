import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import { optional, type SettingsOf, setting, wholeNumber } from '../base/settings.ts';

/** Absolute, as each run has a working folder of its own. */
const path = z.string().transform((text) => resolve(text));

export const processingSettings = {
  /** JSON file of presets; null: the built-in ones. */
  presetsFile: setting('MDS_PRESETS', optional(path)),
  maxPixels: setting('MDS_MAX_PIXELS', wholeNumber(1, 2 ** 40).default(268_435_456)),
  maxFrames: setting('MDS_MAX_FRAMES', wholeNumber(1, 1_000_000).default(1000)),
  maxDurationS: setting('MDS_MAX_DURATION_S', wholeNumber(1, 31_536_000).default(4 * 3600)),
  workerConcurrency: setting(
    'MDS_WORKER_CONCURRENCY',
    wholeNumber(1, 256).default(() => Math.max(1, availableParallelism() - 1)),
  ),
  /** Threads that work on one picture; null: as many as there are cores. */
  renderThreads: setting('MDS_RENDER_THREADS', optional(wholeNumber(1, 256))),
  /** Programs for video and audio; null: searched for. */
  ffmpegPath: setting('FFMPEG_PATH', optional(path)),
  ffprobePath: setting('FFPROBE_PATH', optional(path)),
};
export type ProcessingSettings = SettingsOf<typeof processingSettings>;
