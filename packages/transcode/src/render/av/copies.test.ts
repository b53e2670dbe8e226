import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ffmpegWarnings, hls, mp4, packets, programs, ready, renderedVideos } from '../../../test/rendered-videos.ts';
import { picture, tone } from '../../../test/video-clips.ts';
import { parseIdentified } from '../../identified.ts';
import { identifyFile } from '../../identify/identify.ts';
import { defaultLimits } from '../../limits.ts';

const { files, clip, render } = renderedVideos();

const fitting = [
  ...['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-maxrate', '200k', '-bufsize', '200k'],
  ...['-sc_threshold', '0', '-g', '50', '-bf', '0'],
];
/** Renders with the facts that the service finds in a file, including bit rates. */
async function renderAsSent(path: string, presets: object[] = [hls, mp4], run = programs) {
  const facts = parseIdentified(await identifyFile(path, defaultLimits, programs));
  return render(path, presets, { mayCopy: true, facts, programs: run });
}

const damageWarning = expect.stringContaining('Parts of the file are damaged');

describe('a transport stream with one flipped bit in its audio', () => {
  /** H.264 and AAC; the header of the `nth` AAC frame is damaged. */
  function flipped(nth: number): string {
    // The video comes first; otherwise it would be encoded for another reason.
    const inputs = [...picture('320x180', 6), '-itsoffset', '0.1', ...tone(6, 44_100)];
    const whole = clip('whole.ts', ...inputs, ...fitting, '-c:a', 'aac');
    const bytes = readFileSync(whole);
    let at = -1;
    for (let frame = 0; frame <= nth; frame += 1) at = bytes.indexOf(Buffer.from('fff15040', 'hex'), at + 1);
    expect(at).toBeGreaterThan(0);
    bytes[at] = 0xef;
    return files.file(bytes, `flipped-${nth}.ts`);
  }

  test.each([
    ['whose copy has no configuration', 0],
    ['that cannot be copied', 20],
  ])('%s has its audio encoded, its video copied, and a warning', async (_, nth) => {
    const rendered = await renderAsSent(flipped(nth));
    const { notes } = ready(rendered, 'hls');
    expect(notes[0]).toBe('Video 180p: copied from the source, which already fits.');
    expect(notes.at(-1)).toMatch(/^Audio: encoded, though the source fits, because parts of it are damaged/);
    expect(rendered.result.warnings).toEqual([damageWarning]);
    expect(ffmpegWarnings(ready(rendered, 'mp4').path)).toBe('');
    expect(packets(join(rendered.outDir, 'hls/audio.m3u8'), 'a:0').length).toBeGreaterThan(240);
  });
});

const keyTimes = (path: string) => packets(path).flatMap(({ key, time }) => (key ? [time] : []));
const encodedRungs = [
  { name: '180p', width: 320, height: 180, bitrate: 500_000 },
  { name: '90p', width: 160, height: 90, bitrate: 150_000 },
  { name: '60p', width: 106, height: 60, bitrate: 100_000 },
];

test('a copy that passes all checks but gives a broken file is encoded, with a warning', async () => {
  const path = clip('odd.mp4', ...picture('320x180', 4), ...tone(4), ...fitting, '-c:a', 'aac');
  // An ffprobe that fails for the first playlist.
  const read = join(files.folder, 'one-was-read');
  const real = programs.ffprobe.path;
  const script = `#!/bin/sh\ncase "$*" in *180p.m3u8*) [ -e ${read} ] || { touch ${read}; exit 1; } ;; esac\nexec "${real}" "$@"\n`;
  const odd = files.file(script, 'ffprobe');
  chmodSync(odd, 0o755);
  const failingOnce = { ...programs, ffprobe: { ...programs.ffprobe, path: odd } };
  const rendered = await renderAsSent(path, [hls, mp4], failingOnce);
  expect(ready(rendered, 'mp4').notes[0]).toMatch(/copied/);
  expect(ready(rendered, 'hls').notes[0]).toMatch(/180p: encoded, though the source fits, because .* was defective/);
  expect(ready(rendered, 'hls').notes.at(-1)).toMatch(/Audio: encoded, though the source fits/);
  expect(rendered.result.warnings).toEqual([expect.stringContaining('it was encoded instead')]);
  expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
});

describe('rungs encoded beside a copied one', () => {
  const keyTimesOf = async (path: string, segment_seconds: number) => {
    const rendered = await renderAsSent(path, [{ ...hls, rungs: encodedRungs, segment_seconds }]);
    expect(ready(rendered, 'hls').notes[0]).toMatch(/180p: copied/);
    return encodedRungs.map(({ name }) => keyTimes(join(rendered.outDir, `hls/${name}.m3u8`)));
  };

  test('have only the first keyframe if the copy of a short clip has no other', async () => {
    const path = clip('single.mp4', ...picture('320x180', 5, 30), ...fitting, '-g', '250');
    expect(await keyTimesOf(path, 4)).toEqual([[0], [0], [0]]);
  });

  test('have their keyframes at those of the copy, even within segments', async () => {
    const path = clip('every-second.mp4', ...picture('320x180', 6), ...fitting, '-g', '25');
    const each = [0, 1, 2, 3, 4, 5];
    expect(await keyTimesOf(path, 2)).toEqual([each, each, each]);
  });

  test('have keyframes only at segment starts if the copy has hardly any other frames', async () => {
    const path = clip('dense.mp4', ...picture('320x180', 6), ...fitting, '-g', '5', '-crf', '40');
    const [copied, ...encoded] = await keyTimesOf(path, 2);
    expect(copied).toHaveLength(30);
    expect(encoded).toEqual([
      [0, 2, 4],
      [0, 2, 4],
    ]);
  });
});

describe('a video marked as', () => {
  /** Offset of the display matrix in a file: `a b u c d v x y w`. */
  const matrixIn = (bytes: Buffer) => bytes.indexOf('tkhd') + 4 + 40;

  test.each([
    ['rotated by an odd angle', [46_340, -46_340, 0, 46_340, 46_340]],
    ['mirrored', [65_536, 0, 0, 0, -65_536]],
  ])('%s is not copied, because its MP4 would look different from its ladder', async (_, matrix) => {
    const bytes = readFileSync(clip('upright.mp4', ...picture('320x180', 2), ...fitting));
    for (const [place, value] of matrix.entries()) bytes.writeInt32BE(value, matrixIn(bytes) + 4 * place);
    const rendered = await renderAsSent(files.file(bytes, 'marked.mp4'));
    for (const name of ['hls', 'mp4']) {
      expect(ready(rendered, name).notes[0]).toMatch(/because it is marked as mirrored or rotated/);
    }
    const made = readFileSync(ready(rendered, 'mp4').path);
    expect([0, 4, 12, 16].map((at) => made.readInt32BE(matrixIn(made) + at))).toEqual([65_536, 0, 0, 65_536]);
  });
});

describe('a Matroska file that ffmpeg remuxed', () => {
  const remuxed = () => {
    const whole = clip('remux.mp4', ...picture('320x180', 10, 30), ...tone(10, 44_100), ...fitting, '-c:a', 'aac');
    return clip('remux.mkv', '-i', whole, '-c', 'copy');
  };

  test('and whose audio begins with encoder priming is copied, frame by frame', async () => {
    const rendered = await renderAsSent(remuxed());
    expect(ready(rendered, 'hls').notes).toEqual([
      'Video 180p: copied from the source, which already fits.',
      'Video 90p: encoded, because the source has another size, 320 x 180.',
      'Audio: copied from the source, which already fits.',
    ]);
    for (const file of ['mp4.mp4', 'hls/180p.m3u8', 'hls/90p.m3u8']) {
      const frames = packets(join(rendered.outDir, file));
      expect([file, frames.length, frames[0]?.time]).toEqual([file, 300, 0]);
    }
    expect(ffmpegWarnings(ready(rendered, 'hls').path)).toBe('');
    expect(ffmpegWarnings(ready(rendered, 'mp4').path)).toBe('');
  });

  test('keeps its number of frames when encoded', async () => {
    const rendered = await render(remuxed(), [hls, mp4]);
    for (const file of ['mp4.mp4', 'hls/180p.m3u8']) {
      expect(packets(join(rendered.outDir, file))).toHaveLength(300);
    }
    const audio = packets(join(rendered.outDir, 'mp4.mp4'), 'a:0');
    expect(audio.reduce((sum, { duration }) => sum + duration, 0)).toBeCloseTo(10, 0);
  });
});

test('explain has the reason why each stream is encoded', async () => {
  const path = clip('reasons.mp4', ...picture('320x180', 2), ...tone(2), ...fitting, '-c:a', 'mp3');
  const low = [{ name: '180p', width: 320, height: 180, bitrate: 64_000 }];
  const notes = ready(await renderAsSent(path, [{ ...hls, rungs: low }]), 'hls').notes;
  expect(notes[0]).toMatch(
    /^Video 180p: encoded, because its 0\.\d+ Mb\/s are more than the 0\.064 Mb\/s of this rung\.$/,
  );
  expect(notes[1]).toBe('Audio: encoded, because it is not AAC.');
});
