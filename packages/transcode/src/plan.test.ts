import { expect, test } from 'vitest';
import { type IdentifiedFile, parseIdentified } from './identified.ts';
import { fitInside, planRenditions } from './plan.ts';
import { defaultPresets } from './presets.ts';

function source(changes: Partial<Record<keyof IdentifiedFile, unknown>> = {}): IdentifiedFile {
  return parseIdentified({
    kind: 'image',
    format: 'jpeg',
    contentType: 'image/jpeg',
    extension: 'jpg',
    bytes: 1,
    width: 4000,
    height: 3000,
    durationMs: null,
    frames: 1,
    codecs: { image: 'jpeg' },
    hasAlpha: false,
    orientation: 1,
    colorSpace: 'srgb',
    bitDepth: 8,
    icc: false,
    warnings: [],
    ...changes,
  });
}

test('a large picture fits the box of each preset and keeps its shape', () => {
  const sizes = planRenditions(source(), [...defaultPresets]).map(({ name, extension, width, height, state }) => [
    `${name}.${extension}`,
    width,
    height,
    state,
  ]);
  expect(sizes).toEqual([
    ['thumb.webp', 320, 240, 'make'],
    ['small.webp', 640, 480, 'make'],
    ['medium.webp', 1280, 960, 'make'],
    ['medium.avif', 1280, 960, 'make'],
    ['medium.jpg', 1280, 960, 'make'],
    ['large.webp', 2048, 1536, 'make'],
  ]);
});

test('a small picture is made at its own size, never enlarged', () => {
  for (const planned of planRenditions(source({ width: 24, height: 24 }), [...defaultPresets])) {
    expect(planned).toMatchObject({ state: 'make', width: 24, height: 24 });
  }
});

test('a picture a thousand times as wide as high still has a row of pixels', () => {
  expect(fitInside({ width: 10_000, height: 2 }, { width: 320, height: 320 })).toEqual({ width: 320, height: 1 });
});

test('an animation moves in WebP, stands still in JPEG, and is not frozen into AVIF', () => {
  const plan = planRenditions(source({ format: 'gif', frames: 12, durationMs: 1200 }), [...defaultPresets]);
  const states = Object.fromEntries(plan.map(({ name, extension, state }) => [`${name}.${extension}`, state]));
  expect(states).toMatchObject({ 'medium.webp': 'make', 'medium.jpg': 'make', 'medium.avif': 'skip' });
  expect(plan.find(({ extension }) => extension === 'avif')?.reason).toMatch(/animation/);
  expect(plan.find(({ extension }) => extension === 'jpg')?.reason).toMatch(/First frame/);
});

test('what a preset is not for is skipped with a reason', () => {
  const [planned] = planRenditions(source({ kind: 'audio', width: 0, height: 0 }), [...defaultPresets]);
  expect(planned).toMatchObject({ state: 'skip', reason: expect.stringMatching(/audio/) });
});

test('facts about a file survive being kept as JSON, and made-up ones are refused', () => {
  const identified = source();
  expect(parseIdentified(JSON.parse(JSON.stringify(identified)))).toEqual(identified);
  expect(() => parseIdentified({ ...identified, frames: 0 })).toThrow();
  expect(() => parseIdentified({ ...identified, codecs: { picture: 'x' } })).toThrow();
});
