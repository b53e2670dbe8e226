import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { programOnPath } from '@mds/transcode';
import type { Need } from '../benchmark.ts';
import { connections, type Load, load } from './load.ts';

const run = promisify(execFile);
const script = (name: string) => fileURLToPath(new URL(`wrk/${name}.lua`, import.meta.url));

export const wrk: Need = { program: 'wrk', hint: 'install it (`apt-get install wrk`).' };

/** The load generator: wrk costs the machine least, autocannon comes with npm. */
export function loadProgram(): 'wrk' | 'autocannon' {
  return programOnPath('wrk') === null ? 'autocannon' : 'wrk';
}

/** Requests `url` over kept connections for `seconds`, with each of the `ranges` in turn. */
export async function loadDelivery(options: {
  url: string;
  ranges?: readonly string[];
  seconds: number;
}): Promise<Load> {
  const { url, ranges = [], seconds } = options;
  const program = programOnPath('wrk');
  // autocannon takes one header for all requests, so it requests only the first range.
  return program === null ? load(url, seconds, ranges[0]) : byWrk(program, url, ranges, seconds);
}

async function byWrk(program: string, url: string, ranges: readonly string[], seconds: number): Promise<Load> {
  const args = [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '--timeout',
    '10s',
    '-s',
    script('load'),
    url,
    '--',
    ...ranges,
  ];
  const report = lastLine<{ requests: number; seconds: number; failures: number }>((await run(program, args)).stdout);
  return { requestsPerSecond: report.requests / report.seconds, failures: report.failures };
}

/** Far longer than any machine needs. */
const ONCE_SECONDS = 60;

/** Requests each path once over kept connections, with wrk. @returns seconds until the last request */
export async function loadOnce(url: string, paths: readonly string[]): Promise<{ seconds: number; failures: number }> {
  const program = programOnPath('wrk');
  if (program === null) throw new Error('wrk is not on PATH.');
  const folder = await mkdtemp(join(tmpdir(), 'mds-bench-wrk-'));
  try {
    const list = join(folder, 'paths');
    await writeFile(list, paths.join('\n'));
    const args = ['-t1', `-c${connections}`, `-d${ONCE_SECONDS}s`, '-s', script('once'), url, '--', list];
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let report: { seconds?: number; failures?: number } = {};
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith('{')) continue;
      report = { ...report, ...(JSON.parse(line) as typeof report) };
      if (report.failures === undefined) child.kill('SIGINT');
    }
    const { seconds, failures } = report;
    if (seconds === undefined || failures === undefined) {
      throw new Error(`${paths.length} requests were not answered within ${ONCE_SECONDS} s.`);
    }
    return { seconds, failures };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function lastLine<T>(output: string): T {
  return JSON.parse(output.trim().split('\n').at(-1) ?? '') as T;
}
