import type { ProcessingAttempt, ProgramRun } from '@mds/client';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth } from '../output/display-width.ts';
import { printable } from '../output/printable.ts';
import { bar } from '../output/progress.ts';
import { humanBytes, humanDuration, humanTiming } from '../output/quantities.ts';
import { shellCommand } from '../output/shell-quote.ts';
import { type Column, tableLines } from '../output/table.ts';
import { wrap } from '../output/wrap.ts';

/** How to show an attempt. */
export interface AttemptView {
  width: number;
  colours: Colours;
  /** With its steps and programs. */
  full: boolean;
  /**
   * With the command lines and stderr of all programs. Otherwise only failed programs of failed attempts have them: they are long,
   * and a frame that failed to decode does not matter if another one was used.
   */
  commands: boolean;
}

const MAX_BAR = 32;
/** A shorter bar shows nothing. */
const MIN_BAR = 4;
/** The number of stderr lines to show by default. */
const STDERR_LINES = 6;

/** One attempt: its outcome, its notes, the duration of each step, and its programs with their output. */
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
    const stderrLinesOf = (run: ProgramRun) => {
      if (commands) return Number.POSITIVE_INFINITY;
      return outcome !== 'ready' && run.outcome !== 'ok' ? STDERR_LINES : 0;
    };
    lines.push('', ...runLines(runs, stderrLinesOf, width, colours));
  }
  return lines;
}

/** The duration of an attempt. Its ends are recorded in whole seconds. */
function elapsed({ started_at: from, ended_at: to }: ProcessingAttempt): string {
  if (to === null) return '';
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  return `  in ${ms < 60_000 ? humanDuration(ms) || 'less than a second' : humanTiming(ms)}`;
}

function outcomeOf(colours: Colours, { outcome, error }: Pick<ProcessingAttempt, 'outcome' | 'error'>): string {
  // The error below explains why the attempt could not run. Its worker was not stopped.
  const words = outcome === 'released' && error ? 'released, not counted' : (OUTCOMES[outcome] ?? outcome);
  return colourState(colours, outcome === 'running' ? 'processing' : outcome, printable(words));
}

/** Words for outcomes whose name in the API does not explain itself. */
const OUTCOMES: Readonly<Record<string, string>> = {
  retried: 'failed, then retried',
  released: 'released: its worker was stopped',
  lost: 'lost: its worker died',
};

function stepLines(steps: [string, number][], width: number, colours: Colours): string[] {
  const longest = Math.max(1, ...steps.map(([, ms]) => ms));
  const columns: Column<[string, number]>[] = [
    { title: 'STEP', text: ([name]) => name, shrinkTo: 8 },
    { title: 'TIME', text: ([, ms]) => humanTiming(ms), align: 'right' },
  ];
  const [head = '', ...body] = tableLines(columns, steps, Math.max(20, width - MAX_BAR - 4), colours.bold);
  const barWidth = Math.min(MAX_BAR, width - displayWidth(head) - 4);
  const barOf = (ms: number) => (barWidth < MIN_BAR ? '' : `  ${bar(ms / longest, barWidth, colours)}`);
  return [`  ${head}`, ...steps.map(([, ms], index) => `  ${body[index] ?? ''}${barOf(ms)}`)];
}

/** Consecutive successful runs of the same program in one step, or a single run. */
interface RunRow {
  runs: [ProgramRun, ...ProgramRun[]];
  /** The number of stderr lines after its command; 0 shows neither. */
  stderrLines: number;
}

/** @param stderrLinesOf how many stderr lines to show after the command of a run; 0 shows neither */
function runLines(
  runs: readonly ProgramRun[],
  stderrLinesOf: (run: ProgramRun) => number,
  width: number,
  colours: Colours,
): string[] {
  const rows: RunRow[] = [];
  for (const run of runs) {
    const stderrLines = stderrLinesOf(run);
    const last = rows.at(-1);
    if (last && stderrLines === 0 && last.stderrLines === 0 && isSameProgram(last.runs[0], run)) last.runs.push(run);
    else rows.push({ runs: [run], stderrLines });
  }
  const [head = '', ...body] = tableLines(runColumns(colours), rows, Math.max(20, width - 2), colours.bold);
  return [
    `  ${head}`,
    ...rows.flatMap(({ runs: [run], stderrLines }, index) => {
      const line = `  ${body[index] ?? ''}`.trimEnd();
      if (stderrLines === 0) return [line];
      const lastLines = stderrLines > run.stderr_tail.length ? run.stderr_tail : run.stderr_tail.slice(-stderrLines);
      // Without indentation and never shortened, so that it can be copied.
      return [line, shellCommand(run.argv), ...lastLines.map((it) => colours.dim(`  | ${printable(it)}`))];
    }),
  ];
}

function isSameProgram(first: ProgramRun, run: ProgramRun): boolean {
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
