import { displayWidth, truncate } from './display-width.ts';

/** Breaks a text without colours between words into lines of at most so many columns; a longer word is shortened. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (displayWidth(longer) <= columns) {
      line = longer;
      continue;
    }
    if (line !== '') lines.push(line);
    line = truncate(word, columns);
  }
  return [...lines, line];
}
