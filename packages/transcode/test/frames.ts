import { expect } from 'vitest';
import { sharp } from '../src/vips.ts';
import { lavfi } from './rendered-clips.ts';

/** Presets of posters: one large, one small in another format. */
export const posters = [
  { name: 'poster', container: 'webp', source_kinds: ['video'], width: 1280, height: 1280 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 160, height: 160 },
];

/** Preset of a preview. */
export const preview = { type: 'preview', name: 'preview' };

/** Presets of a storyboard: its sprite and its index. */
export const storyboard = [
  { type: 'storyboard', name: 'storyboard', container: 'jpeg', columns: 4 },
  { type: 'storyboard', name: 'storyboard', container: 'vtt', columns: 4 },
];

/** Mean brightness of an image, 0 to 255. */
export async function brightness(picture: Buffer): Promise<number> {
  const { channels } = await sharp(picture).stats();
  return channels.slice(0, 3).reduce((sum, { mean }) => sum + mean / 3, 0);
}

/** One second for each colour. */
const hues = ['red', 'lime', 'blue', 'yellow', 'magenta', 'cyan'];
/** The same colours as red, green and blue. */
export const hueRgb = [
  [255, 0, 0],
  [0, 255, 0],
  [0, 0, 255],
  [255, 255, 0],
  [255, 0, 255],
  [0, 255, 255],
];
/** Inputs with the first of these colours, for concatenation. */
export const colors = (seconds: number) =>
  hues.slice(0, seconds).flatMap((hue) => lavfi(`color=${hue}:s=320x180:r=25:d=1`));

/** Cues of a storyboard's index, from a parser of WebVTT and media fragments that is independent of the engine. */
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
