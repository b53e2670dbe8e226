/**
 * The bytes as text, if they are UTF-8 (with or without byte order mark) or UTF-16 with one. Null for anything with control
 * characters, which text does not have. An incomplete character at the end of a prefix does no harm.
 */
export function decodeText(bytes: Buffer): string | null {
  const encoding = encodingOf(bytes);
  const text = new TextDecoder(encoding).decode(bytes);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters distinguish data from text
  if (/[\x00-\x08\x0e-\x1f]/.test(text)) return null;
  // Latin-1 text has a few bytes that are invalid UTF-8; compressed data has mostly such bytes.
  const invalid = text.split('\ufffd').length - 1;
  return invalid > text.length / 20 ? null : text;
}

function encodingOf(bytes: Buffer): 'utf-8' | 'utf-16le' | 'utf-16be' {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return 'utf-8';
}

/** The local name of the first element of an XML or HTML text, or null if there is none. */
export function rootElement(text: string): string | null {
  let rest = text;
  for (;;) {
    rest = rest.trimStart();
    if (rest.startsWith('<!--')) rest = after(rest, '-->');
    else if (rest.startsWith('<?')) rest = after(rest, '?>');
    else if (/^<!doctype/i.test(rest)) rest = rest.slice(doctypeLength(rest));
    else break;
  }
  return /^<(?:[\w.-]+:)?([\w.-]+)/.exec(rest)?.[1] ?? null;
}

function after(text: string, mark: string): string {
  const index = text.indexOf(mark);
  return index < 0 ? '' : text.slice(index + mark.length);
}

/** Length of the document type declaration at the start of the text, including its internal subset and quoted parts. */
export function doctypeLength(text: string): number {
  let quote = '';
  let depth = 0;
  for (let index = 0; index < text.length; index++) {
    const character = text.charAt(index);
    if (quote) {
      if (character === quote) quote = '';
    } else if (character === '"' || character === "'") {
      quote = character;
    } else if (character === '[') {
      depth++;
    } else if (character === ']') {
      depth--;
    } else if (character === '>' && depth <= 0) {
      return index + 1;
    }
  }
  return text.length;
}
