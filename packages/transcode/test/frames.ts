import { expect } from 'vitest';
import { sharp } from '../src/vips.ts';
import { lavfi } from './rendered-clips.ts';

/** Presets of a poster: large, and small in another format. */
export const posters = [
  { name: 'poster', container: 'webp', source_kinds: ['video'], width: 1280, height: 1280 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 160, height: 160 },
];

/** Preset of a preview. */
export const preview = { type: 'preview', name: 'preview' };

/** Presets of a storyboard: its picture, and the index of it. */
export const storyboard = [
  { type: 'storyboard', name: 'storyboard', container: 'jpeg', columns: 4 },
  { type: 'storyboard', name: 'storyboard', container: 'vtt', columns: 4 },
];

/** Mean brightness of a picture, 0 to 255. */
export async function brightness(picture: Buffer): Promise<number> {
  const { channels } = await sharp(picture).stats();
  return channels.slice(0, 3).reduce((sum, { mean }) => sum + mean / 3, 0);
}

/** A second of each colour. */
const hues = ['red', 'lime', 'blue', 'yellow', 'magenta', 'cyan'];
/** The same as they come back, red, green and blue. */
export const hueRgb = [
  [255, 0, 0],
  [0, 255, 0],
  [0, 0, 255],
  [255, 255, 0],
  [255, 0, 255],
  [0, 255, 255],
];
/** Inputs that show the first of these colours, to be put one after the other. */
export const colors = (seconds: number) =>
  hues.slice(0, seconds).flatMap((hue) => lavfi(`color=${hue}:s=320x180:r=25:d=1`));

/** Cues of a storyboard's index, by a parser that knows WebVTT and media fragments and nothing of the engine. */
export function cuesOf(vtt: string) {
  const [head, ...blocks] = vtt.trimEnd().split('\n\n');
  expect(head).toBe('WEBVTT');
  const ms = (text: string) => {
    const [hours = 0, minutes = 0, seconds = 0] = text.split(':').map(Number);
    return Math.round((hours * 3_600 + minutes * 60 + seconds) * 1_000);
  };
  return blocks.map((block) => {
    const parts = /^(\d\d:\d\d:\d\d\.\d{3}) --> (\d\d:\d\d:\d\d\.\d{3})\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)$/.exec(
      block,
    );
    if (parts === null) throw new Error(`not a cue: ${block}`);
    const [, from = '', to = '', sprite = '', ...numbers] = parts;
    const [x = 0, y = 0, width = 0, height = 0] = numbers.map(Number);
    return { from: ms(from), to: ms(to), sprite, x, y, width, height };
  });
}
