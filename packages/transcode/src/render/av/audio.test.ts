import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ffmpeg, lavfi, programs, renderedClips } from '../../../test/rendered-clips.ts';

const { clip, render, folder } = renderedClips();

const audio = { type: 'audio', name: 'audio' };

/** Integrated loudness and true peak of a file from ffmpeg's own summary, which the engine does not use. */
function measured(bytes: Buffer): { lufs: number; peak: number } {
  const path = join(folder, 'measured.m4a');
  writeFileSync(path, bytes);
  const text = execFileSync(
    'sh',
    ['-c', '"$0" -hide_banner -nostats -i "$1" -af ebur128=peak=true -f null - 2>&1', programs.ffmpeg.path, path],
    { encoding: 'utf8' },
  );
  const summary = text.slice(text.lastIndexOf('Summary:'));
  const value = (pattern: RegExp) => Number(pattern.exec(summary)?.[1] ?? Number.NaN);
  return { lufs: value(/I:\s+(-?[\d.]+) LUFS/), peak: value(/Peak:\s+(-?[\d.]+|-inf) dBFS/) };
}

test.each([
  ['quiet', 'anoisesrc=c=pink:d=5:a=0.02:seed=1'],
  ['loud', 'anoisesrc=c=pink:d=5:a=0.9:seed=1'],
])('%s audio is brought to the configured loudness', async (name, graph) => {
  const rendered = await render(clip(`${name}.wav`, ...lavfi(graph)), [audio]);
  expect(rendered.only().durationMs).toBe(5_000);
  expect(Math.abs(measured(rendered.of('audio.m4a')).lufs + 23)).toBeLessThan(0.5);
});

test('silence stays silent, with a note', async () => {
  const rendered = await render(clip('silence.wav', ...lavfi('anullsrc=r=48000:cl=stereo:d=4')), [audio]);
  expect(rendered.only().notes[0]).toMatch(/silent/);
  expect(measured(rendered.of('audio.m4a')).lufs).toBe(-70);
});

test.each([0.03, 0.3, 1])('audio of %f s keeps its length and is neither lost nor amplified', async (seconds) => {
  const path = clip(`short-${seconds}.wav`, ...lavfi(`sine=f=997:r=48000:d=${seconds}`));
  const rendered = await render(path, [audio]);
  const { durationMs, notes } = rendered.only();
  expect(Math.abs((durationMs ?? 0) - seconds * 1_000)).toBeLessThan(23);
  // A full-scale sine on one channel has -3 LUFS; ffmpeg's has an eighth of that amplitude.
  expect(notes[0]).toMatch(/^Measured -2[0-9.]+ LUFS, (raised|lowered)/);
  const { peak } = measured(rendered.of('audio.m4a'));
  expect(peak).toBeGreaterThan(-24);
  expect(peak).toBeLessThan(-14);
});

test('quiet audio with one loud click is raised only as far as the click allows', async () => {
  const graph = "aevalsrc=exprs='0.003*sin(2*PI*440*t)+between(t,2,2.001)*0.5*sin(2*PI*1000*t)':s=48000:d=5";
  const rendered = await render(clip('click.wav', ...lavfi(graph)), [audio]);
  expect(rendered.only().notes[0]).toMatch(/its peaks would exceed -1 dBTP/);
  const { peak, lufs } = measured(rendered.of('audio.m4a'));
  expect(peak).toBeLessThanOrEqual(-0.9);
  expect(peak).toBeGreaterThan(-2.5);
  expect(lufs).toBeLessThan(-24);
});

test('clipped audio does not clip after encoding, whatever the target loudness', async () => {
  const path = clip('clipping.wav', ...lavfi('anoisesrc=c=white:d=4:a=1:seed=3'), '-af', 'volume=12dB');
  const rendered = await render(path, [{ ...audio, loudness: -8 }]);
  rendered.only();
  expect(measured(rendered.of('audio.m4a')).peak).toBeLessThanOrEqual(-0.8);
});

interface ProbedAudio {
  streams: Array<{ codec_type: string; codec_name: string; profile: string; channels: number; sample_rate: string }>;
  format: { tags?: Record<string, string>; duration: string };
}

function probe(path: string): ProbedAudio {
  const args = ['-v', 'error', '-of', 'json', '-show_format', '-show_streams', path];
  return JSON.parse(execFileSync(programs.ffprobe.path, args, { encoding: 'utf8' })) as ProbedAudio;
}

test.each([
  ['mono of 8 kHz', 'sine=f=300:r=8000:d=2', 1, 48_000],
  ['mono of 44.1 kHz', 'sine=f=300:r=44100:d=2', 1, 44_100],
  ['stereo of 192 kHz', 'aevalsrc=exprs=0.1*sin(600*t)|0.1*sin(900*t):s=192000:d=2', 2, 48_000],
  ['5.1', "aevalsrc=exprs='0|0|0.2*sin(3000*t)|0.5*sin(3000*t)|0|0':c=5.1:s=48000:d=4", 2, 48_000],
])('%s becomes AAC that every player accepts', async (name, graph, channels, sampleRate) => {
  const rendered = await render(clip(`${name}.wav`, ...lavfi(graph)), [audio]);
  const { path } = rendered.only();
  const { streams, format } = probe(path);
  expect(streams).toMatchObject([
    { codec_type: 'audio', codec_name: 'aac', profile: 'LC', channels, sample_rate: String(sampleRate) },
  ]);
  expect(Math.abs(Number(format.duration) * 1_000 - (name === '5.1' ? 4_000 : 2_000))).toBeLessThan(23);
  // The index comes before the samples, so it plays during the download.
  const bytes = rendered.of('audio.m4a');
  expect(bytes.indexOf('moov')).toBeLessThan(bytes.indexOf('mdat'));
  expect(Math.abs(measured(bytes).lufs + 23)).toBeLessThan(0.5);
});

test('the centre channel of 5.1 is audible on both sides', async () => {
  const path = clip('5.1.wav', ...lavfi("aevalsrc=exprs='0|0|0.2*sin(3000*t)|0.5*sin(3000*t)|0|0':c=5.1:s=48000:d=4"));
  const rendered = await render(path, [audio]);
  const pcm = ffmpeg('-i', rendered.only().path, '-f', 's16le', 'pipe:1');
  let [left, right] = [0, 0];
  for (let at = 0; at + 4 <= pcm.length; at += 4) {
    left = Math.max(left, Math.abs(pcm.readInt16LE(at)));
    right = Math.max(right, Math.abs(pcm.readInt16LE(at + 2)));
  }
  expect(left).toBeGreaterThan(1_000);
  expect(Math.abs(left - right)).toBeLessThan(left / 20);
});

test('cover art and tags are not copied', async () => {
  const cover = clip('cover.png', ...lavfi('testsrc=s=64x64:d=1'), '-frames:v', '1');
  const path = clip(
    'cover.mp3',
    ...[
      ...lavfi('sine=f=500:d=4'),
      '-i',
      cover,
      '-map',
      '0',
      '-map',
      '1',
      '-c:v',
      'png',
      '-disposition:v',
      'attached_pic',
    ],
    ...['-metadata', 'artist=Jane Doe', '-metadata', 'title=Secret', '-id3v2_version', '3'],
  );
  const rendered = await render(path, [audio]);
  const { streams, format } = probe(rendered.only().path);
  expect(streams).toHaveLength(1);
  expect(format.tags?.['artist']).toBeUndefined();
  expect(rendered.of('audio.m4a').includes('Jane Doe')).toBe(false);
});

test('AAC with the target loudness is copied, sample by sample', async () => {
  const first = await render(clip('pink.wav', ...lavfi('anoisesrc=c=pink:d=5:a=0.3:seed=1:r=48000')), [audio]);
  const again = await render(first.only().path, [audio]);
  expect(again.only().notes[0]).toMatch(/^Copied/);
  const packets = (path: string) => ffmpeg('-i', path, '-c', 'copy', '-f', 'adts', 'pipe:1');
  expect(packets(again.only().path).equals(packets(first.only().path))).toBe(true);
  const louder = await render(first.only().path, [{ ...audio, loudness: -14 }]);
  expect(louder.only().notes[0]).toMatch(/^Measured -2[23]\.\d LUFS, raised by/);
});

test('the same audio gives the same bytes', async () => {
  const path = clip('pink.wav', ...lavfi('anoisesrc=c=pink:d=5:a=0.3:seed=1:r=48000'));
  const [one, two] = [await render(path, [audio]), await render(path, [audio])];
  expect(one.of('audio.m4a').equals(two.of('audio.m4a'))).toBe(true);
});

test.each([
  ['vorbis.ogg', ['-c:a', 'libvorbis']],
  ['opus.opus', ['-c:a', 'libopus']],
  ['flac.flac', ['-c:a', 'flac']],
  ['aac.aac', ['-c:a', 'aac']],
] as const)('damaged audio gives a warning, and intact audio does not: %s', async (name, codec) => {
  const whole = clip(name, ...lavfi('anoisesrc=c=pink:d=12:a=0.3:seed=5'), ...codec);
  expect((await render(whole, [audio])).result.warnings).toEqual([]);
  const bytes = readFileSync(whole);
  for (let flip = 1; flip <= 6; flip++) {
    const at = Math.floor((bytes.length * (flip + 1)) / 9);
    // One bit in an Ogg or FLAC file. Without checksums, only damage of several bytes is noticed.
    if (name === 'aac.aac') bytes.fill(0xa5, at, at + 60);
    else bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  }
  const path = join(folder, `damaged-${name}`);
  writeFileSync(path, bytes);
  const damaged = await render(path, [audio, { type: 'waveform', name: 'waveform', container: 'json' }]);
  expect(damaged.result.renditions.map(({ state }) => state)).toEqual(['ready', 'ready']);
  expect(damaged.result.warnings).toEqual([expect.stringMatching(/^Parts of the audio are damaged .*\.$/)]);
});

test('if much of the audio does not decode, a warning has the decoded length', async () => {
  const path = clip('one-second.wav', ...lavfi('sine=d=1'));
  const { result } = await render(path, [audio], { source: { durationMs: 9_000 } });
  expect(result.warnings).toEqual(['Only 1.0 s of 9.0 s could be decoded: the file seems to be damaged or cut off.']);
});

test('damaged audio fails alone, with a reason, and leaves nothing behind', async () => {
  const whole = clip('whole.wav', ...lavfi('sine=d=1'));
  const result = await render(whole, [audio], {
    source: { format: 'flac' },
  });
  expect(result.result.renditions).toMatchObject([
    { state: 'failed', reason: expect.stringMatching(/^audio\.m4a could not be made/) },
  ]);
  expect(readdirSync(result.folder)).toEqual([]);
});
