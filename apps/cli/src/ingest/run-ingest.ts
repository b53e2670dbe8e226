import { basename } from 'node:path';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import type { Colours } from '../output/colours.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { type Transfer, transferLine } from '../output/progress.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { collectFiles, type IngestFile } from './collect-files.ts';
import { type IngestOutcome, ingestFiles } from './ingest-files.ts';
import { isIncomplete, printOutcome, printSummary, printWhereToReadOn } from './outcomes.ts';

/** The options of `mds ingest`, parsed. */
export interface IngestArguments {
  filename?: string;
  duplicate: 'existing' | 'allow';
  wait?: boolean;
  parallel: number;
}

/**
 * Ingests what the paths name; `-` is standard input. Prints every outcome as it comes, and a summary.
 * @throws CliError where some file failed, or waited for, renditions of one; what ended it early otherwise, an Interruption included
 */
export async function runIngest(context: Context, paths: string[], options: IngestArguments): Promise<void> {
  const { io } = context;
  const files = await filesOf(context, paths, options.filename);
  const client = await context.operator();
  const waited = options.wait === true;
  const outcomes: IngestOutcome[] = [];
  const active = new Set<Transfer>();
  const started = new Set<Transfer>();

  const block = createLiveBlock(context.quiet ? null : io.stderr, (width, height) =>
    progressLines([...active], files, outcomes.length, [...started], { width, height, colours: context.errorColours }),
  );
  let stopped: unknown;
  try {
    stopped = await ingestFiles(files, {
      client,
      parallel: options.parallel,
      duplicate: options.duplicate,
      wait: waited,
      signal: io.signal,
      onStart(transfer) {
        active.add(transfer);
        started.add(transfer);
      },
      onEnd(transfer, outcome) {
        active.delete(transfer);
        if (outcome === null) return;
        outcomes.push(outcome);
        block.above(() => printOutcome(context, outcome, waited));
      },
    });
  } finally {
    block.stop();
  }

  printSummary(context, outcomes, files.length, waited);
  if (context.interactive) printWhereToReadOn(context, outcomes);
  if (stopped !== null) throw stopped;
  const failed = outcomes.filter(({ outcome }) => outcome === 'failed').length;
  const incomplete = waited ? outcomes.filter(isIncomplete).length : 0;
  const wrong = [
    ...(failed > 0 ? [`${counted(failed, 'file')} of ${files.length} could not be ingested.`] : []),
    ...(incomplete > 0 ? [`Renditions of ${counted(incomplete, 'file')} of ${files.length} failed.`] : []),
  ];
  if (wrong.length > 0) throw new ReportedError(wrong.join(' '));
}

async function filesOf(context: Context, paths: string[], filename: string | undefined): Promise<IngestFile[]> {
  const { stdin, cwd } = context.io;
  const usage = (message: string, ...hints: string[]) => new CliError(message, { exitCode: EXIT.usage, hints });
  const files = await collectFiles(
    paths.filter((path) => path !== '-'),
    cwd,
  );
  if (paths.includes('-')) {
    if (stdin.isTTY) throw usage('Standard input is the terminal.', 'Pipe a file into it: mds ingest - < lake.jpg');
    files.push({ label: '-', filename: undefined, bytes: null, content: stdin });
  }
  if (filename === undefined) return files;
  const [file, ...others] = files;
  if (!file || others.length > 0) throw usage(`--filename names a single file; there are ${files.length}.`);
  return [{ ...file, filename: basename(filename) }];
}

interface Room {
  width: number;
  height: number;
  colours: Colours;
}

function progressLines(
  active: Transfer[],
  files: readonly IngestFile[],
  done: number,
  started: Transfer[],
  { width, height, colours }: Room,
): string[] {
  const now = Date.now();
  const lines = active.slice(0, Math.max(1, height - 1)).map((transfer) => transferLine(transfer, width, now, colours));
  if (files.length > 1 && height > 1) {
    const sent = started.reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    const total = files.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0);
    lines.push(colours.dim(`${done} of ${files.length} files, ${humanBytes(sent)} of ${humanBytes(total)}`));
  }
  return lines;
}
