import { createInterface } from 'node:readline/promises';
import type { Context } from './context.ts';
import { CliError, EXIT } from './exit-codes.ts';

/**
 * To be called before anything is asked of the service on behalf of a question.
 * @param verb what `--yes` is for
 * @throws CliError where nobody can be asked
 */
export function requireTerminal({ io }: Context, verb: string): void {
  if (io.stdin.isTTY === true && io.stderr.isTTY === true) return;
  throw new CliError(`Without a terminal nobody can be asked: give --yes to ${verb}.`, { exitCode: EXIT.usage });
}

/**
 * Asks on the terminal whether something is to be done.
 * @param otherwise what is said where it is not
 * @throws CliError on anything but yes
 */
export async function confirm(context: Context, question: string, otherwise: string): Promise<void> {
  const answer = await ask(context, `${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(otherwise);
}

/** Asks on the terminal; the end of the input is an empty answer. */
async function ask({ io }: Context, question: string): Promise<string> {
  // Not in raw mode: Ctrl-C stays a signal, and ends this like everything else.
  const lines = createInterface({ input: io.stdin, output: io.stderr, terminal: false });
  const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('\n')));
  try {
    const answer = await Promise.race([lines.question(question, { signal: io.signal }), ended]);
    // Nobody pressed Enter: what is said next would stand behind the question.
    if (answer === '\n') io.stderr.write('\n');
    return answer;
  } finally {
    lines.close();
  }
}
