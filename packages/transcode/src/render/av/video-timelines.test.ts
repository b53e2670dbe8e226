import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import {
  durationsOf,
  ffmpegWarnings,
  hls,
  mp4,
  packets,
  programs,
  ready,
  renderedVideos,
  sum,
} from '../../../test/rendered-videos.ts';
import { fastVideo, picture, tone } from '../../../test/video-clips.ts';
import { parseIdentified } from '../../identified.ts';

const { clip, render } = renderedVideos();

describe('timelines', () => {
  /** Black until second 2, then white; silence until second 2, then a tone. Both changes must stay together. */
  const flash = [
    ...[
      '-f',
      'lavfi',
      '-i',
      "color=black:size=320x180:rate=25:duration=4,drawbox=color=white:t=fill:enable='gte(t,2)'",
    ],
    ...['-f', 'lavfi', '-i', "aevalsrc='if(gte(t,2),sin(2764*t),0)':sample_rate=48000:duration=4"],
  ];

  function flashAt(path: string, ...input: string[]): { seen: number; heard: number } {
    const argv = [...input, '-i', path];
    const run = (...more: string[]) =>
      execFileSync(
        'sh',
        [
          '-c',
          '"$@" 2>&1',
          'sh',
          programs.ffmpeg.path,
          '-hide_banner',
          '-nostdin',
          ...argv,
          ...more,
          '-f',
          'null',
          '-',
        ],
        { encoding: 'utf8' },
      );
    const seen = /black_end:([\d.]+)/.exec(run('-map', '0:v:0', '-vf', 'blackdetect=d=0.1'))?.[1];
    const heard = /silence_end: ([\d.]+)/.exec(run('-map', '0:a:0', '-af', 'silencedetect=n=-40dB:d=0.1'))?.[1];
    return { seen: Number(seen), heard: Number(heard) };
  }

  test.each([
    ['in MPEG-TS, which starts at any time', 'late.ts', ['-output_ts_offset', '37', '-muxdelay', '0']],
    ['after an edit list', 'plain.mp4', []],
  ])('video and audio stay in sync: %s', async (_, name, more) => {
    const plain = clip('plain.mp4', ...flash, ...fastVideo, '-bf', '2', '-c:a', 'aac');
    const path = clip(name, '-i', plain, '-c', 'copy', ...more);
    // The bundled ffprobe crashes on MPEG-TS, so the facts are from the same streams in MP4.
    const facts = parseIdentified({
      ...identifyForTests(plain, programs),
      format: name === 'late.ts' ? 'mpegts' : 'mp4',
    });
    const rendered = await render(path, [hls, mp4], { facts });
    for (const file of [ready(rendered, 'mp4').path, ready(rendered, 'hls').path]) {
      const { seen, heard } = flashAt(file);
      expect(Math.abs(seen - 2), `${file}: seen at ${seen}`).toBeLessThan(0.09);
      expect(Math.abs(seen - heard), `${file}: seen at ${seen}, heard at ${heard}`).toBeLessThan(0.045);
    }
  });

  test('audio that begins after the video, or before it, keeps its offset', async () => {
    const parts = clip('parts.mp4', ...flash, ...fastVideo, '-c:a', 'aac');
    for (const [name, offsets] of [
      ['audio-late.mkv', ['-i', parts, '-itsoffset', '0.7', '-i', parts, '-map', '0:v', '-map', '1:a']],
      ['video-late.mkv', ['-i', parts, '-itsoffset', '0.7', '-i', parts, '-map', '1:v', '-map', '0:a']],
    ] as const) {
      const rendered = await render(clip(name, ...offsets, '-c', 'copy'));
      const { seen, heard } = flashAt(ready(rendered, 'hls').path);
      const apart = name.startsWith('audio') ? 0.7 : -0.7;
      expect(Math.abs(heard - seen - apart), `${name}: seen at ${seen}, heard at ${heard}`).toBeLessThan(0.05);
      expect(packets(ready(rendered, 'mp4').path)[0]?.time).toBe(0);
    }
  });

  test.each([
    ['longer', 2, 5],
    ['shorter', 5, 2],
  ])('audio that is %s than the video keeps its length', async (_, seen, heard) => {
    const path = clip(
      `av-${seen}-${heard}.mp4`,
      ...picture('320x180', seen),
      ...tone(heard),
      ...fastVideo,
      '-c:a',
      'aac',
    );
    const rendered = await render(path);
    const total = (file: string) => sum(durationsOf(readFileSync(join(rendered.outDir, 'hls', file), 'utf8')));
    expect(Math.abs(total('180p.m3u8') - seen)).toBeLessThan(0.041);
    expect(Math.abs(total('audio.m3u8') - heard)).toBeLessThan(0.03);
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
    expect(Math.abs((ready(rendered, 'mp4').durationMs ?? 0) - 5_000)).toBeLessThan(30);
  });

  test('all playlists have one target duration, even if audio is longer (RFC 8216)', async () => {
    const path = clip('moment.mp4', ...picture('320x180', 1.2), ...tone(1.9), ...fastVideo, '-c:a', 'aac');
    const { outDir } = await render(path);
    const targets = ['180p', '90p', 'audio'].map((name) => {
      const text = readFileSync(join(outDir, `hls/${name}.m3u8`), 'utf8');
      const target = Number(/TARGETDURATION:(\d+)/.exec(text)?.[1]);
      for (const seconds of durationsOf(text)) expect(Math.round(seconds), name).toBeLessThanOrEqual(target);
      return target;
    });
    expect(targets).toEqual([2, 2, 2]);
  });
});
