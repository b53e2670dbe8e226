import { displayWidth, truncate } from './display-width.ts';

// `1280 x 720` is one thing, and read as one.
const SIZE = /(?<=\d) x (?=\d)/g;
const GLUED_SIZE = /(?<=\d)\u00a0x\u00a0(?=\d)/g;

/** Breaks a text without colours between words into lines of at most so many columns; a longer word is shortened. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.replace(SIZE, '\u00a0x\u00a0').split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (displayWidth(longer) <= columns) {
      line = longer;
      continue;
    }
    if (line !== '') lines.push(line);
    line = truncate(word, columns);
  }
  return [...lines, line].map((it) => it.replace(GLUED_SIZE, ' x '));
}
