import { z } from 'zod';
import { Job } from './jobs.ts';
import { MediaStatus } from './media.ts';
import { MediaFailure } from './media-failure.ts';
import { MediaId, MediaKind, Revision, Timestamp } from './scalars.ts';

/** One run of a program: what was run, how long it took, how it ended and what it said last. Paths are replaced by names. */
export const ProgramRun = z.strictObject({
  step: z.string().meta({ example: 'ladder' }),
  argv: z.array(z.string()),
  ms: z.int(),
  cpu_ms: z.int().nullable(),
  max_memory_bytes: z.int().positive().nullable().meta({
    description: 'Resident memory at its most; null where the run was over before it was measured',
  }),
  outcome: z.string().meta({ description: '`ok`, or how it ended' }),
  stderr_tail: z.array(z.string()),
});
export type ProgramRun = z.infer<typeof ProgramRun>;

/** What was decided for one preset, and why. */
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
    description: 'Attempts of a media object are numbered as they came, lost and released ones included',
  }),
  worker: z.string(),
  started_at: Timestamp,
  ended_at: Timestamp.nullable().meta({ description: 'Null while it runs, and where its worker died' }),
  outcome: z.enum(['running', 'ready', 'failed', 'retried', 'released', 'lost']).meta({
    description:
      '`retried`: failed, and tried again. `released`: given back, and not counted: its worker was stopped, or what `error` says would have kept it from any media object. `lost`: its worker died',
  }),
  error: MediaFailure.nullable().meta({ description: 'Why it came to nothing, where the attempt itself found out' }),
  notes: z.array(z.string()).meta({ description: 'What was decided on the way, such as that a stream was copied' }),
  timings: z.record(z.string(), z.number()).meta({ description: 'Milliseconds by step' }),
  runs: z.array(ProgramRun),
});
export type ProcessingAttempt = z.infer<typeof ProcessingAttempt>;

/** Everything that is known of why a media object is as it is. */
export const MediaExplanation = z
  .strictObject({
    id: MediaId,
    kind: MediaKind,
    status: MediaStatus,
    waiting_for: z.string().nullable().meta({
      description:
        'Sentences: its place in the queue, the worker that has it, or when it is tried again; how many attempts there were, and why the last one came to nothing; where the deployment was moved, that it is processed there. Null when it is done',
    }),
    // Spelled out: in OpenAPI 3.0 a reference cannot be null.
    job: z.strictObject(Job.shape).nullable().meta({
      description: 'The same for programs; null where nothing is to be done about it',
    }),
    error: MediaFailure.nullable(),
    warnings: z.array(z.string()),
    probe: z.record(z.string(), z.unknown()).meta({ description: 'What identification found out about the bytes' }),
    plan: z.array(PlannedPreset),
    attempts: z.array(ProcessingAttempt).meta({ description: 'Oldest first; the last ten are kept' }),
  })
  .meta({ id: 'MediaExplanation' });
export type MediaExplanation = z.infer<typeof MediaExplanation>;
