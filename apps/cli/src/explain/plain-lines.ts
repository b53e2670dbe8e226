import type { MediaExplanation } from '@mds/client';
import { printable } from '../output/printable.ts';
import { shellCommand } from '../output/shell-quote.ts';

type Line = readonly (string | number | null)[];

/**
 * The explanation as tab-separated lines for `grep`, `cut` and `awk`: the first field names the kind of the line.
 * @param whole print full command lines; otherwise long lists in them are shortened
 */
export function plainLines(explanation: MediaExplanation, whole: boolean): string[] {
  const { job, error, plan, attempts } = explanation;
  const lines: Line[] = [
    ['id', explanation.id],
    ['kind', explanation.kind],
    ['status', explanation.status],
    ['waiting_for', explanation.waiting_for],
    ...(job ? [['job', job.id, job.state, job.attempts, job.due_at, job.worker, job.last_reason]] : []),
    ...(error ? [['error', error.code, String(error.retryable), error.message]] : []),
    ...explanation.warnings.map((warning) => ['warning', warning]),
    ...flattened('probe', explanation.probe),
  ];
  for (const preset of plan) {
    const name = `${preset.name}.${preset.extension}`;
    lines.push(['preset', name, preset.decision, size(preset), preset.revision, preset.reason]);
    for (const rung of preset.rungs) {
      lines.push(['rung', name, rung.name, size(rung), rung.bitrate, rung.may_copy ? 'may_copy' : 'encode']);
    }
  }
  for (const it of attempts) {
    const failure = it.error ? `${it.error.message} (${it.error.code})` : null;
    lines.push(['attempt', it.attempt, it.outcome, it.started_at, it.ended_at, it.worker, failure]);
    for (const note of it.notes) lines.push(['note', it.attempt, note]);
    for (const [step, ms] of Object.entries(it.timings)) lines.push(['step', it.attempt, step, ms]);
    for (const run of it.runs) {
      const facts = [run.outcome, run.ms, run.cpu_ms, run.max_memory_bytes];
      lines.push(['run', it.attempt, run.step, ...facts, shellCommand(whole ? run.argv : run.argv.map(shortened))]);
      for (const line of run.stderr_tail) lines.push(['stderr', it.attempt, run.step, line]);
    }
  }
  return lines.map((line) => line.map((value) => printable(String(value ?? ''))).join('\t'));
}

/** Shortens an argument that is a long list of names, such as the allowed decoders, to the first names and their number. */
function shortened(argument: string): string {
  if (argument.length <= LONGEST_LIST || !LIST.test(argument)) return argument;
  const names = argument.split(',');
  return `${names.slice(0, SHOWN_OF_LIST).join(',')},… (${names.length} in all)`;
}

const LIST = /^[\w.-]+(,[\w.-]+)+$/;
const LONGEST_LIST = 60;
const SHOWN_OF_LIST = 2;

function size({ width, height }: { width: number; height: number }): string {
  return width > 0 && height > 0 ? `${width}x${height}` : '';
}

/** One line for each leaf: `probe.tracks.audio.0.codec` and its value. */
function flattened(path: string, value: unknown): Line[] {
  if (typeof value !== 'object') return [[path, String(value)]];
  if (value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => flattened(`${path}.${name}`, inner));
}
