import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from '../context.ts';
import type { WatchArguments } from '../watch/run-watch.ts';
import { parallelism } from './arguments.ts';

/** `mds watch`: uploads files that appear in a folder. */
export function registerWatch(program: Command, context: () => Context): void {
  program
    .command('watch')
    .description('ingest files that appear in a folder, until Ctrl-C')
    .argument('<folder>', 'the folder, with its subfolders, without hidden files')
    .addOption(
      new Option('--done <how>', 'what to do with an ingested file')
        .choices(['keep', 'move', 'delete'])
        .default('keep'),
    )
    .option('--done-dir <folder>', 'destination of --done move; subfolders are kept')
    .option('--settle <seconds>', 'how long a file must be unchanged, 0 to 3600', settleSeconds, 2)
    .option('--poll <seconds>', 'poll at this interval, without file events (for network shares)', pollSeconds)
    .option('--once', 'end when every file is ingested')
    .option('--parallel <count>', 'files to send at once, 1 to 16', parallelism, 3)
    .option('--journal <file>', 'file that records what was ingested')
    .option('--status', 'list what waits, was refused or is unreadable, and end')
    .addHelpText('after', HELP)
    .action(async (folder: string, options: WatchArguments) => {
      const { runWatch } = await import('../watch/run-watch.ts');
      return runWatch(context(), folder, options);
    });
}

function settleSeconds(text: string): number {
  return seconds(text, 0, 3600);
}

function pollSeconds(text: string): number {
  return seconds(text, 0.1, 3600);
}

function seconds(text: string, min: number, max: number): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(`It must be a number of seconds from ${min} to ${max}.`);
}

const HELP = `
Needs a token of scope ingest. A file is sent when its size and times have been
unchanged for --settle seconds, or at once when it is renamed into place. Names
that begin with a dot or end with .part, .tmp, .crdownload or ~ wait for their
rename.

A journal records what was ingested, and what was refused until it changes. You
can stop a watch at any time and start it again. It waits while the service or
the folder is away. Only one watch can use a journal at a time.

Prints what mds ingest prints: a line for each file, with --json an object.
Ctrl-C finishes the current files and ends with 0. A refused token ends with 4.
With --once the exit code is 1 if any file failed.

Examples:
  mds watch /srv/scans --done move --done-dir /srv/scanned
  mds watch /mnt/share --poll 10 --settle 30
  mds watch /srv/scans --status
`;
