import { readFile } from 'node:fs/promises';
import { createEngine, defaultPresets, type Engine, type Preset, parsePresets } from '@mds/transcode';
import type { Logger } from '../base/logger.ts';
import { ConfigError } from '../base/settings.ts';
import type { ProcessingSettings } from './settings.ts';

/** The engine with the configured limits and programs. It starts no process yet. */
export function composeEngine(settings: ProcessingSettings, logger: Logger): Engine {
  const { maxPixels, maxFrames, maxDurationS, workerConcurrency, renderThreads, ffmpegPath, ffprobePath } = settings;
  return createEngine({
    limits: { maxPixels, maxFrames, maxDurationS },
    concurrency: workerConcurrency,
    renderThreads: renderThreads ?? undefined,
    programs: { ffmpeg: ffmpegPath ?? undefined, ffprobe: ffprobePath ?? undefined },
    onChildExit: (exit) => {
      if (exit.reason === 'recycled' || exit.reason === 'stopped') return;
      const { pid: childPid, ...how } = exit;
      logger.warn({ childPid, ...how }, 'engine child exited');
    },
  });
}

/** The configured presets. @throws ConfigError if their file cannot be read or is not valid */
export async function loadPresets({ presetsFile: file }: ProcessingSettings): Promise<readonly Preset[]> {
  if (file === null) return defaultPresets;
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file} cannot be read as JSON: ${(error as Error).message}`]);
  }
  try {
    return parsePresets(json);
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file}: ${(error as Error).message}`]);
  }
}
