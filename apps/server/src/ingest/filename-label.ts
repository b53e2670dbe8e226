const MAX_LENGTH = 255;

/** Control characters and those that reorder the text around them (Unicode bidirectional controls, line separators). */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * Turns a file name from a client into a label to show: its last part, without control characters, at most 255 characters long. It
 * is never used as a path or part of one.
 * @returns null if nothing is left
 */
export function filenameLabel(name: string | null): string | null {
  if (name === null) return null;
  const last = name.split(/[/\\]/).pop() ?? '';
  const shown = last.replace(UNPRINTABLE, '').trim();
  // By characters, not by UTF-16 units: an emoji must not be cut in half.
  const label = [...shown].slice(0, MAX_LENGTH).join('').trim();
  return label === '' || label === '.' || label === '..' ? null : label;
}
