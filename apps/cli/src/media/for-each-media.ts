import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import { explainError } from '../explain-error.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';

/** The result for one media object: a line for people and scripts, an object for `--json`. */
export interface MediaResult {
  line: string;
  json: unknown;
  /** A failure that the line already reports; absent or empty if there is none. */
  failure?: string;
}

/**
 * Applies an action to media one by one and prints each result. With `--json` each is one line, or an indented document if there is
 * only one. A failure does not stop the others.
 * @param write wraps each output, so that a live display can make room for it
 * @throws for a single media object its own error, or a ReportedError if its line reports the failure; for several a CliError with
 *   the number of failures and the exit code of the first
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
      const text = `${id}: ${message}`;
      const line = context.json
        ? jsonText({ error: { message: text, hints, exit_code: exitCode, problem } }, 0)
        : `${context.errorColours.red('failed')}  ${printable(text)}`;
      write(() => context.io.stderr.write(`${line}\n`));
      failures.push(exitCode);
    }
  }
  const [first] = failures;
  if (first !== undefined) throw new CliError(`${failures.length} of ${ids.length} failed.`, { exitCode: first });
}
