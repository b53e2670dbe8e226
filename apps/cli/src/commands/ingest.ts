import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { IngestArguments } from '../ingest/run-ingest.ts';
import { parallelism } from './arguments.ts';

/** `mds ingest`: files, folders and standard input, up to the service. */
export function registerIngest(program: Command, context: () => Context): void {
  program
    .command('ingest')
    .description('upload files; folders with all that is in them; URLs; - for standard input')
    .argument('<path...>', 'files, folders (hidden files in them are left out), http and https URLs')
    .option('--filename <name>', 'name to give to a single file, or to standard input')
    .addOption(
      new Option('--duplicate <how>', 'what to do with bytes that the project already has')
        .choices(['existing', 'allow'])
        .default('existing'),
    )
    .option('--wait', 'go on until everything is processed; what fails then, fails here')
    .option('--parallel <count>', 'how many files at once, 1 to 16', parallelism, 3)
    .option('--journal <file>', 'where to remember what was ingested')
    .option('--again', 'forget what was ingested before, and send everything')
    .addHelpText('after', HELP)
    .action(async (paths: string[], options: IngestArguments) => {
      const { runIngest } = await import('../ingest/run-ingest.ts');
      return runIngest(context(), paths, options);
    });
}

const HELP = `
Needs a token of scope ingest. Exit code 1 if any file failed, or with --wait any
rendition of one.

Of folders, and of 16 files or more, a journal remembers what was ingested (by
path, size and time of change), one for each service and set of paths, in
$XDG_STATE_HOME/mds or ~/.local/state/mds. After Ctrl-C the same command does
what is missing; what failed is tried again.

Elsewhere than on a terminal: id, outcome (created, existing, remembered,
failed), status, file, reason (or what of it could not be made), warnings, tab-separated, as each
file is done. With --json one object a line:
  {"file","outcome","media_id","media": the API's media object or null,
   "error": {"code","message"} or null, "failed_renditions": ["hls.m3u8", ...]}

A URL is fetched by the service itself, which refuses addresses that are not
public unless its operator allows them. Interrupted, it goes on with that: see
mds fetches. Secrets of the URL (user, password, query) are not printed.

Interrupted while it waits, it says of what was accepted that it is processed
all the same; its status is then queued or processing.

Examples:
  mds ingest --wait photos/
  mds ingest https://example.com/lake.jpg
  curl -s https://example.com/lake.jpg | mds ingest - --filename lake.jpg
`;
