// Whatever a terminal could take for a command of its own, or a reader for another order of the text.
const INVISIBLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const EACH_INVISIBLE = new RegExp(INVISIBLE.source, 'gu');

/**
 * A command line that a POSIX shell splits into exactly these arguments again, on one line and safe to show. Arguments with
 * invisible characters are quoted as `$'…'`, which bash, zsh and POSIX.1-2024 know.
 */
export function shellCommand(argv: readonly string[]): string {
  return argv.map(shellQuote).join(' ');
}

/** One argument of {@link shellCommand}. */
export function shellQuote(argument: string): string {
  if (INVISIBLE.test(argument)) return `$'${argument.replace(/[\\']/g, '\\$&').replace(EACH_INVISIBLE, escaped)}'`;
  // A tilde or an equals sign in front, a brace, a star, a hash: all of them mean something somewhere.
  if (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(argument)) return argument;
  return `'${argument.replaceAll("'", "'\\''")}'`;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === '\n') return '\\n';
  if (character === '\t') return '\\t';
  // Three octal digits are read as such whatever follows; \x may go on.
  return code < 0x80 ? `\\${code.toString(8).padStart(3, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}
