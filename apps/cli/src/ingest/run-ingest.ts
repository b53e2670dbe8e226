import { basename } from 'node:path';
import type { Client } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError, StoppedError } from '../exit-codes.ts';
import type { Journal } from '../journal/journal.ts';
import { watchForMove } from '../moved-deployment.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { counted } from '../output/quantities.ts';
import { countFiles } from './count-files.ts';
import { filesOf, findRoots, type IngestFile, type RemoteFile, type Root, type UnreadableFile } from './find-files.ts';
import { createIngestDisplay } from './ingest-display.ts';
import { ingestFiles } from './ingest-files.ts';
import { openIngestJournal } from './ingest-journal.ts';
import { printNextSteps, printOutcome, printSummary } from './outcomes.ts';
import { createSendFile } from './send-file.ts';
import { createTally, type Tally } from './tally.ts';

/** The options of `mds ingest`, parsed. */
export interface IngestArguments {
  filename?: string;
  duplicate: 'existing' | 'allow';
  wait?: boolean;
  parallel: number;
  journal?: string;
  again?: boolean;
}

/**
 * Ingests the named paths; `-` is standard input. Prints every outcome at once, and a summary.
 * @throws CliError if a file failed or, with `wait`, a rendition failed; the error that stopped the ingest early
 */
export async function runIngest(context: Context, paths: string[], options: IngestArguments): Promise<void> {
  const roots = await rootsOf(context, paths, options.filename);
  const client = await context.operator();
  const journal = await openIngestJournal(context, client, roots, options);
  try {
    const tally = await ingestRoots(context, client, { roots, stdin: paths.includes('-'), journal }, options);
    const { files, failed, incomplete } = tally;
    const failures = [
      ...(failed > 0 ? [`${counted(failed, 'file')} of ${files} could not be ingested.`] : []),
      ...(incomplete > 0 && options.wait ? [`Renditions of ${counted(incomplete, 'file')} of ${files} failed.`] : []),
    ];
    if (failures.length > 0) throw new ReportedError(failures.join(' '));
  } finally {
    await journal?.close();
  }
}

/** After an interruption, the count of files gets this long to finish. */
const COUNT_GRACE_MS = 500;

/** The input of an ingest. */
interface Sources {
  roots: readonly Root[];
  stdin: boolean;
  journal: Journal | null;
}

/** @throws the error that stopped the ingest early */
async function ingestRoots(
  context: Context,
  client: Client,
  { roots, stdin, journal }: Sources,
  { filename, duplicate, wait, parallel }: IngestArguments,
): Promise<Tally> {
  const { io } = context;
  const waited = wait === true;
  const tally = createTally(waited);
  // Counts in parallel, so that sending does not wait until all files are found.
  const count = countFiles(roots, stdin ? 1 : 0);
  const display = createIngestDisplay(tally, count);
  const block = createLiveBlock(context.progress, (width, height) =>
    display.lines({ width, height, colours: context.errorColours }),
  );
  const partial: string[] = [];
  const moveWatch = watchForMove(client, io.signal);
  let stopped: unknown;
  try {
    stopped = await ingestFiles(renamed(allFiles(context, roots, stdin), filename), {
      client,
      send: createSendFile(client, io),
      parallel,
      duplicate,
      wait: waited,
      journal,
      signal: moveWatch.signal,
      onStart: display.start,
      onEnd(transfer, outcome) {
        display.end(transfer);
        if (outcome === null) return;
        tally.add(outcome);
        block.above(() => printOutcome(context, outcome, waited));
      },
      onResumed: (message) => block.above(() => context.note(message)),
      onPartial: (message) => partial.push(message),
    });
  } finally {
    moveWatch.stop();
    block.stop();
    await count.stop(stopped === null ? 0 : COUNT_GRACE_MS);
  }
  const complete = stopped === null || count.complete;
  printSummary(context, tally, stopped === null ? tally.files : Math.max(tally.files, count.files), complete);
  if (context.interactive) printNextSteps(context, tally);
  if (stopped !== null) throw partial.length > 0 ? new StoppedError(stopped, partial) : stopped;
  return tally;
}

async function rootsOf(context: Context, paths: string[], filename: string | undefined): Promise<Root[]> {
  const { stdin, cwd } = context.io;
  const usage = (message: string, ...hints: string[]) => new CliError(message, { exitCode: EXIT.usage, hints });
  const roots = await findRoots(
    paths.filter((path) => path !== '-'),
    cwd,
  );
  const streams = paths.includes('-') ? 1 : 0;
  if (streams > 0 && stdin.isTTY) {
    throw usage('Standard input is the terminal.', 'Pipe a file into it: mds ingest - < lake.jpg');
  }
  if (filename === undefined) return roots;
  const single = roots.length + streams === 1 && roots.every(({ kind }) => kind !== 'folder');
  if (!single) throw usage('--filename needs exactly one file.', 'Name one file, or - alone.');
  return roots;
}

async function* allFiles(
  { io }: Context,
  roots: readonly Root[],
  stdin: boolean,
): AsyncGenerator<IngestFile | RemoteFile | UnreadableFile> {
  yield* filesOf(roots);
  if (stdin) yield { label: '-', source: null, filename: undefined, bytes: null, content: io.stdin };
}

async function* renamed(
  files: AsyncGenerator<IngestFile | RemoteFile | UnreadableFile>,
  filename: string | undefined,
): AsyncGenerator<IngestFile | RemoteFile | UnreadableFile> {
  for await (const file of files) {
    yield filename === undefined || 'failure' in file ? file : { ...file, filename: basename(filename) };
  }
}
