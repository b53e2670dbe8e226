/** Blocks of characters that are two columns wide (Unicode UAX 11, W and F): first and last. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1faff],
  [0x20000, 0x3fffd],
];

const EMOJI = /\p{Emoji_Presentation}|\ufe0f/u;
const INVISIBLE = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours take no room
const COLOUR = /\x1b\[[0-9;]*m/g;

let segmenter: Intl.Segmenter | undefined;

/** The characters of a text as people count them: an emoji with its skin tone is one. */
function graphemes(text: string): string[] {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** The number of terminal columns of a text. Colours take none. */
export function displayWidth(text: string): number {
  const plain = text.includes('\x1b') ? text.replace(COLOUR, '') : text;
  if (/^[ -~]*$/.test(plain)) return plain.length;
  return graphemes(plain).reduce((width, grapheme) => width + graphemeWidth(grapheme), 0);
}

function graphemeWidth(grapheme: string): number {
  if (INVISIBLE.test(grapheme)) return 0;
  if (EMOJI.test(grapheme)) return 2;
  const code = grapheme.codePointAt(0) ?? 0;
  return WIDE.some(([first, last]) => code >= first && code <= last) ? 2 : 1;
}

/**
 * Shortens a text without colours to a number of columns. An ellipsis marks the omitted part.
 * @param keep the part to keep; the end of a path is the more useful one
 */
export function truncate(text: string, columns: number, keep: 'start' | 'end' = 'start'): string {
  if (displayWidth(text) <= columns) return text;
  if (columns <= 1) return columns === 1 ? '…' : '';
  const parts = graphemes(text);
  if (keep === 'end') parts.reverse();
  let width = 1;
  const shown: string[] = [];
  for (const part of parts) {
    width += graphemeWidth(part);
    if (width > columns) break;
    shown.push(part);
  }
  return keep === 'end' ? `…${shown.reverse().join('')}` : `${shown.join('')}…`;
}

/** Pads a text with spaces to a number of columns. */
export function pad(text: string, columns: number, align: 'left' | 'right' = 'left'): string {
  const room = ' '.repeat(Math.max(0, columns - displayWidth(text)));
  return align === 'left' ? text + room : room + text;
}
