import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { printableText } from '../output/printable.ts';

/** `mds api`: GETs any path of the service, for scripts. */
export function registerApi(program: Command, context: () => Context): void {
  program
    .command('api')
    .description('GET any path of the service and print the answer')
    .argument('<path>', '/api/v1/media?limit=5, /control/v1/media, /healthz, /metrics…')
    .addHelpText(
      'after',
      '\nThe token is sent to paths below /control/ only. JSON is indented on a terminal and with --json.\n',
    )
    .action((path: string) => getPath(context(), path));
}

async function getPath(context: Context, path: string): Promise<void> {
  const { io } = context;
  const { isBinary, writeAll } = await import('../output/stream-out.ts');
  const pathname = path.startsWith('/') ? path : `/${path}`;
  // Judge the normalized path: /x/../control/v1 belongs to the control API, too.
  const authorize = new URL(`http://service${pathname}`).pathname.startsWith('/control/');
  const client = await (authorize ? context.operator() : context.client());
  const response = await client.get(pathname, { authorize, signal: io.signal });
  const contentType = response.headers.get('content-type');

  if (context.json || context.interactive) {
    if (/^application\/(?:[\w.-]+\+)?json\b/i.test(contentType ?? '')) return context.printJson(await response.json());
    if (context.json) {
      await response.body?.cancel();
      throw new CliError(`${pathname} is not JSON: its Content-Type is ${contentType ?? 'missing'}.`);
    }
  }
  if (!context.interactive) return writeAll(io.stdout, response, { end: false, signal: io.signal });
  if (isBinary(contentType)) {
    await response.body?.cancel();
    throw new CliError('This would write binary data to the terminal.', {
      exitCode: EXIT.usage,
      hints: [`Write it to a file: mds api ${pathname} > FILE`],
    });
  }
  const text = await response.text();
  io.stdout.write(printableText(text.endsWith('\n') ? text : `${text}\n`));
}
