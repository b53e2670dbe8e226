import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import {
  colourAt,
  durationsOf,
  ffmpegWarnings,
  hls,
  mp4,
  packets,
  programs,
  ready,
  renderedVideos,
  streams,
  sum,
} from '../../../test/rendered-videos.ts';
import { fastVideo, picture, tone } from '../../../test/video-clips.ts';

const { clip, render } = renderedVideos();

/** Copies a clip with a rotation: versions from 6 on have an option, older ones a tag. */
function turned(path: string): string[] {
  const hasOption = Number.parseInt(programs.ffmpeg.version.replace(/^n/, ''), 10) >= 6;
  return hasOption
    ? ['-display_rotation', '-90', '-i', path, '-c', 'copy']
    : ['-i', path, '-c', 'copy', '-metadata:s:v:0', 'rotate=90'];
}

/** The PQ (SMPTE ST 2084) signal for a luminance in cd/m², 0 to 1. */
function pq(luminance: number): number {
  const y = (luminance / 10_000) ** 0.1593017578125;
  return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375;
}

/** The HLG (ITU-R BT.2100) signal for a grey that a screen of 1,000 cd/m² shows with this luminance, 0 to 1. */
function hlg1000(luminance: number): number {
  const scene = (luminance / 1_000) ** (1 / 1.2);
  const [a, b, c] = [0.17883277, 0.28466892, 0.55991073];
  return scene <= 1 / 12 ? Math.sqrt(3 * scene) : a * Math.log(12 * scene - b) + c;
}

describe('sources of every shape', () => {
  test.each([
    ['upright', '180x320', [], [180, 320]],
    ['odd', '321x181', [], [320, 180]],
    ['tiny', '64x36', [], [64, 36]],
  ] as const)('%s', async (name, size, more, [width, height]) => {
    const pixels = size === '321x181' ? 'yuv444p' : 'yuv420p';
    const path = clip(`${name}.mp4`, ...picture(size, 1), ...fastVideo, '-pix_fmt', pixels, ...more);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ width, height, sample_aspect_ratio: '1:1' });
    expect(ready(rendered, 'hls')).toMatchObject({ width, height, frames: 25, durationMs: 1_000 });
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
  });

  test('a rotated video is turned once, not again by the player', async () => {
    const flat = clip('flat.mp4', ...picture('320x180', 1), ...fastVideo);
    const path = clip('rotated.mp4', ...turned(flat));
    expect((identifyForTests(path, programs).tracks?.video?.rotation ?? 0) % 180).toBe(90);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ width: 180, height: 320 });
    expect(identifyForTests(ready(rendered, 'mp4').path, programs).tracks?.video?.rotation).toBe(0);
  });

  test('pixels that are not square become square', async () => {
    const path = clip('wide.mp4', ...picture('160x180', 1), ...fastVideo, '-vf', 'setsar=2/1');
    const rendered = await render(path);
    const [video] = streams(ready(rendered, 'mp4').path);
    expect(video).toMatchObject({ width: 320, height: 180, sample_aspect_ratio: '1:1' });
  });

  test('a single frame becomes a ladder and an MP4', async () => {
    const path = clip('one-frame.mp4', ...picture('320x180', 1), '-frames:v', '1', ...fastVideo);
    const rendered = await render(path);
    expect(ready(rendered, 'hls')).toMatchObject({ frames: 1, durationMs: 40 });
    expect(packets(ready(rendered, 'mp4').path)).toHaveLength(1);
  });

  test('a varying frame rate becomes a constant one, at the same speed', async () => {
    const path = clip(
      'variable.mkv',
      ...picture('320x180', 4),
      '-vf',
      "select='lt(n,50)+not(mod(n,3))'",
      '-fps_mode',
      'vfr',
      ...fastVideo,
    );
    const rendered = await render(path);
    const distances = packets(ready(rendered, 'mp4').path)
      .map(({ time }, i, all) => time - (all[i - 1]?.time ?? 0))
      .slice(1);
    expect(Math.max(...distances) - Math.min(...distances)).toBeLessThan(0.001);
    expect(Math.abs((ready(rendered, 'mp4').durationMs ?? 0) - 4_000)).toBeLessThan(130);
  });

  test('a video without audio has a ladder without an audio group', async () => {
    const path = clip('silent.mp4', ...picture('320x180', 3), ...fastVideo);
    const rendered = await render(path);
    const master = readFileSync(ready(rendered, 'hls').path, 'utf8');
    expect(master).not.toMatch(/AUDIO|mp4a/);
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
    expect(streams(ready(rendered, 'mp4').path)).toHaveLength(1);
  });

  test('an audio file has a master playlist with only its audio', async () => {
    const path = clip('audio.flac', ...tone(5));
    const rendered = await render(path);
    const master = readFileSync(ready(rendered, 'hls').path, 'utf8');
    expect(master).toMatch(
      /#EXT-X-STREAM-INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,CODECS="mp4a.40.2"\n\.\.\/hls\.[0-9a-f]{8}\/audio\.m3u8\n/,
    );
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
    expect(durationsOf(readFileSync(join(rendered.outDir, 'hls/audio.m3u8'), 'utf8'))).toHaveLength(3);
    expect(rendered.result.renditions).toHaveLength(1);
  });

  test.each([
    ['pq', 'smpte2084', pq, 4_000],
    ['hlg', 'arib-std-b67', hlg1000, 990],
  ] as const)(
    'high dynamic range (%s, 10 bits) is mapped, tagged and as bright as other video',
    async (hdr, transfer, signal, highlight) => {
      const tags = ['-color_primaries', 'bt2020', '-color_trc', transfer, '-colorspace', 'bt2020nc'];
      // Greys that a screen shows as a quarter and a half of white's code value, and a highlight.
      const luma = (luminance: number) => Math.round(64 + 876 * signal(luminance));
      const shownAs = (code: number) => 203 * code ** 2.4;
      const third = (n: number) => `lt(X\\,${n * 108})`;
      const lum = `if(${third(1)}\\,${luma(shownAs(0.25))}\\,if(${third(2)}\\,${luma(shownAs(0.5))}\\,${luma(highlight)}))`;
      const graph = `color=black:size=320x180:rate=25:duration=1,format=yuv420p10le,geq=lum=${lum}:cb=512:cr=512`;
      const path = clip(`${hdr}.mp4`, '-f', 'lavfi', '-i', graph, '-c:v', 'libx264', '-preset', 'ultrafast', ...tags);
      expect(identifyForTests(path, programs).tracks?.video).toMatchObject({ hdr, pixelFormat: 'yuv420p10le' });
      const rendered = await render(path);
      expect(rendered.result.warnings).toEqual([]);
      const { path: made } = ready(rendered, 'mp4');
      expect(streams(made)[0]).toMatchObject({
        ...{ pix_fmt: 'yuv420p', color_range: 'tv' },
        ...{ color_space: 'bt709', color_transfer: 'bt709', color_primaries: 'bt709' },
      });
      for (const [x, code] of [
        [50, 0x40],
        [160, 0x80],
      ] as const) {
        const [red = 0, green = 0, blue = 0] = colourAt(made, 0, x, 100);
        expect(Math.max(red, green, blue) - Math.min(red, green, blue), `${x}`).toBeLessThan(4);
        // Two percent of white's value, for rounding in 10 and 8 bits and by the encoder.
        expect(Math.abs(red - code), `${code} became ${red}`).toBeLessThanOrEqual(5);
      }
      expect(colourAt(made, 0, 280, 100)[0]).toBeGreaterThan(235);
    },
  );

  test.each([
    ['mp2.ts', 'mpegts', ['-c:a', 'mp2']],
    ['alac.mov', 'mov', ['-c:a', 'alac']],
  ])('a recording with audio as in %s keeps its audio', async (name, format, codec) => {
    const path = clip(name, ...picture('320x180', 2), ...tone(2), ...fastVideo, ...codec);
    const rendered = await render(path, [hls, mp4], { facts: { ...identifyForTests(path, programs), format } });
    for (const file of [ready(rendered, 'mp4').path, ready(rendered, 'hls').path])
      expect(ffmpegWarnings(file)).toBe('');
    const { path: made } = ready(rendered, 'mp4');
    const shape = { codec_name: 'aac', sample_rate: '48000', channels: 1 };
    expect(
      [made, ready(rendered, 'hls').path].map((file) => streams(file).find(({ channels }) => channels)),
    ).toMatchObject([shape, shape]);
    expect(Number(streams(made)[1]?.bit_rate), 'half of what two channels get').toBeLessThan(80_000);
    // A sine of an eighth of full scale (-21 dB) on its only channel.
    const volume = ffmpegWarnings(made, '-v', 'info', '-af', 'volumedetect');
    expect(Math.abs(Number(/mean_volume: (-[\d.]+) dB/.exec(volume)?.[1]) + 21)).toBeLessThan(1);
  });

  test('interlaced video is made progressive', async () => {
    const path = clip(
      'interlaced.mp4',
      ...picture('320x180', 2, 50),
      '-vf',
      'interlace',
      ...fastVideo,
      '-flags',
      '+ildct+ilme',
      '-x264opts',
      'tff=1',
    );
    const source = identifyForTests(path, programs);
    expect(source.tracks?.video?.interlaced).toBe(true);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ field_order: 'progressive' });
    const comb = (file: string) => {
      const argv = ['-hide_banner', '-nostdin', '-i', file, '-vf', 'idet', '-f', 'null', '-'];
      const text = execFileSync('sh', ['-c', '"$@" 2>&1', 'sh', programs.ffmpeg.path, ...argv], { encoding: 'utf8' });
      // Some versions set the filter up twice and report both.
      const found = [...text.matchAll(/Multi frame detection: TFF:\s*(\d+) BFF:\s*(\d+)/g)].at(-1);
      return Number(found?.[1]) + Number(found?.[2]);
    };
    expect(comb(path)).toBeGreaterThan(20);
    expect(comb(ready(rendered, 'mp4').path)).toBeLessThan(comb(path) / 4);
  });

  test('transparent parts are laid over black', async () => {
    const graph =
      'color=red:size=320x180:rate=25:duration=1,format=yuva420p,geq=lum=lum(X\\,Y):cb=cb(X\\,Y):cr=cr(X\\,Y):a=if(lt(X\\,160)\\,255\\,0)';
    const path = clip(
      'alpha.webm',
      '-f',
      'lavfi',
      '-i',
      graph,
      '-c:v',
      'libvpx-vp9',
      '-deadline',
      'realtime',
      '-cpu-used',
      '8',
      '-auto-alt-ref',
      '0',
    );
    const rendered = await render(path);
    const { path: made } = ready(rendered, 'mp4');
    expect(colourAt(made, 0, 40, 90)[0]).toBeGreaterThan(200);
    expect(sum(colourAt(made, 0, 280, 90))).toBeLessThan(30);
  });

  test('standard definition keeps its matrix, its tag and its colours', async () => {
    const path = clip('red.mp4', '-f', 'lavfi', '-i', 'color=0xC02040:size=320x180:rate=25:duration=1', ...fastVideo);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ color_space: 'smpte170m' });
    const colour = colourAt(ready(rendered, 'mp4').path, 0, 100, 90);
    for (const [index, value] of [0xc0, 0x20, 0x40].entries())
      expect(Math.abs((colour[index] ?? 0) - value)).toBeLessThan(6);
  });
});
