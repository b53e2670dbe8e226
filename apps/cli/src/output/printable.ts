// C0 and C1 controls, DEL, line separators, and the marks that reorder text (CVE-2021-42574).
const UNSAFE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the one sequence that may pass, colours
const COLOUR_OR_UNSAFE = /\x1b\[[0-9;]*m|[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * Makes a text from outside (a file name, a message of the service) safe for one line of a terminal. Characters that could move the
 * cursor, set a title or reorder text become escapes such as `\x1b` or `\u202e`.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** The same for a line of our own, which keeps its colours. The last barrier before the terminal. */
export function printableLine(line: string): string {
  return line.replace(COLOUR_OR_UNSAFE, (found) =>
    found.length > 1 && found.startsWith('\x1b[') ? found : escaped(found),
  );
}

/** The same for a text of several lines, which keeps its line breaks and tabs. */
export function printableText(text: string): string {
  return text.replace(UNSAFE, (found) => (found === '\n' || found === '\t' ? found : escaped(found)));
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (character === '\t') return '\\t';
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}
