import type { Context } from '../context.ts';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth, pad, truncate } from '../output/display-width.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { tabSeparated } from '../output/table.ts';
import type { IngestOutcome } from './ingest-files.ts';

/** Prints what became of one file: a line for people, tab-separated values, or one object of JSON. */
export function printOutcome(context: Context, result: IngestOutcome): void {
  const { colours } = context;
  if (context.json) {
    context.print(jsonText(result, 0));
  } else if (!context.interactive) {
    context.print(tabSeparated(COLUMNS, [result]).join(''));
  } else if (result.media && result.outcome !== 'failed') {
    const { id, status, bytes } = result.media;
    const head = `${pad(colourState(colours, result.outcome), 8)}  ${id}  ${pad(humanBytes(bytes), 7, 'right')}  ${pad(colourState(colours, printable(status)), 6)}  `;
    context.print(head + truncate(printable(result.file), Math.max(12, context.width - displayWidth(head)), 'end'));
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
  { title: 'REASON', text: ({ error }: IngestOutcome) => reason(error) },
];

function failureLine({ file, error }: IngestOutcome, colours: Colours): string {
  return `${colours.red('failed')}    ${printable(file)}: ${printable(reason(error))}`;
}

function reason(error: IngestOutcome['error']): string {
  if (error === null) return '';
  return error.code === null ? error.message : `${error.message} (${error.code})`;
}

/** With so many lines, the first failures have left the screen by the end. */
const REPEAT_FAILURES_FROM = 10;

/**
 * Says how it went on the whole; what failed once more where the lines about it may have left the screen.
 * @param files how many there were to be done
 */
export function printSummary(context: Context, outcomes: readonly IngestOutcome[], files: number): void {
  const failures = outcomes.filter(({ outcome }) => outcome === 'failed');
  const count = (wanted: IngestOutcome['outcome']) => outcomes.filter(({ outcome }) => outcome === wanted).length;
  const parts = (['created', 'existing', 'failed'] as const)
    .filter((outcome) => count(outcome) > 0)
    .map((outcome) => `${count(outcome)} ${outcome}`);
  const missing = files - outcomes.length;
  if (missing > 0) parts.push(`${missing} not done`);
  context.note(`${counted(files, 'file')}: ${parts.join(', ')}`);
  if (context.interactive && outcomes.length < REPEAT_FAILURES_FROM) return;
  for (const failure of failures) context.note(failureLine(failure, context.errorColours));
}

/** Where to read on, for files that were taken in and failed after that. */
export function printWhereToReadOn(context: Context, outcomes: readonly IngestOutcome[]): void {
  const [first] = outcomes.filter(({ outcome, media }) => outcome === 'failed' && media?.status === 'failed');
  if (first?.media) context.note(context.errorColours.dim(`What was tried: mds media explain ${first.media.id}`));
}
