import { createInterface } from 'node:readline/promises';
import type { MediaDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { printable } from '../output/printable.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { forEachMedium } from './for-each-medium.ts';

/**
 * Deletes media, after asking on the terminal.
 * @param sure not to ask
 */
export async function deleteMedia(context: Context, ids: readonly string[], sure: boolean): Promise<void> {
  const { io } = context;
  const client = await context.operator();
  if (!sure) {
    if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) {
      throw new CliError('Without a terminal nobody can be asked: give --yes to delete.', { exitCode: EXIT.usage });
    }
    // Shown before it is gone; and what is not there is said before anything else is gone.
    const media: MediaDetail[] = [];
    for (const id of ids) media.push(await client.control.media.get(id, { signal: io.signal }));
    for (const it of media) {
      io.stderr.write(`${printable(`${it.id}  ${it.filename ?? ''}  ${it.content_type}, ${humanBytes(it.bytes)}`)}\n`);
    }
    const answer = await ask(
      context,
      `Delete ${counted(media.length, 'medium').replace('mediums', 'media')} with all renditions? [y/N] `,
    );
    if (!/^y(es)?$/i.test(answer.trim())) throw new CliError('Nothing was deleted.');
  }
  await forEachMedium(context, ids, async (id) => {
    await client.control.media.delete(id, { signal: io.signal });
    return { line: `${id}\tdeleted`, json: { id, deleted: true } };
  });
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
