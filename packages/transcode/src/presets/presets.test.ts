import { expect, test } from 'vitest';
import { defaultPresets, PresetsError, parsePresets, presetRevision } from './presets.ts';

test('the default presets make the renditions that the service promises', () => {
  expect(defaultPresets.map(({ name, extension, width, height }) => `${name}.${extension} ${width}x${height}`)).toEqual(
    [
      'thumb.webp 320x320',
      'small.webp 640x640',
      'medium.webp 1280x1280',
      'medium.avif 1280x1280',
      'medium.jpg 1280x1280',
      'large.webp 2048x2048',
      'poster.webp 1280x1280',
      'poster.jpg 1280x1280',
      'hls.m3u8 1920x1080',
      'mp4.mp4 1280x720',
      'preview.webp 480x480',
      'storyboard.jpg 160x160',
      'storyboard.vtt 160x160',
      'audio.m4a nullxnull',
      'waveform.json nullxnull',
      'waveform.webp 1200x240',
    ],
  );
});

test('an operator sees all mistakes in the presets at once', () => {
  const wrong = () =>
    parsePresets([
      { name: 'Bad Name', container: 'webp', width: 100 },
      { name: 'thumb', container: 'webp', width: 0 },
      { name: 'thumb', container: 'webp', width: 10, colour: 'blue' },
      { name: 'x', container: 'bmp' },
    ]);
  expect(wrong).toThrow(PresetsError);
  try {
    wrong();
  } catch (error) {
    expect((error as PresetsError).problems).toHaveLength(4);
    expect(String(error)).toMatch(/0\.name.*1\.width.*colour.*3\.container/s);
  }
});

test('two presets with one delivery path are refused, but not two formats of one name', () => {
  const preset = { name: 'hero', container: 'webp', width: 100 };
  expect(() => parsePresets([preset, preset])).toThrow(/hero\.webp/);
  expect(parsePresets([preset, { ...preset, container: 'avif' }])).toHaveLength(2);
});

test('a revision changes with each parameter that changes the bytes, and with no other', () => {
  const [preset] = parsePresets([{ name: 'hero', container: 'webp', width: 100 }]);
  if (preset?.container !== 'webp') throw new Error('a WebP preset was expected');
  const revision = presetRevision(preset);
  expect(revision).toMatch(/^[0-9a-f]{8}$/);
  for (const change of [{ width: 101 }, { height: 100 }, { quality: 81 }, { effort: 3 }, { lossless: true }]) {
    expect(presetRevision({ ...preset, ...change }), JSON.stringify(change)).not.toBe(revision);
  }
  expect(presetRevision({ ...preset, name: 'other', source_kinds: ['image', 'video'] })).toBe(revision);
  const reordered = Object.fromEntries(Object.entries(preset).reverse()) as typeof preset;
  expect(presetRevision(reordered)).toBe(revision);
});

test('the rungs of a ladder have unique names that no playlist uses', () => {
  const rung = { name: '720p', width: 1280, height: 720, bitrate: 3_000_000 };
  expect(() => parsePresets([{ type: 'hls', rungs: [rung, rung] }])).toThrow(/two rungs/);
  for (const name of ['audio', 'master']) {
    expect(() => parsePresets([{ type: 'hls', rungs: [{ ...rung, name }] }])).toThrow(/reserved/);
  }
  expect(parsePresets([{ type: 'hls', rungs: [rung] }])).toHaveLength(1);
});

test('the revision of a ladder changes with its rungs and segments', () => {
  const revision = (changes: object) => presetRevision(parsePresets([{ type: 'hls', ...changes }])[0] ?? never());
  const rungs = [{ name: '720p', width: 1280, height: 720, bitrate: 3_000_000 }];
  const all = [revision({}), revision({ rungs }), revision({ segment_seconds: 6 }), revision({ crf: 22 })];
  expect(new Set(all).size).toBe(all.length);
  expect(revision({})).toBe(revision({ segment_seconds: 4 }));
});

test('the index of a storyboard needs the sprite that it belongs to', () => {
  const sprite = { type: 'storyboard', name: 'tiles', container: 'jpeg' };
  const index = { ...sprite, container: 'vtt' };
  expect(() => parsePresets([index])).toThrow(/needs a jpeg storyboard named tiles/);
  expect(() => parsePresets([{ ...sprite, columns: 5 }, index])).toThrow(/same settings/);
  expect(parsePresets([sprite, index])).toHaveLength(2);
});

function never(): never {
  throw new Error('Expected one preset.');
}
