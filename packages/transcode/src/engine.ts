import { mkdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { ZodError } from 'zod';
import { MediaRejectedError, RejectionCode, RenderError, RenderErrorCode } from './errors.ts';
import { findPrograms, type Programs } from './ffmpeg/programs.ts';
import { formats } from './formats.ts';
import { type IdentifiedFile, parseIdentified } from './identified.ts';
import { type ChildExit, createIsolate, type IsolateStats } from './isolate.ts';
import { IsolateError, type IsolateFailure, TaskError } from './isolate-errors.ts';
import { defaultLimits, type EngineLimits } from './limits.ts';
import type { PlannedRendition } from './plan.ts';
import type { ProvenFormat } from './prove.ts';
import type { ProgramRun } from './render/program-run.ts';
import { type RenderProgress, type RenderResult, stillRunning } from './render/result.ts';
import type { IdentifyInput, ProveInput, RenderInput, RenderReport } from './tasks.ts';
import { engineVersions } from './versions.ts';

/** One file to make renditions of. Paths may be relative to the caller's working directory. */
export interface RenderJob {
  path: string;
  source: IdentifiedFile;
  plan: PlannedRendition[];
  /** Renditions that exist already and are not made again. The new ones get the same bytes as if all were made together. */
  beside?: PlannedRendition[] | undefined;
  /** Created if it does not exist. A file gets its name there, `name.extension`, only when it is complete. */
  outDir: string;
}

/** The media engine: turns untrusted bytes into facts and renditions. Decoding happens in other processes. */
export interface Engine {
  /** Identifies a file. Throws a `MediaRejectedError`, or a `RenderError` with code `aborted` if the call is aborted or stopped. */
  identify(path: string, options?: { signal?: AbortSignal | undefined }): Promise<IdentifiedFile>;
  /**
   * Makes the renditions that are planned as `make`. The result also lists renditions that failed alone. If the whole source
   * fails, or the child process dies, it throws a `RenderError` with the programs that were run.
   */
  render(
    job: RenderJob,
    options?: { signal?: AbortSignal | undefined; onProgress?: ((progress: RenderProgress) => void) | undefined },
  ): Promise<RenderResult>;
  /** Decodes the bundled sample of every registered format. Does not throw: the result has the reason for each failure. */
  proveFormats(): Promise<ProvenFormat[]>;
  /** A quick round trip through encoder and decoder, for the status page. Does not throw. */
  selfTest(): Promise<{ ok: boolean; detail: string }>;
  /** Starts a child before the first file arrives. Otherwise that file waits half a second until the codecs are loaded. */
  warmUp(part: 'identify' | 'render'): void;
  /**
   * Versions of the decoders and encoders. Format proofs are stored under them. If ffmpeg or ffprobe is missing, its version is
   * `none`. The first call searches for both programs.
   */
  versions(): Promise<Readonly<Record<string, string>>>;
  readonly stats: { readonly identify: IsolateStats; readonly render: IsolateStats };
  /** Kills the children. Running and waiting calls fail with `aborted`. */
  stop(): Promise<void>;
}

export interface EngineOptions {
  limits?: Partial<EngineLimits> | undefined;
  /** Renders at once. Default: one less than the number of cores, at least 1. */
  concurrency?: number | undefined;
  /** Threads for each image render. Default: the number of cores. Video encoders choose their own. */
  renderThreads?: number | undefined;
  /** Paths of ffmpeg and ffprobe. A program without a path is searched for on PATH, then in the bundled packages. */
  programs?: { ffmpeg?: string | undefined; ffprobe?: string | undefined } | undefined;
  /** Called after each exit of a child, with the reason. For logs and metrics. */
  onChildExit?: ((exit: ChildExit & { pool: 'identify' | 'render' }) => void) | undefined;
}

/** A self-test takes about a second; longer means that something is wrong. */
const selfTestTimeoutMs = 15_000;
const proofTimeoutMs = 60_000;

/**
 * Creates an engine. This is cheap: no process starts and no codec loads before the first call. Identification has its own
 * children, so uploads do not wait for renders.
 */
export function createEngine(options: EngineOptions = {}): Engine {
  const limits: EngineLimits = { ...defaultLimits, ...options.limits };
  const concurrency = options.concurrency ?? Math.max(1, availableParallelism() - 1);
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  const tasksModule = new URL(`./tasks${extension}`, import.meta.url);
  const { maxMemoryBytes } = limits;
  const identifying = createIsolate({
    tasksModule,
    maxMemoryBytes,
    concurrency: 2,
    tasksPerChild: 500,
    niceness: 0,
    onChildExit: (exit) => options.onChildExit?.({ ...exit, pool: 'identify' }),
  });
  const rendering = createIsolate({
    tasksModule,
    maxMemoryBytes,
    concurrency,
    tasksPerChild: 100,
    niceness: 10,
    onChildExit: (exit) => options.onChildExit?.({ ...exit, pool: 'render' }),
  });
  let foundPrograms: Promise<FoundPrograms> | undefined;
  /** Searches once, at the first call that needs the programs. */
  const searchPrograms = (): Promise<FoundPrograms> => {
    foundPrograms ??= findPrograms(options.programs ?? {}).then(
      (programs) => ({ programs, missing: null }),
      (error: unknown) => ({ programs: null, missing: asError(error).message }),
    );
    return foundPrograms;
  };

  return {
    async identify(path, { signal } = {}) {
      const { programs } = await searchPrograms();
      const input: IdentifyInput = { path: resolve(path), limits, programs };
      try {
        return parseIdentified(
          await identifying.run('identify', input, { timeoutMs: limits.identifyTimeoutMs, signal }),
        );
      } catch (error) {
        throw identifyError(error);
      }
    },

    async render(job, { signal, onProgress } = {}) {
      const outDir = resolve(job.outDir);
      const plan = job.plan.filter(({ state }) => state === 'make');
      const { programs } = await searchPrograms();
      const { source, beside = [] } = job;
      const input: RenderInput = {
        ...{ path: resolve(job.path), source, plan, beside, outDir, limits, programs },
        threads: options.renderThreads ?? null,
      };
      const runs = new Map<number, ProgramRun>();
      const onReport = (report: RenderReport) => {
        if (report.type === 'run') runs.set(report.update.number, report.update.run);
        else onProgress?.(report.progress);
      };
      try {
        await mkdir(outDir, { recursive: true });
        const result = await rendering.run('render', input, {
          timeoutMs: renderTimeoutMs(job.source, limits),
          signal,
          onProgress: (report) => onReport(report as RenderReport),
        });
        return result as RenderResult;
      } catch (error) {
        throw renderError(error, [...runs.values()].map(markCutOff));
      }
    },

    async proveFormats() {
      const proven: ProvenFormat[] = [];
      const { programs, missing } = await searchPrograms();
      // One task for each format, so a sample that kills the process does not affect the others.
      for (const { id, kind } of formats) {
        if (kind !== 'image' && missing !== null) {
          proven.push({ id, ok: false, reason: missing });
          continue;
        }
        const input: ProveInput = { id, limits, programs };
        const outcome = rendering.run('prove', input, { timeoutMs: proofTimeoutMs }) as Promise<ProvenFormat>;
        proven.push(await outcome.catch((error: unknown) => ({ id, ok: false, reason: asError(error).message })));
      }
      return proven;
    },

    async selfTest() {
      try {
        // In the identify pool, because an API process that leaves rendering to workers has no render children.
        return { ok: true, detail: String(await identifying.run('selfTest', {}, { timeoutMs: selfTestTimeoutMs })) };
      } catch (error) {
        return { ok: false, detail: error instanceof Error ? error.message : String(error) };
      }
    },

    warmUp(part) {
      void searchPrograms();
      (part === 'identify' ? identifying : rendering).warmUp();
    },

    async versions() {
      const { programs } = await searchPrograms();
      return engineVersions(programs);
    },

    get stats() {
      return { identify: identifying.stats, render: rendering.stats };
    },

    async stop() {
      await Promise.all([identifying.stop(), rendering.stop()]);
    },
  };
}

type FoundPrograms = { programs: Programs; missing: null } | { programs: null; missing: string };

/** Added to the render timeout for each second of media. A render that makes no progress is killed earlier. */
const renderMsPerSecondOfMedia = 120_000;
/** The longest delay that Node's timers accept. */
const maxTimeoutMs = 2 ** 31 - 1;

function renderTimeoutMs({ kind, durationMs }: IdentifiedFile, limits: EngineLimits): number {
  if (kind === 'image') return limits.renderTimeoutMs;
  const mediaMs = ((durationMs ?? 0) / 1_000) * renderMsPerSecondOfMedia;
  return Math.min(maxTimeoutMs, limits.renderTimeoutMs + Math.ceil(mediaMs));
}

function identifyError(error: unknown): Error {
  if (error instanceof TaskError) {
    const code = RejectionCode.safeParse(error.code);
    if (code.success) return new MediaRejectedError(code.data, error.message, { cause: error });
    // The system's own codes (ENOENT, EACCES) are a mistake of the caller or the machine, not of the file.
    if (/^E(?!RR_)[A-Z0-9]+$/.test(error.code ?? '')) return error;
    return identificationBroke(error);
  }
  if (error instanceof ZodError) return identificationBroke(error);
  if (!(error instanceof IsolateError)) return asError(error);
  switch (error.failure) {
    case 'timeout':
      return new MediaRejectedError(
        'identify_timeout',
        'Reading the file took too long, so it was stopped. The file may be damaged or malicious; export it again.',
        { cause: error },
      );
    case 'aborted':
    case 'stopped':
      return new RenderError('aborted', error.message, { cause: error });
    default:
      return new MediaRejectedError(
        'identify_crashed',
        `The file could not be read. ${error.message} It may be damaged; export it again.`,
        { cause: error },
      );
  }
}

/** An unexpected error in our own identification code. The sender is not at fault, but a retry would fail the same way. */
function identificationBroke(cause: Error): MediaRejectedError {
  return new MediaRejectedError(
    'identify_crashed',
    'The contents of the file are contradictory. It may be damaged; export it again, or convert it with another program.',
    { cause },
  );
}

const renderFailures: Record<IsolateFailure, RenderErrorCode> = {
  crashed: 'engine_crashed',
  timeout: 'render_timeout',
  out_of_memory: 'out_of_memory',
  aborted: 'aborted',
  stopped: 'aborted',
};

function renderError(error: unknown, runs: readonly ProgramRun[]): Error {
  if (error instanceof IsolateError)
    return new RenderError(renderFailures[error.failure], error.message, { cause: error, runs });
  if (!(error instanceof TaskError)) return asError(error);
  const code = RenderErrorCode.safeParse(error.code);
  return code.success ? new RenderError(code.data, error.message, { cause: error, runs }) : error;
}

/** Marks a program that was killed together with the process that ran it, so its own outcome is unknown. */
function markCutOff(run: ProgramRun): ProgramRun {
  return run.outcome === stillRunning ? { ...run, outcome: 'was cut off: the process that ran it ended' } : run;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
