import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Benchmark } from './benchmark.ts';
import { thisMachine } from './machine.ts';
import { missing, root } from './needs.ts';
import { benchmarks } from './registry.ts';
import { passes, type Result, resultText, updateDocument, writeResult } from './report.ts';

const usage = `npm run bench [-- NAME… --quick --rounds N --docs]

  NAME       which to run; default: all that this machine can run
  --quick    less of everything except rounds: to try a change, not to publish
  --rounds   alternating rounds, at least 5 (the default)
  --docs     put the results into docs/performance.md

${benchmarks.map(({ name, what, onDemand }) => `  ${name.padEnd(16)} ${what}${onDemand ? ' (only when named)' : ''}`).join('\n')}
`;

/** Runs the requested benchmarks. Returns 0: all goals reached; 1: some were not; 2: wrong usage. */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      docs: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '5' },
      help: { type: 'boolean', default: false },
    },
  });
  const rounds = Number(values.rounds);
  const unknown = positionals.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name));
  if (values.help || unknown.length > 0 || !Number.isInteger(rounds) || rounds < 5) {
    if (unknown.length > 0) console.error(`Unknown benchmark: ${unknown.join(', ')}.\n`);
    console.error(usage);
    return values.help ? 0 : 2;
  }
  const chosen = benchmarks.filter(({ name, onDemand }) =>
    positionals.length > 0 ? positionals.includes(name) : !onDemand,
  );
  const command = ['npm run bench --', ...process.argv.slice(2)].join(' ');
  const verdicts: string[] = [];
  let failed = 0;
  for (const benchmark of chosen) {
    const lacks = missing(benchmark.needs);
    if (lacks.length > 0) {
      verdicts.push(`${benchmark.name}: not run. ${lacks.join(' ')}`);
      // A benchmark that was named but cannot run is a failure; one that was not named is just skipped.
      if (positionals.length > 0) failed++;
      continue;
    }
    const result = await measure(benchmark, { rounds, quick: values.quick, command });
    console.log(resultText(result));
    const path = await writeResult(join(root, 'bench', 'results'), result);
    if (values.docs) await updateDocument(join(root, 'docs', 'performance.md'), result);
    if (!passes(result)) failed++;
    verdicts.push(`${benchmark.name}: ${passes(result) ? 'pass' : 'FAIL'} (${path.slice(root.length)})`);
  }
  console.log(verdicts.join('\n'));
  return failed > 0 ? 1 : 0;
}

async function measure(
  benchmark: Benchmark,
  { rounds, quick, command }: { rounds: number; quick: boolean; command: string },
): Promise<Result> {
  const start = performance.now();
  const progress = (message: string) => {
    const line = `${benchmark.name}: ${message}`;
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
    else process.stderr.write(`${line}\n`);
  };
  const outcome = await benchmark.run({ rounds, quick, progress });
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  const seconds = Math.round((performance.now() - start) / 1000);
  const measuredAt = new Date().toISOString();
  return { benchmark, outcome, machine: thisMachine(), command, measuredAt, rounds, quick, seconds };
}

process.exitCode = await main();
