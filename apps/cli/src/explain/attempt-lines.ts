import type { ProcessingAttempt, ProgramRun } from '@mds/client';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth } from '../output/display-width.ts';
import { printable } from '../output/printable.ts';
import { bar } from '../output/progress.ts';
import { humanBytes, humanDuration, humanTiming } from '../output/quantities.ts';
import { shellCommand } from '../output/shell-quote.ts';
import { type Column, tableLines } from '../output/table.ts';
import { wrap } from '../output/wrap.ts';

/** How an attempt is told. */
export interface AttemptView {
  width: number;
  colours: Colours;
  /** With its steps and programs. */
  full: boolean;
  /**
   * The command line and the last words of all its programs; otherwise of those that did not end well in an attempt that did
   * not either. They are long, and to try a frame that cannot be decoded is not worth a page where another was found.
   */
  commands: boolean;
}

const LONGEST_BAR = 32;
/** A shorter one shows nothing. */
const LEAST_BAR = 4;
/** Lines of what a program wrote that are shown unless more was asked for. */
const LAST_WORDS = 6;

/** One attempt: how it ended, what was decided on the way, how long each step took, and what each program was and said. */
export function attemptLines(attempt: ProcessingAttempt, { width, colours, full, commands }: AttemptView): string[] {
  const { outcome, error, notes, timings, runs } = attempt;
  const lines = [
    `${colours.bold(`ATTEMPT ${attempt.attempt}`)}  ${outcomeOf(colours, attempt)}${elapsed(attempt)}  ${colours.dim(printable(`${attempt.started_at} by ${attempt.worker}`))}`,
  ];
  const sentence = (text: string) => wrap(printable(text), Math.max(20, width - 2));
  if (error) lines.push(...sentence(`${error.message} (${error.code})`).map((line) => `  ${colours.red(line)}`));
  for (const note of notes) lines.push(...sentence(note).map((line) => `  ${line}`));
  if (!full) return lines;
  const steps = Object.entries(timings);
  if (steps.length > 0) lines.push('', ...stepLines(steps, width, colours));
  if (runs.length > 0) {
    const wordsOf = (run: ProgramRun) => {
      if (commands) return Number.POSITIVE_INFINITY;
      return outcome !== 'ready' && run.outcome !== 'ok' ? LAST_WORDS : 0;
    };
    lines.push('', ...runLines(runs, wordsOf, width, colours));
  }
  return lines;
}

/** From the second that it began in to the one that it ended in; more is not recorded. */
function elapsed({ started_at: from, ended_at: to }: ProcessingAttempt): string {
  if (to === null) return '';
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  return `  in ${ms < 60_000 ? humanDuration(ms) || 'less than a second' : humanTiming(ms)}`;
}

function outcomeOf(colours: Colours, { outcome, error }: Pick<ProcessingAttempt, 'outcome' | 'error'>): string {
  // What kept it from any media object is said below it, and was not its worker's end.
  const said = outcome === 'released' && error ? 'given back, not counted' : (OUTCOMES[outcome] ?? outcome);
  return colourState(colours, outcome === 'running' ? 'processing' : outcome, printable(said));
}

/** In words where the word of the API alone does not say it. */
const OUTCOMES: Readonly<Record<string, string>> = {
  retried: 'failed, and tried again',
  released: 'given back: its worker was stopped',
  lost: 'lost: its worker died',
};

function stepLines(steps: [string, number][], width: number, colours: Colours): string[] {
  const longest = Math.max(1, ...steps.map(([, ms]) => ms));
  const columns: Column<[string, number]>[] = [
    { title: 'STEP', text: ([name]) => name, shrinkTo: 8 },
    { title: 'TIME', text: ([, ms]) => humanTiming(ms), align: 'right' },
  ];
  const [head = '', ...body] = tableLines(columns, steps, Math.max(20, width - LONGEST_BAR - 4), colours.bold);
  const barWidth = Math.min(LONGEST_BAR, width - displayWidth(head) - 4);
  const barOf = (ms: number) => (barWidth < LEAST_BAR ? '' : `  ${bar(ms / longest, barWidth, colours)}`);
  return [`  ${head}`, ...steps.map(([, ms], index) => `  ${body[index] ?? ''}${barOf(ms)}`)];
}

/** Programs that are told in one line: one after the other in a step, the same, and all ended well; or a single one. */
interface RunRow {
  runs: [ProgramRun, ...ProgramRun[]];
  /** How many lines of what it wrote follow its command; 0: neither. */
  words: number;
}

/** @param wordsOf how many lines of what a program wrote are told after its command; 0: neither */
function runLines(
  runs: readonly ProgramRun[],
  wordsOf: (run: ProgramRun) => number,
  width: number,
  colours: Colours,
): string[] {
  const rows: RunRow[] = [];
  for (const run of runs) {
    const words = wordsOf(run);
    const last = rows.at(-1);
    if (last && words === 0 && last.words === 0 && isAnotherOf(last.runs[0], run)) last.runs.push(run);
    else rows.push({ runs: [run], words });
  }
  const [head = '', ...body] = tableLines(runColumns(colours), rows, Math.max(20, width - 2), colours.bold);
  return [
    `  ${head}`,
    ...rows.flatMap(({ runs: [run], words }, index) => {
      const line = `  ${body[index] ?? ''}`.trimEnd();
      if (words === 0) return [line];
      const lastWords = words > run.stderr_tail.length ? run.stderr_tail : run.stderr_tail.slice(-words);
      // Nothing before the command, and never shortened: it is there to be copied.
      return [line, shellCommand(run.argv), ...lastWords.map((it) => colours.dim(`  | ${printable(it)}`))];
    }),
  ];
}

function isAnotherOf(first: ProgramRun, run: ProgramRun): boolean {
  return first.outcome === 'ok' && run.outcome === 'ok' && first.step === run.step && first.argv[0] === run.argv[0];
}

function runColumns(colours: Colours): Column<RunRow>[] {
  const sum = (values: (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
  return [
    { title: 'STEP', text: ({ runs: [run] }) => run.step, shrinkTo: 8 },
    {
      title: 'PROGRAM',
      text: ({ runs }) => (runs[0].argv[0] ?? '') + (runs.length > 1 ? ` \u00d7${runs.length}` : ''),
    },
    {
      title: 'ENDED',
      text: ({ runs: [run] }) => run.outcome,
      shrinkTo: 12,
      colour: (text, { runs: [run] }) => (run.outcome === 'ok' ? colours.green(text) : colours.red(text)),
    },
    { title: 'TIME', text: ({ runs }) => humanTiming(sum(runs.map(({ ms }) => ms))), align: 'right' },
    {
      title: 'CPU',
      text: ({ runs }) =>
        runs.every((run) => run.cpu_ms === null) ? '-' : humanTiming(sum(runs.map((run) => run.cpu_ms))),
      align: 'right',
      expendable: 1,
    },
    {
      title: 'MEMORY',
      text: ({ runs }) => {
        const most = Math.max(...runs.map((run) => run.max_memory_bytes ?? 0));
        return most === 0 ? '-' : humanBytes(most);
      },
      align: 'right',
      expendable: 2,
    },
  ];
}
