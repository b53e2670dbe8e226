import type { ProcessingAttempt, ProgramRun } from '@mds/client';
import { type Colours, colourState } from '../output/colours.ts';
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
/** Lines of what a program wrote that are shown unless more was asked for. */
const LAST_WORDS = 6;

/** One attempt: how it ended, what was decided on the way, how long each step took, and what each program was and said. */
export function attemptLines(attempt: ProcessingAttempt, { width, colours, full, commands }: AttemptView): string[] {
  const { outcome, error, notes, timings, runs } = attempt;
  const lines = [
    `${colours.bold(`ATTEMPT ${attempt.attempt}`)}  ${outcomeOf(colours, outcome)}${elapsed(attempt)}  ${colours.dim(printable(`${attempt.started_at} by ${attempt.worker}`))}`,
  ];
  const sentence = (text: string) => wrap(printable(text), Math.max(20, width - 2));
  if (error) lines.push(...sentence(`${error.message} (${error.code})`).map((line) => `  ${colours.red(line)}`));
  for (const note of notes) lines.push(...sentence(note).map((line) => `  ${line}`));
  if (!full) return lines;
  const steps = Object.entries(timings);
  if (steps.length > 0) lines.push('', ...stepLines(steps, width, colours));
  if (runs.length > 0) lines.push('');
  for (const run of runs) {
    const failed = outcome !== 'ready' && run.outcome !== 'ok';
    lines.push(...runLines(run, commands ? Number.POSITIVE_INFINITY : failed ? LAST_WORDS : 0, colours));
  }
  return lines;
}

/** From the second that it began in to the one that it ended in; more is not recorded. */
function elapsed({ started_at: from, ended_at: to }: ProcessingAttempt): string {
  if (to === null) return '';
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  return `  in ${ms < 60_000 ? humanDuration(ms) || 'less than a second' : humanTiming(ms)}`;
}

function outcomeOf(colours: Colours, outcome: string): string {
  const said = OUTCOMES[outcome] ?? outcome;
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
  return [
    `  ${head}`,
    ...steps.map(([, ms], index) => `  ${body[index] ?? ''}  ${bar(ms / longest, LONGEST_BAR, colours)}`),
  ];
}

/** @param words how many lines of what it wrote follow its command; 0: neither */
function runLines(run: ProgramRun, words: number, colours: Colours): string[] {
  const facts = [
    humanTiming(run.ms),
    run.cpu_ms === null ? null : `${humanTiming(run.cpu_ms)} CPU`,
    run.max_memory_bytes === null ? null : `${humanBytes(run.max_memory_bytes)} memory`,
  ].filter((fact) => fact !== null);
  const outcome = printable(run.outcome);
  const program = printable(run.argv[0] ?? '');
  const head = `  ${printable(`${run.step}: ${program}`)}  ${run.outcome === 'ok' ? colours.green(outcome) : colours.red(outcome)}  ${colours.dim(facts.join(', '))}`;
  if (words === 0) return [head];
  const lastWords = words > run.stderr_tail.length ? run.stderr_tail : run.stderr_tail.slice(-words);
  // Nothing before the command, and never shortened: it is there to be copied.
  return [head, shellCommand(run.argv), ...lastWords.map((line) => colours.dim(`  | ${printable(line)}`))];
}
