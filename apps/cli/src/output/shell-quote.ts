// Control characters, and marks that reorder text.
const INVISIBLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const EACH_INVISIBLE = new RegExp(INVISIBLE.source, 'gu');

/**
 * Quotes a command line so that a POSIX shell splits it into exactly these arguments. It is one line and safe to show. Arguments with
 * invisible characters become `$'…'`, which bash, zsh and POSIX.1-2024 know.
 */
export function shellCommand(argv: readonly string[]): string {
  return argv.map(shellQuote).join(' ');
}

/** One argument of {@link shellCommand}. */
export function shellQuote(argument: string): string {
  if (INVISIBLE.test(argument)) return `$'${argument.replace(/[\\']/g, '\\$&').replace(EACH_INVISIBLE, escaped)}'`;
  // Quotes everything else: a leading tilde or equals sign, braces, stars and hashes are special in some shell.
  if (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(argument)) return argument;
  return `'${argument.replaceAll("'", "'\\''")}'`;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === '\n') return '\\n';
  if (character === '\t') return '\\t';
  // An octal escape always ends after three digits; \x may continue with the next character.
  return code < 0x80 ? `\\${code.toString(8).padStart(3, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}
