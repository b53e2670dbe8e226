import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
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
  type RenderedVideo,
  ready,
  renderedVideos,
  rungs,
  streams,
  sum,
} from '../../../test/rendered-videos.ts';
import { fastVideo, picture, steadyPrograms, tone } from '../../../test/video-clips.ts';
import { defaultLimits } from '../../limits.ts';
import { planRenditions } from '../../plan.ts';
import { parsePresets } from '../../presets/presets.ts';
import { runSteps } from './run-steps.ts';
import { videoSteps } from './video.ts';

const { files, clip, render } = renderedVideos();

function mainClip() {
  return clip(
    'main.mp4',
    ...picture('640x360', 5),
    ...tone(5, 44_100),
    ...fastVideo,
    '-b:v',
    '3M',
    '-metadata:s:a:0',
    'language=ger',
    '-c:a',
    'aac',
    '-b:a',
    '320k',
    '-ac',
    '2',
  );
}

let once: Promise<RenderedVideo> | undefined;
const main = () => {
  once ??= render(mainClip());
  return once;
};

describe('a video with audio', () => {
  test('ffmpeg plays the MP4, and the master from both addresses, without warnings', async () => {
    const rendered = await main();
    const { path, revision } = ready(rendered, 'hls');
    expect(ffmpegWarnings(path)).toBe('');
    expect(ffmpegWarnings(join(rendered.outDir, `hls.${revision}`, 'master.m3u8'))).toBe('');
    expect(ffmpegWarnings(ready(rendered, 'mp4').path)).toBe('');
  });

  test('the master playlist has the attributes by which players choose', async () => {
    const rendered = await main();
    const { path, revision, width, height } = ready(rendered, 'hls');
    const master = readFileSync(path, 'utf8');
    expect([width, height]).toEqual([320, 180]);
    expect(master).toMatch(/^#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n/);
    expect(master).toContain(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="German",LANGUAGE="de",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="../hls.${revision}/audio.m3u8"`,
    );
    for (const { name, width: w, height: h } of rungs) {
      const at = master.indexOf(`\n../hls.${revision}/${name}.m3u8\n`);
      const line = master.slice(0, at).split('\n').at(-1) ?? '';
      expect(line).toMatch(/^#EXT-X-STREAM-INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,/);
      expect(line).toContain(`RESOLUTION=${w}x${h},FRAME-RATE=25.000,AUDIO="audio"`);
      const profile = ['-v', 'error', '-select_streams', 'v', '-show_entries', 'stream=level', '-of', 'csv=p=0'];
      const level = Number(
        execFileSync(programs.ffprobe.path, [...profile, join(rendered.outDir, `hls/${name}.m3u8`)], {
          encoding: 'utf8',
        })
          .trim()
          .split('\n')[0],
      );
      expect(line).toMatch(
        new RegExp(`CODECS="avc1\\.[0-9a-f]{4}${level.toString(16).padStart(2, '0')},mp4a\\.40\\.2"`),
      );
      const bytes =
        ready(rendered, 'hls').files?.filter(
          (f) => /\.m4s$/.test(f.name) && (f.name.startsWith(`${name}/`) || f.name.startsWith('audio/')),
        ) ?? [];
      const average = Number(/AVERAGE-BANDWIDTH=(\d+)/.exec(line)?.[1]);
      const peak = Number(/BANDWIDTH=(\d+)/.exec(line)?.[1]);
      expect(average / ((sum(bytes.map((f) => f.bytes)) * 8) / 5)).toBeCloseTo(1, 1);
      expect(peak).toBeGreaterThanOrEqual(average);
    }
  });

  test('every file has a valid delivery name and a content type; the master is first', async () => {
    const rendered = await main();
    const { files: all, bytes, path } = ready(rendered, 'hls');
    expect(all?.[0]).toMatchObject({ name: 'master.m3u8', path, contentType: 'application/vnd.apple.mpegurl' });
    for (const file of all ?? []) {
      // Lower-case segments and one extension, as the grammar of delivery paths requires.
      expect(file.name).toMatch(/^([a-z0-9][a-z0-9_-]{0,63}\/){0,3}[a-z0-9][a-z0-9_-]{0,63}\.[a-z0-9]{1,5}$/);
      expect(readFileSync(file.path).length, file.name).toBe(file.bytes);
      expect(file.contentType).toBe(
        file.name.endsWith('.m3u8')
          ? 'application/vnd.apple.mpegurl'
          : file.name.startsWith('audio/')
            ? 'audio/mp4'
            : 'video/mp4',
      );
    }
    expect(bytes).toBe(sum((all ?? []).map((file) => file.bytes)));
  });

  test('keyframes are at the same frames in all rungs and the MP4, one per segment start', async () => {
    const rendered = await main();
    const { outDir } = rendered;
    const lists = ['hls/180p.m3u8', 'hls/90p.m3u8', 'mp4.mp4'].map((file) => packets(join(outDir, file)));
    const times = lists.map((list) => list.map(({ time }) => time));
    expect(times[1]).toEqual(times[0]);
    expect(times[0]).toHaveLength(125);
    expect(times[0]?.[0]).toBe(0);
    const keys = lists.map((list) => list.filter(({ key }) => key).map(({ time }) => time));
    expect(keys).toEqual([
      [0, 2, 4],
      [0, 2, 4],
      [0, 2, 4],
    ]);
  });

  test('playlists, rendition rows and ffprobe agree on durations, to the frame', async () => {
    const rendered = await main();
    for (const name of ['180p', '90p', 'audio']) {
      const text = readFileSync(join(rendered.outDir, 'hls', `${name}.m3u8`), 'utf8');
      const durations = durationsOf(text);
      const found = packets(join(rendered.outDir, 'hls', `${name}.m3u8`), name === 'audio' ? 'a:0' : 'v:0');
      const end = Math.max(...found.map(({ time, duration }) => time + (duration || 0)));
      expect(sum(durations)).toBeCloseTo(end, 2);
      expect(text).toContain('#EXT-X-TARGETDURATION:2\n');
      expect(text).toContain('#EXT-X-PLAYLIST-TYPE:VOD\n');
      expect(text.endsWith('#EXT-X-ENDLIST\n')).toBe(true);
      // Audio is cut at the same times, to within one AAC frame.
      for (const [index, duration] of durations.entries()) {
        expect(Math.abs(duration - ([2, 2, 1][index] ?? 0))).toBeLessThan(name === 'audio' ? 0.05 : 0.000_001);
      }
    }
    for (const { durationMs } of [ready(rendered, 'hls'), ready(rendered, 'mp4')]) {
      expect(Math.abs((durationMs ?? 0) - 5_000)).toBeLessThan(25);
    }
    expect(ready(rendered, 'hls').frames).toBe(125);
  });

  test('each segment can be decoded without the others', async () => {
    const rendered = await main();
    const segments = ready(rendered, 'hls').files?.filter(({ name }) => name.endsWith('.m4s')) ?? [];
    expect(segments).toHaveLength(9);
    for (const { name, path } of segments) {
      const init = readFileSync(join(rendered.outDir, 'hls', name.split('/')[0] ?? '', 'init.mp4'));
      const alone = join(files.folder, 'alone.mp4');
      writeFileSync(alone, Buffer.concat([init, readFileSync(path)]));
      expect(ffmpegWarnings(alone), name).toBe('');
      const first = packets(alone, name.startsWith('audio') ? 'a:0' : 'v:0')[0];
      expect(first?.key, name).toBe(true);
      if (!name.startsWith('audio')) expect(first?.time).toBe(2 * (Number(name.slice(-9, -4)) - 1));
    }
  });

  test('the MP4 has its index first, yuv420p, and no tags of source or encoder', async () => {
    const { path } = ready(await main(), 'mp4');
    const bytes = readFileSync(path);
    expect(bytes.indexOf('moov')).toBeLessThan(bytes.indexOf('mdat'));
    expect(bytes.includes('x264')).toBe(false);
    expect(bytes.includes('Lavf')).toBe(false);
    const [video, audio] = streams(path);
    expect(video).toMatchObject({ codec_name: 'h264', width: 320, height: 180, pix_fmt: 'yuv420p' });
    expect(audio).toMatchObject({ codec_name: 'aac', channels: 2, sample_rate: '44100' });
  });

  test('the same source gives the same bytes again, even on one processor core', async () => {
    const digest = ({ result }: RenderedVideo) =>
      result.renditions.flatMap((each) =>
        each.state !== 'ready'
          ? [each.reason]
          : (each.files ?? [each]).map(({ path }) => createHash('sha256').update(readFileSync(path)).digest('hex')),
      );
    const steady = steadyPrograms(programs, files.folder);
    const first = await render(mainClip(), [hls, mp4], { programs: steady });
    const slow = files.file(`#!/bin/sh\nexec taskset -c 0 ${steady.ffmpeg.path} "$@"\n`, 'one-core');
    execFileSync('chmod', ['+x', slow]);
    const oneCore = { ...programs, ffmpeg: { ...programs.ffmpeg, path: slow } };
    const second = await render(mainClip(), [hls, mp4], { programs: oneCore });
    for (const name of ['hls', 'mp4']) expect(ready(second, name).bytes).toBeGreaterThan(0);
    expect(digest(second)).toEqual(digest(first));
  });

  test('progress rises from 0 to 1 and never decreases', async () => {
    const { fractions } = await main();
    expect(fractions.length).toBeGreaterThan(2);
    expect([...fractions].sort((a, b) => a - b)).toEqual(fractions);
    expect(fractions.at(-1)).toBe(1);
  });

  test('the reports of programs hide paths', async () => {
    const { result } = await main();
    expect(result.runs.length).toBeGreaterThan(3);
    const text = JSON.stringify(result.runs);
    expect(text).not.toContain(files.folder);
    expect(text).toContain('SOURCE');
  });
});

describe('failures', () => {
  test('a cut source is rendered as far as it goes, with a warning', async () => {
    const whole = clip('whole.mkv', ...picture('320x180', 6), ...tone(6), ...fastVideo, '-c:a', 'aac');
    const bytes = readFileSync(whole);
    const cut = files.file(bytes.subarray(0, bytes.length / 2), 'cut.mkv');
    const rendered = await render(cut, [hls, mp4], { facts: identifyForTests(whole, programs) });
    expect(rendered.result.warnings.join()).toMatch(/Only \d\.\d s of 6\.\d s could be decoded/);
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
    expect(ready(rendered, 'mp4').durationMs).toBeLessThan(5_000);
  });

  test('an abort ends ffmpeg at once and rejects', async () => {
    const path = clip('long.mp4', ...picture('640x360', 60, 30), ...fastVideo);
    const controller = new AbortController();
    const began = Date.now();
    const slow = [{ ...hls, speed: 'slower' }];
    const rendering = render(path, slow, { signal: controller.signal });
    setTimeout(() => controller.abort(), 700);
    await expect(rendering).rejects.toMatchObject({ name: 'RenderError', code: 'aborted' });
    expect(Date.now() - began).toBeLessThan(10_000);
  });

  test('an undecodable source fails with a sentence and leaves no files', async () => {
    const good = clip('good.mp4', ...picture('320x180', 1), ...fastVideo, '-movflags', '+faststart', '-b:v', '3M');
    const bytes = readFileSync(good);
    const bad = files.file(bytes.subarray(0, 600), 'cut.mp4');
    const identified = identifyForTests(good, programs);
    const wanted = planRenditions(identified, parsePresets([hls, mp4])).filter(({ state }) => state === 'make');
    const { tracks } = identified;
    if (tracks === null) throw new Error('A clip has tracks.');
    const source = { ...identified, tracks };
    const outDir = files.outDir();
    const result = await runSteps(bad, source, videoSteps(source, wanted), wanted, outDir, {
      limits: defaultLimits,
      programs,
    });
    for (const rendition of result.renditions) {
      expect(rendition).toMatchObject({ state: 'failed', code: 'corrupt_media' });
    }
    expect(execFileSync('ls', ['-A', outDir], { encoding: 'utf8' })).toBe('');
    expect(result.runs.at(-1)?.outcome).toMatch(/exited/);
  });
});
