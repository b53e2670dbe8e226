import { createInterface } from 'node:readline/promises';
import type { Context } from './context.ts';
import { CliError, EXIT } from './exit-codes.ts';

/**
 * Call it before the first request of a command that asks a question.
 * @param verb the action that `--yes` allows
 * @throws CliError if there is no terminal to ask on
 */
export function requireTerminal({ io }: Context, verb: string): void {
  if (io.stdin.isTTY === true && io.stderr.isTTY === true) return;
  throw new CliError(`There is no terminal to ask on: give --yes to ${verb}.`, { exitCode: EXIT.usage });
}

/**
 * Asks a yes-or-no question on the terminal.
 * @param otherwise the error message if the answer is no
 * @throws CliError if the answer is not yes
 */
export async function confirm(context: Context, question: string, otherwise: string): Promise<void> {
  const answer = await ask(context, `${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(otherwise);
}

/** Asks on the terminal. The end of the input counts as an empty answer. */
async function ask({ io }: Context, question: string): Promise<string> {
  // Not in raw mode: Ctrl-C must stay a signal and end the program.
  const lines = createInterface({ input: io.stdin, output: io.stderr, terminal: false });
  const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('\n')));
  try {
    const answer = await Promise.race([lines.question(question, { signal: io.signal }), ended]);
    // Nobody pressed Enter: without a line break, the next message would follow the question on its line.
    if (answer === '\n') io.stderr.write('\n');
    return answer;
  } finally {
    lines.close();
  }
}
