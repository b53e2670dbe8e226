import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import { explainError } from '../explain-error.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';

/** What doing something with one media object gave: a line for people and scripts, an object for `--json`. */
export interface MediaResult {
  line: string;
  json: unknown;
  /** What went wrong all the same, which the line tells too; empty or absent where nothing did. */
  failure?: string;
}

/**
 * Does something with each of some media, one after the other, and prints each result; with `--json` one object a line, but a
 * single one as it is. One that fails does not keep the others.
 * @param write what is printed goes through here, where something else has to be taken away before
 * @throws what the only one failed with, a ReportedError where its line says so; of several, a CliError that counts, its exit code
 *   that of the first failure
 */
export async function forEachMedia(
  context: Context,
  ids: readonly string[],
  act: (id: string) => Promise<MediaResult>,
  write: (print: () => void) => void = (print) => print(),
): Promise<void> {
  const failures: number[] = [];
  for (const id of ids) {
    try {
      const { line, json, failure = '' } = await act(id);
      write(() => {
        if (!context.json) context.print(context.interactive ? line.replaceAll('\t', '  ') : line);
        else context.io.stdout.write(`${jsonText(json, ids.length > 1 ? 0 : 2)}\n`);
      });
      if (failure === '') continue;
      if (ids.length === 1) throw new ReportedError(`${id}: ${failure}`);
      failures.push(EXIT.failed);
    } catch (error) {
      if (ids.length === 1 || context.io.signal.aborted) throw error;
      const { message, hints, exitCode, problem } = await explainError(error, context);
      const words = `${id}: ${message}`;
      const line = context.json
        ? jsonText({ error: { message: words, hints, exit_code: exitCode, problem } }, 0)
        : `${context.errorColours.red('failed')}  ${printable(words)}`;
      write(() => context.io.stderr.write(`${line}\n`));
      failures.push(exitCode);
    }
  }
  const [first] = failures;
  if (first !== undefined) throw new CliError(`${failures.length} of ${ids.length} failed.`, { exitCode: first });
}
