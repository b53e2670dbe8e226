import type { Context } from '../context.ts';
import { colourMediaState, failedSentence } from '../media/media-state.ts';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth, pad, truncate } from '../output/display-width.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { tabSeparated } from '../output/table.ts';
import { wrap } from '../output/wrap.ts';
import type { IngestOutcome } from './ingest-files.ts';

/** Whether a file was accepted and is processed still, while nobody waits for it any more: possible where somebody did. */
export function isStillProcessed({ outcome, media }: IngestOutcome): boolean {
  return outcome !== 'failed' && media !== null && media.status !== 'ready';
}

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
  { title: 'ID', text: ({ media }: IngestOutcome) => media?.id ?? '' },
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
  return error.code === null ? error.message : `${error.message} (${error.code})`;
}

/** More of the same would hide the summary. */
const MAX_COMMANDS = 5;

/**
 * Says how it went on the whole. What failed is told once more where results do not go to the terminal: there it has its line.
 * @param files how many there were to be done
 * @param waited whether they were to be waited for
 */
export function printSummary(
  context: Context,
  outcomes: readonly IngestOutcome[],
  files: number,
  waited: boolean,
): void {
  const failures = outcomes.filter(({ outcome }) => outcome === 'failed');
  const unfinished = waited ? outcomes.filter(isStillProcessed) : [];
  const finished = outcomes.filter((it) => !unfinished.includes(it));
  const count = (wanted: IngestOutcome['outcome']) => finished.filter(({ outcome }) => outcome === wanted).length;
  const parts = (['created', 'existing', 'failed'] as const)
    .filter((outcome) => count(outcome) > 0)
    .map((outcome) => `${count(outcome)} ${outcome}`);
  if (unfinished.length > 0) parts.push(`${unfinished.length} accepted, still processing`);
  const missing = files - outcomes.length;
  if (missing > 0) parts.push(`${missing} not done`);
  const said = [parts.join(unfinished.length > 0 ? '; ' : ', '), ...partly(outcomes)].join('; ');
  context.note(`${counted(files, 'file')}: ${said}`);
  const ids = unfinished.map(({ media }) => media?.id ?? '');
  for (const id of ids.slice(0, MAX_COMMANDS)) context.note(`  How far it is: mds media get ${printable(id)}`);
  if (ids.length > MAX_COMMANDS) context.note('  How far the others are: mds media list --detail');
  if (context.interactive) return;
  for (const failure of failures) context.note(failureLine(failure, context.errorColours));
}

/** What is to be said of files that were taken in, though not all about them is well. */
function partly(outcomes: readonly IngestOutcome[]): string[] {
  const parts: string[] = [];
  const incomplete = outcomes.filter(isIncomplete);
  const renditions = incomplete.reduce((sum, it) => sum + it.failed_renditions.length, 0);
  if (renditions > 0) parts.push(`${counted(renditions, 'rendition')} of ${counted(incomplete.length, 'file')} failed`);
  const warnings = outcomes.reduce((sum, { media }) => sum + (media?.warnings.length ?? 0), 0);
  if (warnings > 0) parts.push(counted(warnings, 'warning'));
  return parts;
}

/** Whether a file's medium is ready while renditions of it failed. */
export function isIncomplete({ failed_renditions: failed }: IngestOutcome): boolean {
  return failed.length > 0;
}

/** Where to read on, for files that were taken in and failed after that, or of which renditions did. */
export function printWhereToReadOn(context: Context, outcomes: readonly IngestOutcome[]): void {
  const [first] = outcomes.filter(({ outcome, media }) => outcome === 'failed' && media?.status === 'failed');
  if (first?.media) context.note(context.errorColours.dim(`What was tried: mds media explain ${first.media.id}`));
  const [partial] = outcomes.filter(isIncomplete);
  if (partial?.media)
    context.note(context.errorColours.dim(`Why renditions failed: mds media get ${partial.media.id}`));
}
