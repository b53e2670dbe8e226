const MAX_LENGTH = 255;

/** Control characters and those that reorder the text around them (Unicode bidirectional controls, line separators). */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * Makes the name that a client gave into a label to show: its last part, without control characters, of at most 255
 * characters. It is never a path and never part of one.
 * @returns null where nothing is left
 */
export function filenameLabel(name: string | null): string | null {
  if (name === null) return null;
  const last = name.split(/[/\\]/).pop() ?? '';
  const shown = last.replace(UNPRINTABLE, '').trim();
  // By characters, not by UTF-16 units: half of an emoji is no character.
  const label = [...shown].slice(0, MAX_LENGTH).join('').trim();
  return label === '' || label === '.' || label === '..' ? null : label;
}
