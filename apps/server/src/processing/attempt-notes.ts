import { type ProgramRun, RenderError, type RenderResult } from '@mds/transcode';
import type { AttemptReport } from '../db/job-queue.ts';

/** Bounds of a report of one attempt: enough to see what happened, small enough for the database. */
const MAX_RUNS = 50;
const MAX_NOTES = 50;
const MAX_LINES = 20;
const MAX_CHARACTERS = 1_000;

/** Collects what an attempt at a media object did, for its report, however the attempt ends. */
export interface AttemptNotes {
  /** Adds a sentence, once. */
  add(sentence: string): void;
  /** Adds what a render reports. */
  addRender(rendered: Pick<RenderResult, 'renditions' | 'runs' | 'timings'>): void;
  /** Adds the program runs that a failed render carries. */
  addFailure(error: unknown): void;
  report(): AttemptReport;
}

export function createAttemptNotes(): AttemptNotes {
  const notes = new Set<string>();
  const runs: ProgramRun[] = [];
  let timings: Record<string, number> = {};

  return {
    add: (sentence) => void notes.add(sentence),

    addRender(rendered) {
      runs.push(...rendered.runs);
      timings = { ...timings, ...rendered.timings };
      for (const rendition of rendered.renditions) {
        if (rendition.state === 'failed') notes.add(rendition.reason);
        else for (const note of rendition.notes) notes.add(`${rendition.name}.${rendition.extension}: ${note}`);
      }
    },

    addFailure(error) {
      for (let cause = error; cause instanceof Error; cause = cause.cause) {
        if (cause instanceof RenderError) runs.push(...cause.runs);
      }
    },

    report: () => ({
      notes: [...notes].slice(0, MAX_NOTES).map(shortened),
      timings,
      runs: runs.slice(-MAX_RUNS).map((run) => ({
        ...run,
        argv: run.argv.map(shortened),
        stderrTail: run.stderrTail.slice(-MAX_LINES).map(shortened),
      })),
    }),
  };
}

function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}
