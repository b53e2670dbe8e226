import { displayWidth, truncate } from './display-width.ts';

// A size such as `1280 x 720` must stay on one line.
const SIZE = /(?<=\d) x (?=\d)/g;
const GLUED_SIZE = /(?<=\d)\u00a0x\u00a0(?=\d)/g;

/** Wraps a text without colours at spaces into lines of at most `columns` columns, and shortens longer words. */
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
