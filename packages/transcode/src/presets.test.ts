import { expect, test } from 'vitest';
import { defaultPresets, PresetsError, parsePresets, presetRevision } from './presets.ts';

test('the default presets are the renditions that the service promises', () => {
  expect(defaultPresets.map(({ name, extension, width, height }) => `${name}.${extension} ${width}x${height}`)).toEqual(
    [
      'thumb.webp 320x320',
      'small.webp 640x640',
      'medium.webp 1280x1280',
      'medium.avif 1280x1280',
      'medium.jpg 1280x1280',
      'large.webp 2048x2048',
    ],
  );
});

test('an operator who makes several mistakes is told all of them at once', () => {
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

test('two presets for one delivery path are refused, the same name in another format is not', () => {
  const preset = { name: 'hero', container: 'webp', width: 100 };
  expect(() => parsePresets([preset, preset])).toThrow(/hero\.webp/);
  expect(parsePresets([preset, { ...preset, container: 'avif' }])).toHaveLength(2);
});

test('a revision changes with every parameter that changes the bytes, and with nothing else', () => {
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
