import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  complaints,
  durationsOf,
  hls,
  mp4,
  packets,
  programs,
  ready,
  renderedVideos,
} from '../../../test/rendered-videos.ts';
import { picture, tone } from '../../../test/video-clips.ts';

const { clip, render } = renderedVideos();

describe('a source that already fits', () => {
  const fitting = [
    '-c:v',
    'libx264',
    '-preset',
    'veryfast',
    '-pix_fmt',
    'yuv420p',
    '-maxrate',
    '300k',
    '-bufsize',
    '300k',
  ];

  /** The H.264 of a file as a stream of NAL units, hashed. */
  function nalHash(path: string): string {
    const argv = ['-v', 'error', '-i', path, '-map', '0:v:0', '-c', 'copy', '-f', 'h264', '-'];
    return createHash('sha256')
      .update(execFileSync(programs.ffmpeg.path, argv, { maxBuffer: 1 << 26 }))
      .digest('hex');
  }

  test('is copied, bit by bit, and the other rungs are cut where its keyframes are', async () => {
    const path = clip(
      'fits.mp4',
      ...picture('320x180', 6),
      ...tone(6),
      ...fitting,
      '-force_key_frames',
      '1.6,3.8',
      '-c:a',
      'aac',
    );
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes).toEqual([
      'Video 180p: copied from the source, which already fits.',
      'Video 90p: encoded.',
      'Audio: copied from the source, which already fits.',
    ]);
    expect(nalHash(join(rendered.outDir, 'hls/180p.m3u8'))).toBe(nalHash(path));
    expect(nalHash(ready(rendered, 'mp4').path)).toBe(nalHash(path));
    for (const name of ['180p', '90p']) {
      expect(durationsOf(readFileSync(join(rendered.outDir, `hls/${name}.m3u8`), 'utf8'))).toEqual([1.6, 2.2, 2.2]);
      const keys = packets(join(rendered.outDir, `hls/${name}.m3u8`)).filter(({ key }) => key);
      expect(keys.map(({ time }) => time)).toEqual([0, 1.6, 3.8]);
    }
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
  });

  test('but is damaged is encoded, which conceals what a copy would hand on, and its owner is told', async () => {
    const sound = clip(
      'whole.mp4',
      ...picture('320x180', 6),
      ...tone(6),
      ...fitting,
      '-g',
      '50',
      '-c:a',
      'aac',
      '-movflags',
      'faststart',
    );
    const bytes = readFileSync(sound);
    const media = bytes.indexOf('mdat') + 4;
    for (let at = media + 2_000; at < bytes.length - 2_000; at += 700) bytes.fill(0xa5, at, at + 40);
    const path = join(dirname(sound), 'damaged.mp4');
    writeFileSync(path, bytes);
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(
      /180p: encoded, though the source fits, because parts of it are damaged/,
    );
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/encoded, though the source fits, because parts of it are damaged/);
    expect(rendered.result.warnings).toEqual([expect.stringContaining('Parts of the file are damaged')]);
    expect(complaints(ready(rendered, 'mp4').path)).toBe('');
  });

  test('but has too few keyframes is encoded for the ladder and copied for the MP4, and the notes say why', async () => {
    const path = clip('sparse.mp4', ...picture('320x180', 6), ...fitting, '-g', '1000');
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/180p: encoded, though the source fits, because its keyframes/);
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/copied/);
    expect(durationsOf(readFileSync(join(rendered.outDir, 'hls/180p.m3u8'), 'utf8'))).toEqual([2, 2, 2]);
  });

  test('but has open groups of pictures is not cut where frames would miss what they refer to', async () => {
    const path = clip(
      'open.mp4',
      ...picture('320x180', 6),
      ...fitting,
      '-g',
      '50',
      '-x264opts',
      'open-gop=1:bframes=3:scenecut=0',
    );
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/encoded, though the source fits/);
  });
});
