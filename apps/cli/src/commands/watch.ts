import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from '../context.ts';
import type { WatchArguments } from '../watch/run-watch.ts';
import { parallelism } from './arguments.ts';

/** `mds watch`: what is put into a folder, up to the service. */
export function registerWatch(program: Command, context: () => Context): void {
  program
    .command('watch')
    .description('ingest what is put into a folder, as soon as it is whole, until Ctrl-C')
    .argument('<folder>', 'the folder; folders in it are watched too, hidden files left out')
    .addOption(
      new Option('--done <how>', 'what to do with a file that the service has')
        .choices(['keep', 'move', 'delete'])
        .default('keep'),
    )
    .option('--done-dir <folder>', 'where --done move puts them, in folders as they were')
    .option('--settle <seconds>', 'how long a file has to stand still, 0 to 3600', settleSeconds, 2)
    .option('--poll <seconds>', 'look that often, and rely on no events: for network shares', pollSeconds)
    .option('--once', 'end when all that is there is ingested')
    .option('--parallel <count>', 'how many files at once, 1 to 16', parallelism, 3)
    .option('--journal <file>', 'where to remember what was ingested')
    .option('--status', 'tell what waits, what was refused or is unreadable and why, and end')
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
  throw new InvalidArgumentError(`It has to be a number of seconds from ${min} to ${max}.`);
}

const HELP = `
Needs a token of scope ingest. A file is sent when its size and times have stood
still for --settle seconds, or at once when it is renamed into place. Names that
begin with a dot or end with .part, .tmp, .crdownload or ~ wait for their rename.

A journal remembers what was ingested, and what was refused until it changes, so
that a watch may be ended and begun again at any time. While the service or the
folder is away it waits. One watch works with a journal at a time.

Prints what mds ingest prints: a line for each file, with --json an object. Ctrl-C
ends it with 0, after what is under way; a token that is refused with 4; with
--once the exit code is 1 if any file failed.

Examples:
  mds watch /srv/scans --done move --done-dir /srv/scanned
  mds watch /mnt/share --poll 10 --settle 30
  mds watch /srv/scans --status
`;
