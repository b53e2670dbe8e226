import type { Context } from '../context.ts';
import { colourMediaState, failedSentence } from '../media/media-state.ts';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth, pad, truncate } from '../output/display-width.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { shortMessage } from '../output/short-message.ts';
import { tabSeparated } from '../output/table.ts';
import { wrap } from '../output/wrap.ts';
import type { IngestOutcome } from './ingest-files.ts';
import { type FailureGroup, isStillProcessed, MAX_NAMED, type Tally } from './tally.ts';

/**
 * Prints the outcome of one file: a line for people, tab-separated values, or a JSON object.
 * @param waited whether the command waits for the media object
 */
export function printOutcome(context: Context, result: IngestOutcome, waited: boolean): void {
  const { colours } = context;
  if (context.json) {
    context.print(jsonText(result, 0));
  } else if (!context.interactive) {
    context.print(tabSeparated(COLUMNS, [result]).join(''));
  } else if (result.outcome === 'remembered') {
    // There may be thousands, and none is new. The summary counts them.
  } else if (result.media && result.outcome !== 'failed') {
    const { id, status, bytes } = result.media;
    const label = waited && isStillProcessed(result) ? 'accepted' : result.outcome;
    const head = `${pad(colourState(colours, label), 8)}  ${id}  ${pad(humanBytes(bytes), 7, 'right')}  ${pad(colourMediaState(colours, result.media, printable(status)), 6)}  `;
    context.print(head + truncate(printable(result.file), Math.max(12, context.width - displayWidth(head)), 'end'));
    for (const line of linesBelow(result, context.width, colours)) context.print(line);
  } else {
    // With --quiet too: a failure is an error.
    context.io.stderr.write(`${failureLine(result, context.errorColours)}\n`);
  }
}

const COLUMNS = [
  { title: 'ID', text: ({ media_id }: IngestOutcome) => media_id ?? '' },
  { title: 'OUTCOME', text: ({ outcome }: IngestOutcome) => outcome },
  { title: 'STATUS', text: ({ media }: IngestOutcome) => media?.status ?? '' },
  { title: 'FILE', text: ({ file }: IngestOutcome) => file },
  {
    title: 'REASON',
    text: (result: IngestOutcome) => reason(result.error) || failedSentence(result.failed_renditions),
  },
  { title: 'WARNINGS', text: ({ media }: IngestOutcome) => (media?.warnings ?? []).join(' ') },
];

const INDENT = 10;

/** The lines under an accepted file: its failed renditions and its warnings. */
function linesBelow({ media, failed_renditions: failed }: IngestOutcome, width: number, colours: Colours): string[] {
  const indented = (text: string, colour: (line: string) => string) =>
    wrap(printable(text), Math.max(20, width - INDENT)).map((line) => ' '.repeat(INDENT) + colour(line));
  return [
    ...(failed.length > 0 ? indented(failedSentence(failed), colours.red) : []),
    ...(media?.warnings ?? []).flatMap((warning) => indented(`warning: ${warning}`, colours.yellow)),
  ];
}

function failureLine({ file, error }: IngestOutcome, colours: Colours): string {
  return `${colours.red('failed')}    ${printable(file)}: ${printable(reason(error))}`;
}

function reason(error: IngestOutcome['error']): string {
  if (error === null) return '';
  const message = shortMessage(error.message);
  return error.code === null ? message : `${message} (${error.code})`;
}

/**
 * Prints a summary and the failures, grouped by reason. If the results do not go to the terminal, the first files of each group
 * are named; on a terminal each file already has its line.
 * @param files the number of files to ingest
 * @param complete whether that counts all files, or those found so far
 */
export function printSummary(context: Context, tally: Tally, files: number, complete: boolean): void {
  const parts = (['created', 'existing', 'remembered', 'failed'] as const)
    .filter((outcome) => tally[outcome] > 0)
    .map((outcome) => `${tally[outcome]} ${outcome}`);
  const { unfinished } = tally;
  if (unfinished > 0) parts.push(`${unfinished} accepted, still processing`);
  const missing = files - tally.files;
  if (!complete) parts.push(`at least ${Math.max(1, missing)} not done`);
  else if (missing > 0) parts.push(`${missing} not done`);
  const text = [parts.join(unfinished > 0 ? '; ' : ', '), ...partialFailures(tally)].join('; ');
  context.note([counted(files, 'file'), text].filter(Boolean).join(': '));
  for (const { media } of tally.firstUnfinished)
    context.note(`  Progress: mds media get ${printable(media?.id ?? '')}`);
  if (unfinished > MAX_NAMED) context.note('  Progress of the others: mds media list --detail');
  for (const group of [...tally.failures.values()].toSorted((a, b) => b.files - a.files)) printGroup(context, group);
}

function printGroup(context: Context, { code, files, first }: FailureGroup): void {
  const colours = context.errorColours;
  if (!context.interactive) for (const failure of first) context.note(failureLine(failure, colours));
  const unlisted = files - (context.interactive ? 0 : first.length);
  if (files <= MAX_NAMED) return;
  const label = printable(code ?? 'for other reasons');
  context.note(`${colours.red('failed')}    ${context.interactive ? files : `${unlisted} more`}: ${label}`);
}

/** Counts failed renditions and warnings of accepted files. */
function partialFailures({ incomplete, failedRenditions, warnings }: Tally): string[] {
  return [
    ...(failedRenditions > 0
      ? [`${counted(failedRenditions, 'rendition')} of ${counted(incomplete, 'file')} failed`]
      : []),
    ...(warnings > 0 ? [counted(warnings, 'warning')] : []),
  ];
}

/** Prints the commands that explain media which failed after they were accepted, or whose renditions failed. */
export function printNextSteps(context: Context, { firstFailedMedia, firstIncomplete }: Tally): void {
  const note = (line: string) => context.note(context.errorColours.dim(line));
  if (firstFailedMedia) note(`Why processing failed: mds media explain ${firstFailedMedia.media_id}`);
  if (firstIncomplete) note(`Why renditions failed: mds media get ${firstIncomplete.media_id}`);
}
