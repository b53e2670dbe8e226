import { execFile } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Program } from '@mds/transcode';

/** Bytes of a rung's segments, and their similarity to the source. */
export interface RungScore {
  readonly bytes: number;
  /** SSIM of brightness, the mean over all frames. */
  readonly ssim: number;
  /** Mean SSIM of both colour planes over all frames. */
  readonly colourSsim: number;
}

/**
 * Scores the rung with the segments in `folder` and the media playlist at `playlist`. ffmpeg's `ssim` filter compares each frame
 * with that of the source, scaled to the size of the rung.
 */
export async function scoreRung(
  ffmpeg: Program,
  source: string,
  { folder, playlist }: { folder: string; playlist: string },
  { width, height }: { width: number; height: number },
): Promise<RungScore> {
  let bytes = 0;
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.m3u8')) bytes += (await stat(join(folder, name))).size;
  }
  const graph = `[1:v]scale=${width}:${height}:flags=lanczos,setpts=PTS-STARTPTS[r];[0:v]setpts=PTS-STARTPTS[d];[d][r]ssim`;
  const argv = ['-hide_banner', '-nostdin', '-allowed_extensions', 'ALL', '-i', playlist, '-i', source];
  const { stderr } = await promisify(execFile)(
    ffmpeg.path,
    [...argv, '-lavfi', graph, '-map', '0:v', '-f', 'null', '-'],
    {
      maxBuffer: 1 << 24,
    },
  );
  const found = /SSIM Y:([\d.]+).* U:([\d.]+).* V:([\d.]+)/.exec(stderr);
  if (found === null) throw new Error(`ffmpeg compared nothing of ${folder}: ${stderr.slice(-500)}`);
  const [luma = 0, blue = 0, red = 0] = found.slice(1).map(Number);
  return { bytes, ssim: luma, colourSsim: (blue + red) / 2 };
}
