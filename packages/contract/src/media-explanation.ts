import { z } from 'zod';
import { Job } from './jobs.ts';
import { MediaStatus } from './media.ts';
import { MediaFailure } from './media-failure.ts';
import { MediaId, MediaKind, Revision, Timestamp } from './scalars.ts';

/** One run of a program: its arguments, timings, outcome and last output. Names replace paths. */
export const ProgramRun = z.strictObject({
  step: z.string().meta({ example: 'ladder' }),
  argv: z.array(z.string()),
  ms: z.int(),
  cpu_ms: z.int().nullable(),
  max_memory_bytes: z.int().positive().nullable().meta({
    description: 'Peak resident memory; null if the run ended before it was measured',
  }),
  outcome: z.string().meta({ description: '`ok`, or how the program ended' }),
  stderr_tail: z.array(z.string()),
});
export type ProgramRun = z.infer<typeof ProgramRun>;

/** The decision for one preset, with its reason. */
export const PlannedPreset = z.strictObject({
  name: z.string(),
  extension: z.string(),
  revision: Revision,
  decision: z.enum(['make', 'skip', 'not_applicable']),
  reason: z.string(),
  width: z.int(),
  height: z.int(),
  rungs: z.array(
    z.strictObject({ name: z.string(), width: z.int(), height: z.int(), bitrate: z.int(), may_copy: z.boolean() }),
  ),
});
export type PlannedPreset = z.infer<typeof PlannedPreset>;

/** One attempt at processing a media object. */
export const ProcessingAttempt = z.strictObject({
  attempt: z.int().meta({
    description: 'Number of the attempt, counting lost and released ones',
  }),
  worker: z.string(),
  started_at: Timestamp,
  ended_at: Timestamp.nullable().meta({ description: 'Null while the attempt runs, and if its worker died' }),
  outcome: z.enum(['running', 'ready', 'failed', 'retried', 'released', 'lost']).meta({
    description:
      '`retried`: the attempt failed and another one follows. `released`: the attempt does not count, because its worker was stopped or because of a problem of the worker that `error` describes. `lost`: the worker died',
  }),
  error: MediaFailure.nullable().meta({ description: 'Why the attempt failed, if the attempt itself found out' }),
  notes: z
    .array(z.string())
    .meta({ description: 'Decisions during the attempt, for example that a stream was copied' }),
  timings: z.record(z.string(), z.number()).meta({ description: 'Milliseconds by step' }),
  runs: z.array(ProgramRun),
});
export type ProcessingAttempt = z.infer<typeof ProcessingAttempt>;

/** Everything known about the state of a media object. */
export const MediaExplanation = z
  .strictObject({
    id: MediaId,
    kind: MediaKind,
    status: MediaStatus,
    waiting_for: z.string().nullable().meta({
      description:
        'What the media object waits for, in sentences: its place in the queue, its worker, or the time of the next attempt; the number of attempts so far and why the last one failed; or that the deployment was moved. Null if nothing is left to do',
    }),
    // Spelled out: in OpenAPI 3.0 a reference cannot be null.
    job: z.strictObject(Job.shape).nullable().meta({
      description: 'The job in machine-readable form; null if nothing is left to do',
    }),
    error: MediaFailure.nullable(),
    warnings: z.array(z.string()),
    probe: z.record(z.string(), z.unknown()).meta({ description: 'Result of identification' }),
    plan: z.array(PlannedPreset),
    attempts: z.array(ProcessingAttempt).meta({ description: 'Oldest first; the latest ten are stored' }),
  })
  .meta({ id: 'MediaExplanation' });
export type MediaExplanation = z.infer<typeof MediaExplanation>;
