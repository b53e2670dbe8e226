/**
 * JSON that is safe on a terminal. C1 controls and marks that reorder text, which JSON allows unescaped, are written as `\uXXXX`.
 * Parsers read both forms alike.
 * @param indent spaces; 0 for one line
 */
export function jsonText(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
