import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Program } from '@mds/transcode';
import { cached } from '../cache.ts';
import { twelveMegapixels } from './twelve-megapixels.ts';

export const filmSize = { width: 1920, height: 1080 };
export const filmFrameRate = 30;

/**
 * A film of 1080p30 with audio as a camera would write it, made once: slow pans and zooms over a painted landscape with film
 * grain, and a cut every five seconds. H.264 at about 12 Mbit/s is too much for any rung, so that nothing can be copied.
 */
export async function film(ffmpeg: Program, seconds: number): Promise<string> {
  const pictures = await twelveMegapixels();
  return cached(`film-1-${seconds}s.mp4`, async (path) => {
    const shot = 5 * filmFrameRate;
    const shots = Math.ceil(seconds / 5);
    const inputs = Array.from({ length: shots }, (_, i) => pictures[i % pictures.length] ?? '');
    const chains = inputs.map((_, i) => {
      const inwards = i % 2 === 0;
      const zoom = inwards ? '1+0.0012*on' : '1.18-0.0012*on';
      const pan = `x='(iw-iw/zoom)*on/${shot}':y='(ih-ih/zoom)*${inwards ? '' : '1-'}on/${shot}'`;
      return `[${i}:v]scale=2880:2160,crop=2880:1620,zoompan=z='${zoom}':${pan}:d=${shot}:s=1920x1080:fps=${filmFrameRate},noise=alls=6:allf=t,format=yuv420p[p${i}]`;
    });
    const joined = `${inputs.map((_, i) => `[p${i}]`).join('')}concat=n=${shots}:v=1[v]`;
    await promisify(execFile)(
      ffmpeg.path,
      [
        ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-y'],
        ...inputs.flatMap((input) => ['-i', input]),
        ...['-f', 'lavfi', '-i', `anoisesrc=color=pink:amplitude=0.1:sample_rate=48000:duration=${seconds}`],
        ...['-filter_complex', [...chains, joined].join(';'), '-map', '[v]', '-map', `${shots}:a`],
        ...['-t', `${seconds}`, '-c:v', 'libx264', '-preset', 'veryfast', '-b:v', '12M', '-g', '60'],
        ...['-c:a', 'aac', '-b:a', '160k', '-ac', '2', '-f', 'mp4', path],
      ],
      { maxBuffer: 1 << 24 },
    );
  });
}
