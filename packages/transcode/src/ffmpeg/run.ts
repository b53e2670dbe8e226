import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import type { ProgramRun } from '../render/program-run.ts';
import { stillRunning } from '../render/result.ts';
import type { Program } from './programs.ts';

/** Limits of one run. Exceeding any of them kills the run. */
export interface RunLimits {
  wallMs: number;
  /** Processor time over all threads. */
  cpuMs: number;
  /** Resident memory. */
  memoryBytes: number;
  /** Time without progress; applies only if progress is reported. */
  stallMs: number;
}

/** Progress of an encode. */
export interface EncodeProgress {
  /** Position in the output. */
  timeMs: number;
  frame: number;
}

export interface RunOptions {
  /** Names the purpose of the run in the report. */
  step: string;
  /** An empty folder for this run only, so a program that searches for files beside its input finds none. */
  cwd: string;
  limits: RunLimits;
  /** Paths to hide in the report, with their substitutes. */
  hide?: Readonly<Record<string, string>>;
  signal?: AbortSignal | undefined;
  /** Adds `-progress pipe:1`, which makes ffmpeg report. Standard output is then not returned. */
  onProgress?: ((progress: EncodeProgress) => void) | undefined;
  /** A run that writes more to standard output is killed. Default 16 MiB. */
  maxOutputBytes?: number;
  /** Consumes standard output as it arrives; it is then not collected. */
  onOutput?: (piece: Buffer) => void;
  /** Called with each line of standard error. The report has only the last lines. */
  onStderrLine?: ((line: string) => void) | undefined;
  /** Called with the state of the run at its start and then every second. */
  onUpdate?: ((run: ProgramRun) => void) | undefined;
}

export type RunFailure = 'exit' | 'signal' | 'wall' | 'cpu' | 'memory' | 'stall' | 'output' | 'aborted' | 'start';

/** A program did not exit with 0. `failure` is the reason; `message` ends with the program's last line, with paths hidden. */
export class ProgramError extends Error {
  readonly failure: RunFailure;
  readonly run: ProgramRun;

  constructor(failure: RunFailure, message: string, run: ProgramRun) {
    super(message);
    this.name = 'ProgramError';
    this.failure = failure;
    this.run = run;
  }
}

const sampleMs = 100;
const updateMs = 1_000;
const stderrKeptBytes = 16 * 1024;
const stderrTailLines = 20;
/** Kernel clock ticks a second in /proc/PID/stat: 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/**
 * Runs ffmpeg or ffprobe to its end. The child belongs to our process group, so killing the group ends it, too.
 * @throws ProgramError
 */
export async function runProgram(
  program: Program,
  argv: readonly string[],
  options: RunOptions,
): Promise<{ stdout: Buffer; run: ProgramRun }> {
  const { limits, signal, onProgress } = options;
  const began = performance.now();
  const args = [...(onProgress ? ['-progress', 'pipe:1', '-stats_period', '0.25'] : []), ...argv];
  const child = spawn(program.path, args, {
    cwd: options.cwd,
    env: environment(options.cwd),
    stdio: ['ignore', 'pipe', 'pipe'],
  });

  let killedFor: RunFailure | null = null;
  const kill = (why: RunFailure) => {
    killedFor ??= why;
    child.kill('SIGKILL');
  };
  let usage: Usage = { cpuMs: null, memoryBytes: null };
  let stderr = '';
  let line = '';
  const hidden = createPathHider(options.hide ?? {});
  const describe = (outcome: string): ProgramRun => ({
    step: options.step,
    argv: [program.path.split('/').pop() ?? '', ...args.map(hidden)],
    ms: Math.round(performance.now() - began),
    cpuMs: usage.cpuMs,
    maxMemoryBytes: usage.memoryBytes,
    outcome,
    stderrTail: hidden(stderr).split('\n').filter(Boolean).slice(-stderrTailLines),
  });
  const sendUpdate = () => options.onUpdate?.(describe(stillRunning));
  sendUpdate();
  const updates = setInterval(sendUpdate, updateMs);
  let lastProgress = began;
  const watch = setInterval(() => {
    const now = performance.now();
    const current = child.pid === undefined ? null : usageOf(child.pid);
    if (current !== null) {
      usage = { cpuMs: current.cpuMs, memoryBytes: larger(usage.memoryBytes, current.memoryBytes) };
    }
    if (now - began > limits.wallMs) kill('wall');
    else if ((usage.cpuMs ?? 0) > limits.cpuMs) kill('cpu');
    else if ((current?.memoryBytes ?? 0) > limits.memoryBytes) kill('memory');
    else if (onProgress && now - lastProgress > limits.stallMs) kill('stall');
  }, sampleMs);
  const abort = () => kill('aborted');
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort, { once: true });

  const output: Buffer[] = [];
  let outputBytes = 0;
  let pending = '';
  let frontier = -1;
  child.stdout.on('data', (piece: Buffer) => {
    if (onProgress) {
      pending += piece.toString('latin1');
      const end = pending.lastIndexOf('progress=');
      if (end < 0) return;
      const progress = parseProgress(pending);
      pending = pending.slice(end + 'progress='.length);
      const reached = Math.max(progress.timeMs, progress.frame);
      if (reached > frontier) {
        frontier = reached;
        lastProgress = performance.now();
      }
      onProgress(progress);
      return;
    }
    if (options.onOutput) return options.onOutput(piece);
    outputBytes += piece.length;
    if (outputBytes > (options.maxOutputBytes ?? 16 * 1024 * 1024)) kill('output');
    else output.push(piece);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-stderrKeptBytes);
    const lines = (line + text).split('\n');
    line = lines.pop()?.slice(-stderrKeptBytes) ?? '';
    for (const whole of lines) options.onStderrLine?.(whole);
  });

  const ended = await new Promise<{ code: number | null; signalName: NodeJS.Signals | null; startError?: Error }>(
    (resolve) => {
      child.once(
        'error',
        (startError) => child.pid === undefined && resolve({ code: null, signalName: null, startError }),
      );
      child.once('close', (code, signalName) => resolve({ code, signalName }));
    },
  );
  clearInterval(watch);
  clearInterval(updates);
  signal?.removeEventListener('abort', abort);

  if (line !== '') options.onStderrLine?.(line);
  const { code, signalName, startError } = ended;
  const failure: RunFailure | null =
    startError !== undefined ? 'start' : (killedFor ?? (signalName !== null ? 'signal' : code === 0 ? null : 'exit'));
  const run = describe(failure === null ? 'ok' : outcomeOf(failure, { code, signalName, limits }));
  if (failure === null) return { stdout: Buffer.concat(output), run };
  const last = startError?.message ?? run.stderrTail.at(-1) ?? '';
  throw new ProgramError(failure, last === '' ? run.outcome : `${run.outcome}: ${last}`, run);
}

/**
 * Passes on none of our variables: no tokens, no keys. A statically linked ffmpeg crashes if it loads the system's modules for
 * character sets, as it does for every MPEG-TS with a service name. In an empty folder it finds none.
 */
function environment(cwd: string): NodeJS.ProcessEnv {
  return { LANG: 'C', HOME: cwd, GCONV_PATH: cwd };
}

function outcomeOf(
  failure: RunFailure,
  { code, signalName, limits }: { code: number | null; signalName: NodeJS.Signals | null; limits: RunLimits },
): string {
  switch (failure) {
    case 'exit':
      return `exited with code ${code}`;
    case 'signal':
      return `was ended by ${signalName}`;
    case 'wall':
      return `was killed after ${Math.round(limits.wallMs / 1_000)} s`;
    case 'cpu':
      return `was killed after ${Math.round(limits.cpuMs / 1_000)} s of processor time`;
    case 'memory':
      return `was killed for using more than ${Math.round(limits.memoryBytes / 2 ** 20)} MiB of memory`;
    case 'stall':
      return `was killed after ${Math.round(limits.stallMs / 1_000)} s without progress`;
    case 'output':
      return 'was killed for writing too much';
    case 'aborted':
      return 'was stopped';
    case 'start':
      return 'could not be started';
  }
}

/** Null if neither was measured: a process that is about to end has no memory. */
function larger(known: number | null, measured: number | null): number | null {
  if (!measured) return known;
  return Math.max(known ?? 0, measured);
}

interface Usage {
  cpuMs: number | null;
  memoryBytes: number | null;
}

/** Processor time and resident memory of a process from Linux's /proc; null if the process is gone. */
function usageOf(pid: number): Usage | null {
  try {
    // The second field may contain anything, including spaces and brackets. The fields after its last bracket are regular (proc(5)).
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const cpuMs = ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond;
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return { cpuMs, memoryBytes: kib === undefined ? null : Number(kib) * 1_024 };
  } catch {
    return null;
  }
}

/** Reads ffmpeg's `key=value` lines; the last value of each key counts. */
export function parseProgress(text: string): EncodeProgress {
  const last = (key: string) => {
    const at = text.lastIndexOf(`${key}=`);
    const value = at < 0 ? Number.NaN : Number.parseInt(text.slice(at + key.length + 1), 10);
    return Number.isFinite(value) && value > 0 ? value : 0;
  };
  return { timeMs: Math.floor(last('out_time_us') / 1_000), frame: last('frame') };
}

function createPathHider(hide: Readonly<Record<string, string>>): (text: string) => string {
  const longestFirst = Object.entries(hide).sort(([a], [b]) => b.length - a.length);
  return (text) => longestFirst.reduce((result, [path, name]) => result.replaceAll(path, name), text);
}
