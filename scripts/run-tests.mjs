import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { DURATIONS_FILE } from './longest-first.mjs';
import { makeRunFolder, RUN_FOLDER_VARIABLE } from './run-folder.mjs';
import { bin, CommandFailed, ROOT } from './workspace.mjs';

/** Runs end-to-end tests on PostgreSQL and S3; see CONTRIBUTING.md. */
export const ON_POSTGRES_AND_S3 = { MDS_TEST_BACKENDS: 'postgres+s3' };

/** Tests start the built programs, which takes a fraction of the work of starting them from source. */
const BUILT = { MDS_TEST_BUILT: '1' };
const SLOWEST = 10;
/** Niceness of the tests that work beside others. Tests of the engine give their processes 7, which must be more. */
const POLITE = 5;
/** Files that take less need no place in the order. */
const RECORDED_SECONDS = 1;

/**
 * Runs vitest several times, all of them also if one fails. Then it prints the slowest files and how many tests passed in all. The
 * workspace must be built.
 * @param stages one after another; each is a list of lanes, which run beside each other. A lane is a list of runs of vitest, one after
 *   another: its arguments, and what is set in its environment. The first lane of a stage shows what it does, and lets the others go
 *   first; these print their reports when the stage ends.
 * @throws CommandFailed of the first run that failed
 */
export async function runTests(...stages) {
  const vitest = startVitest();
  const reports = [];
  try {
    for (const [shown, ...hidden] of stages) {
      const beside = hidden.map((runs) => runLane(vitest, runs, { isShown: false, isPolite: false }));
      reports.push(...(await runLane(vitest, shown, { isShown: true, isPolite: hidden.length > 0 })));
      for (const lane of beside) {
        for (const report of await lane) {
          process.stdout.write(report.output);
          reports.push(report);
        }
      }
    }
  } finally {
    await vitest.stop();
  }
  const files = reports
    .flatMap(({ seconds, where }) => Object.entries(seconds).map(([file, took]) => ({ file, took, where })))
    .sort((a, b) => b.took - a.took);
  if (process.env.MDS_TEST_RECORD === '1') record(files);
  if (files.length > 1) printSlowest(files.slice(0, SLOWEST));
  const { passed = 0, failed = 0, skipped = 0 } = sum(reports.map(({ counts }) => counts));
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  const failure = reports.find(({ error }) => error !== null);
  if (failure) throw failure.error;
}

async function runLane(vitest, runs, how) {
  const reports = [];
  for (const run of runs) reports.push(await vitest.run(run, how));
  return reports;
}

/** Runs vitest. All of its processes share one folder, and end with a signal to this one. */
function startVitest() {
  const { folder, remove } = makeRunFolder();
  const running = new Set();
  let started = 0;
  let stoppedBy = null;
  const stopAll = (signal) => {
    stoppedBy = signal;
    for (const child of running) child.kill('SIGTERM');
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stopAll);

  return {
    async run({ args, env = {} }, { isShown, isPolite }) {
      const argv = ['run', '--reporter=default', `--reporter=${ROOT}scripts/test-report.mjs`, ...args];
      const where = env === ON_POSTGRES_AND_S3 ? ' on PostgreSQL and S3' : '';
      const title = `vitest run ${args.join(' ')}${where}`;
      let output = `\n${title}\n`;
      const nothing = { counts: {}, seconds: {}, where };
      if (stoppedBy !== null) return { ...nothing, output: '', error: new CommandFailed(title, 1, stoppedBy) };
      started += 1;
      const reportFile = join(folder, `report-${started}.json`);
      const child = spawn(bin('vitest'), argv, {
        cwd: ROOT,
        stdio: ['ignore', ...(isShown ? ['inherit', 'inherit'] : ['pipe', 'pipe'])],
        env: { ...BUILT, ...process.env, ...env, MDS_TEST_REPORT: reportFile, [RUN_FOLDER_VARIABLE]: folder },
      });
      running.add(child);
      // Tests that wait need little of a processor, and need it in time.
      if (isPolite) setPriority(child.pid, Math.max(POLITE, getPriority()));
      for (const stream of [child.stdout, child.stderr]) {
        stream?.setEncoding('utf8').on('data', (text) => {
          output += text;
        });
      }
      const [code, signal] = await new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (...end) => resolve(end));
      }).finally(() => running.delete(child));
      const error = code === 0 ? null : new CommandFailed(title, code ?? 1, signal);
      try {
        return { ...JSON.parse(readFileSync(reportFile, 'utf8')), where, output, error };
      } catch {
        console.error(`Without a report: ${title}`);
        return { ...nothing, output, error: error ?? new CommandFailed(title, 1, null) };
      }
    },
    async stop() {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, stopAll);
      await remove();
    },
  };
}

/** Adds up numbers by name. */
function sum(records) {
  const total = {};
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) total[name] = (total[name] ?? 0) + value;
  }
  return total;
}

function printSlowest(files) {
  console.log('\nThe slowest files:');
  for (const { file, took, where } of files) console.log(`${took.toFixed(1).padStart(7)} s  ${file}${where}`);
  console.log();
}

/** @param files the longest first */
function record(files) {
  const recorded = files.filter(({ took, where }) => took >= RECORDED_SECONDS && where === '');
  const seconds = Object.fromEntries(recorded.map(({ file, took }) => [file, took]));
  writeFileSync(DURATIONS_FILE, `${JSON.stringify(seconds, null, 2)}\n`);
}
