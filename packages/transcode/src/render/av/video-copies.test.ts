import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import {
  durationsOf,
  ffmpegWarnings,
  hls,
  mp4,
  packets,
  programs,
  type RenderedVideo,
  ready,
  renderedVideos,
  sum,
} from '../../../test/rendered-videos.ts';
import { picture, steadyPrograms, tone } from '../../../test/video-clips.ts';
import { parseIdentified } from '../../identified.ts';

const { files, clip, render } = renderedVideos();

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

  test('is copied bit by bit, and the other rungs are cut at its keyframes', async () => {
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
      'Video 90p: encoded, because the source has another size, 320 x 180.',
      'Audio: copied from the source, which already fits.',
    ]);
    expect(nalHash(join(rendered.outDir, 'hls/180p.m3u8'))).toBe(nalHash(path));
    expect(nalHash(ready(rendered, 'mp4').path)).toBe(nalHash(path));
    for (const name of ['180p', '90p']) {
      expect(durationsOf(readFileSync(join(rendered.outDir, `hls/${name}.m3u8`), 'utf8'))).toEqual([1.6, 2.2, 2.2]);
      const keys = packets(join(rendered.outDir, `hls/${name}.m3u8`)).filter(({ key }) => key);
      expect(keys.map(({ time }) => time)).toEqual([0, 1.6, 3.8]);
    }
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
  });

  test('but is damaged is encoded, which conceals the damage, with a warning', async () => {
    const intact = clip(
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
    const bytes = readFileSync(intact);
    const media = bytes.indexOf('mdat') + 4;
    for (let at = media + 2_000; at < bytes.length - 2_000; at += 700) bytes.fill(0xa5, at, at + 40);
    const path = join(dirname(intact), 'damaged.mp4');
    writeFileSync(path, bytes);
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(
      /180p: encoded, though the source fits, because parts of it are damaged/,
    );
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/encoded, though the source fits, because parts of it are damaged/);
    expect(rendered.result.warnings).toContainEqual(expect.stringContaining('Parts of the file are damaged'));
    expect(ffmpegWarnings(ready(rendered, 'mp4').path)).toBe('');
  });

  test('but has too few keyframes is encoded for the ladder, copied for the MP4', async () => {
    const path = clip('sparse.mp4', ...picture('320x180', 6), ...fitting, '-g', '1000');
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/180p: encoded, though the source fits, because its keyframes/);
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/copied/);
    expect(durationsOf(readFileSync(join(rendered.outDir, 'hls/180p.m3u8'), 'utf8'))).toEqual([2, 2, 2]);
  });

  test('but whose keyframes become sparse after a minute is encoded for the ladder', async () => {
    const dense = Array.from({ length: 33 }, (_, n) => 2 * n).join(',');
    const path = clip(
      'sparse-later.mp4',
      ...picture('64x36', 80, 10),
      ...fitting,
      ...['-g', '1000', '-sc_threshold', '0', '-force_key_frames', dense],
    );
    const rendered = await render(path, [hls], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/encoded, though the source fits, because its keyframes/);
    const durations = durationsOf(readFileSync(join(rendered.outDir, 'hls/90p.m3u8'), 'utf8'));
    expect(durations).toHaveLength(40);
    expect(Math.max(...durations)).toBe(2);
  });

  test('but has a far lower frame rate later is still cut to its end', async () => {
    // 25 frames a second for 30 s, then 5, all on the grid of the constant rate. The container has 25 as its rate.
    const path = clip(
      'slower-later.mp4',
      ...picture('64x36', 60, 25),
      ...['-vf', "select='lt(n,750)+not(mod(n,5))'", '-fps_mode', 'vfr'],
      ...fitting,
      ...['-g', '1000', '-sc_threshold', '0', '-force_key_frames', 'expr:gte(t,n_forced*2)'],
    );
    const facts = identifyForTests(path, programs);
    const { video } = facts.tracks ?? {};
    if (!video) throw new Error('A clip has a video.');
    const frameRate = { num: 25, den: 1 };
    const constant = {
      ...facts,
      tracks: { ...facts.tracks, video: { ...video, frameRate, variableFrameRate: false } },
    };
    const rendered = await render(path, [hls], { mayCopy: true, facts: parseIdentified(constant) });
    {
      const text = readFileSync(join(rendered.outDir, 'hls/90p.m3u8'), 'utf8');
      const durations = durationsOf(text);
      expect(Math.max(...durations)).toBeLessThanOrEqual(3);
      expect(Math.abs(sum(durations) - 60)).toBeLessThan(0.3);
      expect(Math.round(Math.max(...durations))).toBeLessThanOrEqual(Number(/TARGETDURATION:(\d+)/.exec(text)?.[1]));
    }
  });

  const filesOf = (rendered: RenderedVideo, name: string) =>
    (ready(rendered, name).files ?? [ready(rendered, name)]).map(({ path }) => {
      const hash = createHash('sha256').update(readFileSync(path));
      return `${relative(rendered.outDir, path)} ${hash.digest('hex')}`;
    });

  test('gives an MP4 that is made again alone the same bytes as beside the ladder', async () => {
    const keys = ['-g', '1000', '-sc_threshold', '0', '-force_key_frames', '1.6,3.8'];
    const path = clip('retried.mp4', ...picture('320x180', 6), ...fitting, ...keys);
    const presets = [hls, { ...mp4, width: 160, height: 90 }];
    const steady = steadyPrograms(programs, files.folder);
    const both = await render(path, presets, { mayCopy: true, programs: steady });
    expect(ready(both, 'hls').notes[0]).toMatch(/copied/);
    expect(packets(ready(both, 'mp4').path).flatMap(({ key, time }) => (key ? [time] : []))).toEqual([0, 1.6, 3.8]);
    const again = await render(path, presets, { mayCopy: true, only: 'mp4', programs: steady });
    expect(filesOf(again, 'mp4')).toEqual(filesOf(both, 'mp4'));
    expect(again.result.renditions).toHaveLength(1);
  });

  test('gives a ladder that is made again alone the same bytes as beside a larger MP4', async () => {
    const path = clip('larger.mp4', ...picture('640x360', 3), ...fitting);
    const presets = [hls, { ...mp4, width: 400, height: 226 }];
    const steady = steadyPrograms(programs, files.folder);
    const both = await render(path, presets, { programs: steady });
    const again = await render(path, presets, { only: 'hls', programs: steady });
    expect(filesOf(again, 'hls')).toEqual(filesOf(both, 'hls'));
  });

  test('but has open groups of pictures is not cut before frames that refer back', async () => {
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
