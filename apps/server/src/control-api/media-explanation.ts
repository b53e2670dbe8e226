import type { MediaExplanation, PlannedPreset, ProcessingAttempt, ProgramRun } from '@mds/contract';
import {
  type ProgramRun as EngineRun,
  type PlannedRendition,
  type Preset,
  parseIdentified,
  planRenditions,
} from '@mds/transcode';
import { type Presented, timestamp } from '../base/presented.ts';
import type { AttemptRecord, JobView } from '../db/job-queue.ts';
import type { MediaRecord } from '../db/media-repository.ts';
import { hiderOf } from './hidden-texts.ts';
import { presentJob } from './job.ts';
import { presentFailure } from './media-detail.ts';

/** Parts of an explanation. */
export interface ExplanationParts {
  media: MediaRecord;
  job: JobView | null;
  /** Jobs ahead of this one in the queue; null if it is not waiting. */
  ahead: number | null;
  /** Whether the deployment was moved, so that nothing is processed here any more. */
  moved: boolean;
  /** Oldest first. */
  attempts: readonly AttemptRecord[];
  /** The current presets. */
  presets: readonly Preset[];
  /** Texts to hide, each with its replacement. */
  hidden: Readonly<Record<string, string>>;
}

/** Everything known about the state of a media object, without paths of this machine or secrets. */
export function presentExplanation(parts: ExplanationParts): Presented<MediaExplanation> {
  const { media, presets } = parts;
  const hide = hiderOf(parts.hidden);
  return {
    id: media.id,
    kind: media.kind,
    status: media.status,
    waiting_for: waitingFor(parts, hide),
    job: parts.job === null ? null : presentJob(parts.job, hide),
    error: media.failure === null ? null : presentFailure(media.failure),
    warnings: media.warnings,
    probe: isRecord(media.identified) ? media.identified : {},
    plan: planOf(media.identified, presets).map(presentPlanned),
    attempts: parts.attempts.map((attempt) => presentAttempt(attempt, hide)),
  };
}

/**
 * The reason why a media object waits: its place in the queue, its worker, or the time of the next attempt. Includes
 * the number of attempts and the last failure. Null if nothing more will happen by itself.
 */
function waitingFor(
  { media, job, ahead, moved }: Pick<ExplanationParts, 'media' | 'job' | 'ahead' | 'moved'>,
  hide: (text: string) => string,
): string | null {
  if (job === null && (media.status === 'ready' || media.status === 'failed')) return null;
  const again = media.status === 'ready' ? ' It stays ready meanwhile.' : '';
  if (moved) {
    return `The deployment was moved to another database and storage. The service there processes this media object.${again}`;
  }
  if (job === null) {
    // The next start of the service puts such media back into the queue.
    return 'It has lost its place in the queue. It gets a new one when the service starts again.';
  }
  if (job.worker !== null) {
    const far = job.progress === null ? '' : `, ${Math.round(job.progress * 100)} % done`;
    return `Worker ${job.worker} works on it: attempt ${job.runs}${far}.${again}`;
  }
  const before = job.runs === 1 ? '1 attempt so far, which' : `${job.runs} attempts so far; the last one`;
  const because = job.lastReason === null ? '' : ` ${before} did not finish: ${hide(job.lastReason)}`;
  if (job.dueInMs > 0) {
    return `Attempt ${job.runs + 1} begins in ${Math.ceil(job.dueInMs / 1000)} s.${because}${again}`;
  }
  const place = ahead === null || ahead === 0 ? 'It is first in the queue' : `${ahead} ahead of it in the queue`;
  return `${place}; it waits for a free worker.${because}${again}`;
}

function planOf(identified: unknown, presets: readonly Preset[]): PlannedRendition[] {
  try {
    return planRenditions(parseIdentified(identified), presets);
  } catch (error) {
    // Written by another version of the engine; the next attempt identifies it again.
    if (error instanceof Error && error.name.endsWith('ZodError')) return [];
    throw error;
  }
}

const DECISIONS = { make: 'make', skip: 'skip', not_applicable: 'not_applicable' } as const satisfies Record<
  PlannedRendition['state'],
  PlannedPreset['decision']
>;

function presentPlanned(planned: PlannedRendition): Presented<PlannedPreset> {
  return {
    name: planned.name,
    extension: planned.extension,
    revision: planned.revision,
    decision: DECISIONS[planned.state],
    reason: planned.reason,
    width: planned.width,
    height: planned.height,
    rungs: (planned.video?.rungs ?? []).map(({ name, width, height, bitrate, encodedBecause }) => ({
      ...{ name, width, height, bitrate },
      may_copy: encodedBecause === null,
    })),
  };
}

function presentAttempt(record: AttemptRecord, hide: (text: string) => string): Presented<ProcessingAttempt> {
  const { failure, report } = record;
  return {
    attempt: record.attempt,
    worker: record.worker,
    started_at: timestamp(record.startedAtMs),
    ended_at: record.endedAtMs === null ? null : timestamp(record.endedAtMs),
    outcome: record.outcome,
    error: failure === null ? null : { ...presentFailure(failure), message: hide(failure.message) },
    notes: (report?.notes ?? []).map(hide),
    timings: { ...report?.timings },
    runs: (report?.runs ?? []).map((run) => presentRun(run, hide)),
  };
}

function presentRun(run: EngineRun, hide: (text: string) => string): Presented<ProgramRun> {
  return {
    step: run.step,
    argv: run.argv.map(hide),
    ms: Math.round(run.ms),
    cpu_ms: run.cpuMs === null ? null : Math.round(run.cpuMs),
    // Older versions stored 0 for values that were not measured.
    max_memory_bytes: run.maxMemoryBytes ? Math.round(run.maxMemoryBytes) : null,
    outcome: hide(run.outcome),
    stderr_tail: run.stderrTail.map(hide),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
