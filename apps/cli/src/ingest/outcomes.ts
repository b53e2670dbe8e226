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
 * Prints what became of one file: a line for people, tab-separated values, or one object of JSON.
 * @param waited whether it was to be waited for
 */
export function printOutcome(context: Context, result: IngestOutcome, waited: boolean): void {
  const { colours } = context;
  if (context.json) {
    context.print(jsonText(result, 0));
  } else if (!context.interactive) {
    context.print(tabSeparated(COLUMNS, [result]).join(''));
  } else if (result.outcome === 'remembered') {
    // Thousands, perhaps, of which nothing is new: the summary has their number.
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

/** What is to be known of a file that was taken in: what of it could not be made, and what was wrong with it. */
function linesBelow({ media, failed_renditions: failed }: IngestOutcome, width: number, colours: Colours): string[] {
  const told = (text: string, colour: (line: string) => string) =>
    wrap(printable(text), Math.max(20, width - INDENT)).map((line) => ' '.repeat(INDENT) + colour(line));
  return [
    ...(failed.length > 0 ? told(failedSentence(failed), colours.red) : []),
    ...(media?.warnings ?? []).flatMap((warning) => told(`warning: ${warning}`, colours.yellow)),
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
 * Says how it went on the whole, and what failed by its reasons. Where results do not go to the terminal, some of each are told by
 * name; there every one has its line.
 * @param files how many there were to be done
 * @param complete whether that is all of them, or those that were found so far
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
  const said = [parts.join(unfinished > 0 ? '; ' : ', '), ...partly(tally)].join('; ');
  context.note([counted(files, 'file'), said].filter(Boolean).join(': '));
  for (const { media } of tally.firstUnfinished)
    context.note(`  How far it is: mds media get ${printable(media?.id ?? '')}`);
  if (unfinished > MAX_NAMED) context.note('  How far the others are: mds media list --detail');
  for (const group of [...tally.failures.values()].toSorted((a, b) => b.files - a.files)) printGroup(context, group);
}

function printGroup(context: Context, { code, files, first }: FailureGroup): void {
  const colours = context.errorColours;
  if (!context.interactive) for (const failure of first) context.note(failureLine(failure, colours));
  const untold = files - (context.interactive ? 0 : first.length);
  if (files <= MAX_NAMED) return;
  const label = printable(code ?? 'for other reasons');
  context.note(`${colours.red('failed')}    ${context.interactive ? files : `${untold} more`}: ${label}`);
}

/** What is to be said of files that were taken in, though not all about them is well. */
function partly({ incomplete, failedRenditions, warnings }: Tally): string[] {
  return [
    ...(failedRenditions > 0
      ? [`${counted(failedRenditions, 'rendition')} of ${counted(incomplete, 'file')} failed`]
      : []),
    ...(warnings > 0 ? [counted(warnings, 'warning')] : []),
  ];
}

/** Where to read on, for files that were taken in and failed after that, or of which renditions did. */
export function printWhereToReadOn(context: Context, { firstFailedMedia, firstIncomplete }: Tally): void {
  const say = (line: string) => context.note(context.errorColours.dim(line));
  if (firstFailedMedia) say(`What was tried: mds media explain ${firstFailedMedia.media_id}`);
  if (firstIncomplete) say(`Why renditions failed: mds media get ${firstIncomplete.media_id}`);
}
