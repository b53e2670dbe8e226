import { mkdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { ZodError } from 'zod';
import { MediaRejectedError, RejectionCode, RenderError, RenderErrorCode } from './errors.ts';
import { findPrograms, type Programs } from './ffmpeg/programs.ts';
import { formats } from './formats.ts';
import { type IdentifiedFile, parseIdentified } from './identified.ts';
import {
  type ChildExit,
  createIsolate,
  IsolateError,
  type IsolateFailure,
  type IsolateStats,
  TaskError,
} from './isolate.ts';
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
  /** Those that are there already: not made, but what is made becomes what it would be beside them. */
  beside?: PlannedRendition[] | undefined;
  /** Made where it does not exist. Files are `name.extension` in it, each whole from the moment it has that name. */
  outDir: string;
}

/** The media engine: untrusted bytes go in, facts and renditions come out; decoding happens in other processes. */
export interface Engine {
  /**
   * Says what a file is. Throws a `MediaRejectedError`; for an aborted or stopped call, a `RenderError` with code `aborted`.
   */
  identify(path: string, options?: { signal?: AbortSignal | undefined }): Promise<IdentifiedFile>;
  /**
   * Makes the renditions planned as `make`. A rendition that fails alone is in the result; a source that gives nothing, or a
   * process that dies, throws a `RenderError`, which knows the programs that were run.
   */
  render(
    job: RenderJob,
    options?: { signal?: AbortSignal | undefined; onProgress?: ((progress: RenderProgress) => void) | undefined },
  ): Promise<RenderResult>;
  /** Decodes the bundled sample of every registered format. Does not throw: a format that fails says why. */
  proveFormats(): Promise<ProvenFormat[]>;
  /** A quick round trip through encoder and decoder, for the status page. Does not throw. */
  selfTest(): Promise<{ ok: boolean; detail: string }>;
  /** Starts a process ahead of the first file, which then is not slower than the next: half a second, the codecs' loading. */
  warmUp(part: 'identify' | 'render'): void;
  /**
   * Versions of the decoders and encoders: the key under which proofs are kept. Of ffmpeg and ffprobe, `none` where there are
   * none. Looks for them at the first call.
   */
  versions(): Promise<Readonly<Record<string, string>>>;
  readonly stats: { readonly identify: IsolateStats; readonly render: IsolateStats };
  /** Kills the children; what runs or waits fails as `aborted`. */
  stop(): Promise<void>;
}

export interface EngineOptions {
  limits?: Partial<EngineLimits> | undefined;
  /** Renders at once; default: one less than the cores, at least 1. */
  concurrency?: number | undefined;
  /** Threads of each render of a picture; default: as many as there are cores. Those of video are its encoder's. */
  renderThreads?: number | undefined;
  /** Paths of ffmpeg and ffprobe; what is not given is looked for: on PATH, then in the bundled packages. */
  programs?: { ffmpeg?: string | undefined; ffprobe?: string | undefined } | undefined;
  /** Told of every child that ended, and why. For logs and metrics. */
  onChildExit?: ((exit: ChildExit & { pool: 'identify' | 'render' }) => void) | undefined;
}

/** A self-test is a second's work; more means that something is wrong. */
const selfTestTimeoutMs = 15_000;
const proofTimeoutMs = 60_000;

/**
 * Makes an engine. Cheap: no process is started and no codec is loaded before the first call. Identifying has children of its
 * own, so that an upload's answer does not wait for renders.
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
  let looking: Promise<FoundPrograms> | undefined;
  /** Looked for once, and not before somebody needs them. */
  const lookForPrograms = (): Promise<FoundPrograms> => {
    looking ??= findPrograms(options.programs ?? {}).then(
      (programs) => ({ programs, missing: null }),
      (error: unknown) => ({ programs: null, missing: asError(error).message }),
    );
    return looking;
  };

  return {
    async identify(path, { signal } = {}) {
      const { programs } = await lookForPrograms();
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
      const { programs } = await lookForPrograms();
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
        throw renderError(error, [...runs.values()].map(cutOff));
      }
    },

    async proveFormats() {
      const proven: ProvenFormat[] = [];
      const { programs, missing } = await lookForPrograms();
      // One task each: a sample that kills the process proves nothing against the others.
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
        // By a child that a service has anyway: one that leaves rendering to its worker has no other.
        return { ok: true, detail: String(await identifying.run('selfTest', {}, { timeoutMs: selfTestTimeoutMs })) };
      } catch (error) {
        return { ok: false, detail: error instanceof Error ? error.message : String(error) };
      }
    },

    warmUp(part) {
      void lookForPrograms();
      (part === 'identify' ? identifying : rendering).warmUp();
    },

    async versions() {
      const { programs } = await lookForPrograms();
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

/** A film takes longer than a picture: so much for each of its seconds, though what no longer gets on is ended before. */
const renderMsPerSecondOfMedia = 120_000;
/** Node's timers go no further. */
const longestTimeoutMs = 2 ** 31 - 1;

function renderTimeoutMs({ kind, durationMs }: IdentifiedFile, limits: EngineLimits): number {
  if (kind === 'image') return limits.renderTimeoutMs;
  const mediaMs = ((durationMs ?? 0) / 1_000) * renderMsPerSecondOfMedia;
  return Math.min(longestTimeoutMs, limits.renderTimeoutMs + Math.ceil(mediaMs));
}

function identifyError(error: unknown): Error {
  if (error instanceof TaskError) {
    const code = RejectionCode.safeParse(error.code);
    if (code.success) return new MediaRejectedError(code.data, error.message, { cause: error });
    // The system's own codes (ENOENT, EACCES): the caller's mistake or the machine's, not the file's.
    if (/^E(?!RR_)[A-Z0-9]+$/.test(error.code ?? '')) return error;
    return stumbledOver(error);
  }
  if (error instanceof ZodError) return stumbledOver(error);
  if (!(error instanceof IsolateError)) return asError(error);
  switch (error.failure) {
    case 'timeout':
      return new MediaRejectedError(
        'identify_timeout',
        'Looking at the file took too long, so it was given up. It may be damaged or made to do that; export it again.',
        { cause: error },
      );
    case 'aborted':
    case 'stopped':
      return new RenderError('aborted', error.message, { cause: error });
    default:
      return new MediaRejectedError(
        'identify_crashed',
        `The file could not be looked at. ${error.message} It may be damaged; export it again.`,
        { cause: error },
      );
  }
}

/** A defect of identification that a file brought about: not its sender's error, but nothing that another attempt would mend. */
function stumbledOver(cause: Error): MediaRejectedError {
  return new MediaRejectedError(
    'identify_crashed',
    'What the file says of itself makes no sense. It may be damaged; export it again, or convert it with another program.',
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

/** A program whose end nobody was left to see: it was killed with the process that had started it. */
function cutOff(run: ProgramRun): ProgramRun {
  return run.outcome === stillRunning ? { ...run, outcome: 'was cut off: the process that ran it ended' } : run;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
