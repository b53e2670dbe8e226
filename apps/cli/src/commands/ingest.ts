import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { IngestArguments } from '../ingest/run-ingest.ts';
import { parallelism } from './arguments.ts';

/** `mds ingest`: uploads files, folders and standard input. */
export function registerIngest(program: Command, context: () => Context): void {
  program
    .command('ingest')
    .description('upload files, whole folders, URLs, or standard input (-)')
    .argument('<path...>', 'files, folders (without hidden files), http and https URLs')
    .option('--filename <name>', 'name for a single file or standard input')
    .addOption(
      new Option('--duplicate <how>', 'what to do if the project already has these bytes')
        .choices(['existing', 'allow'])
        .default('existing'),
    )
    .option('--wait', 'wait until all files are processed; exit with 1 if processing fails')
    .option('--parallel <count>', 'files to send at once, 1 to 16', parallelism, 3)
    .option('--journal <file>', 'file that records what was ingested')
    .option('--again', 'ignore the journal and send everything')
    .addHelpText('after', HELP)
    .action(async (paths: string[], options: IngestArguments) => {
      const { runIngest } = await import('../ingest/run-ingest.ts');
      return runIngest(context(), paths, options);
    });
}

const HELP = `
Needs a token of scope ingest. Exit code 1 if any file failed or, with --wait,
any rendition failed.

For folders, and for 16 files or more, a journal records what was ingested (by
path, size and time of change). There is one journal for each service and set of
paths, in $XDG_STATE_HOME/mds or ~/.local/state/mds. After Ctrl-C, run the same
command again: it sends what is missing and retries what failed.

In a pipe, prints one tab-separated line for each finished file: id, outcome
(created, existing, remembered, failed), status, file, reason (or the renditions
that failed), warnings. With --json, one object a line:
  {"file","outcome","media_id","media": the API's media object or null,
   "error": {"code","message"} or null, "failed_renditions": ["hls.m3u8", ...]}

The service fetches URLs itself. It refuses addresses that are not public unless
its operator allows them. The service continues a fetch if you interrupt mds:
see mds fetches. Secrets of a URL (user, password, query) are not printed.

If you interrupt --wait, the service still processes the files that it has. Their
status is then queued or processing.

Examples:
  mds ingest --wait photos/
  mds ingest https://example.com/lake.jpg
  curl -s https://example.com/lake.jpg | mds ingest - --filename lake.jpg
`;
