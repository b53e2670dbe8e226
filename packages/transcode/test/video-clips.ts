import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPrograms, type Programs } from '../src/ffmpeg/programs.ts';

/** The programs of a test run: those of FFMPEG_PATH and FFPROBE_PATH, else the engine's choice. */
export function programsForTests(): Promise<Programs> {
  const { FFMPEG_PATH: ffmpeg, FFPROBE_PATH: ffprobe } = process.env;
  return findPrograms({ ffmpeg, ffprobe });
}

/** Makes clips in a folder, each once. */
export function clipMaker({ ffmpeg }: Programs, folder: string) {
  return (name: string, ...argv: readonly string[]): string => {
    const path = join(folder, name);
    if (!existsSync(path)) execFileSync(ffmpeg.path, ['-v', 'error', '-y', ...argv, path]);
    return path;
  };
}

/** Options for a moving test picture, and for a tone. */
export const picture = (size: string, seconds: number, rate: number | string = 25): string[] => [
  ...['-f', 'lavfi', '-i', `testsrc2=size=${size}:rate=${rate}:duration=${seconds}`],
];
export const tone = (seconds: number, rate = 48_000): string[] => [
  ...['-f', 'lavfi', '-i', `sine=frequency=440:sample_rate=${rate}:duration=${seconds}`],
];
export const fastVideo = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'];

/**
 * The programs, but x264's lookahead has no thread of its own. With that thread, a few of a hundred equal runs on several threads
 * give different bytes, so outputs could not be compared.
 */
export function steadyPrograms(programs: Programs, folder: string): Programs {
  const path = join(folder, 'steady-ffmpeg');
  const script = `#!/bin/sh
for word do
  shift
  set -- "$@" "$word"
  if [ "$word" = libx264 ]; then set -- "$@" -x264-params sync-lookahead=0; fi
done
exec "${programs.ffmpeg.path}" "$@"
`;
  writeFileSync(path, script, { mode: 0o755 });
  return { ...programs, ffmpeg: { ...programs.ffmpeg, path } };
}
