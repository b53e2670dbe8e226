import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Benchmark, type Goal, type Outcome, type Ratio, reaches, type Table } from './benchmark.ts';
import type { Machine } from './machine.ts';
import { toMarkdown, toText } from './table.ts';

/** One run of one benchmark, with everything that is needed to judge and repeat it. */
export interface Result {
  readonly benchmark: Benchmark;
  readonly outcome: Outcome;
  readonly machine: Machine;
  readonly command: string;
  readonly measuredAt: string;
  readonly rounds: number;
  readonly quick: boolean;
  readonly seconds: number;
}

/** Whether every goal is reached and every output is correct. */
export function passes({ benchmark, outcome }: Pick<Result, 'benchmark' | 'outcome'>): boolean {
  return outcome.problems.length === 0 && goalsOf(benchmark, outcome).every(({ reached }) => reached);
}

function goalsOf({ goals }: Benchmark, { ratios }: Outcome): { goal: Goal; ratio: Ratio; reached: boolean }[] {
  return Object.entries(goals).map(([name, goal]) => {
    const ratio = ratios[name] ?? { value: Number.NaN, low: Number.NaN, high: Number.NaN };
    return { goal, ratio, reached: reaches(goal, ratio) };
  });
}

function goalTable({ benchmark, outcome }: Pick<Result, 'benchmark' | 'outcome'>): Table {
  return {
    title: benchmark.regressionBound ? 'regression bounds' : 'goals',
    head: ['ratio', 'measured', 'range of rounds', 'goal', 'verdict'],
    rows: goalsOf(benchmark, outcome).map(({ goal, ratio, reached }) => [
      goal.says,
      ratio.value.toFixed(ratio.value > 0.99 && ratio.value < 1.01 ? 4 : 2),
      ratio.low === ratio.high ? 'exact' : `${ratio.low.toFixed(2)} to ${ratio.high.toFixed(2)}`,
      'atMost' in goal ? `<= ${goal.atMost}` : `>= ${goal.atLeast}`,
      reached ? 'pass' : 'FAIL',
    ]),
  };
}

/** The result for a terminal. */
export function resultText(result: Result): string {
  const { benchmark, outcome } = result;
  return [
    `${benchmark.name}: ${benchmark.what}`,
    `against ${benchmark.against}`,
    '',
    ...[goalTable(result), ...outcome.tables].map((table) => `${toText(table)}\n`),
    ...outcome.notes.map((note) => `note: ${note}`),
    ...outcome.problems.map((problem) => `PROBLEM: ${problem}`),
  ].join('\n');
}

/** Writes the result as JSON to `folder/NAME.json`. */
export async function writeResult(folder: string, result: Result): Promise<string> {
  const { benchmark, ...rest } = result;
  const { run: _, ...declared } = benchmark;
  const path = join(folder, `${benchmark.name}.json`);
  await replaceFile(path, `${JSON.stringify({ passes: passes(result), benchmark: declared, ...rest }, null, 2)}\n`);
  return path;
}

const opening = (name: string) => `<!-- bench:${name} -->`;
const closing = (name: string) => `<!-- /bench:${name} -->`;

/**
 * Puts the result between its marks in the Markdown document, `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`. Without marks it is
 * added at the end under its own heading. Text outside the marks never changes.
 */
export function withSection(document: string, result: Result): string {
  const { name } = result.benchmark;
  const block = `${opening(name)}\n${resultMarkdown(result)}\n${closing(name)}`;
  const from = document.indexOf(opening(name));
  const to = document.indexOf(closing(name));
  if (from >= 0 && to > from) return document.slice(0, from) + block + document.slice(to + closing(name).length);
  return `${document.trimEnd()}\n\n## ${name}\n\n${block}\n`;
}

/** Updates the document at `path`; creates it if it is missing. */
export async function updateDocument(path: string, result: Result): Promise<void> {
  const document = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '# Performance\n';
    throw error;
  });
  await replaceFile(path, withSection(document, result));
}

function resultMarkdown(result: Result): string {
  const { benchmark, outcome, machine, command, measuredAt, rounds, quick } = result;
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${capital(benchmark.what)}, against ${benchmark.against}.`,
    ...[goalTable(result), ...outcome.tables].map(toMarkdown),
    ...outcome.notes,
    ...outcome.problems.map((problem) => `**Problem:** ${problem}`),
    `Measured ${measuredAt.slice(0, 10)}${machine.commit === null ? '' : ` at commit ${machine.commit}`} with \`${command}\`, medians of ${rounds} alternating rounds${quick ? ' (quick: not for publication)' : ''}, ` +
      `on ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGib} GiB, ${machine.system}; ${versions.join(', ')}.`,
  ].join('\n\n');
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function replaceFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.partial`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}
