import { api } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { decodeCursor, nextLink, pageOf } from '../base/cursor.ts';
import type { JobQueue } from '../db/job-queue.ts';
import { tokenOf } from './authenticate.ts';
import { hiderOf } from './hidden-texts.ts';
import { presentJob } from './job.ts';

/** Parts of the job routes. */
export interface ControlJobsParts {
  jobs: Pick<JobQueue, 'page'>;
  /** Texts to hide (paths of this machine, secrets), each with its replacement. */
  hidden: Readonly<Record<string, string>>;
}

/** The routes under `/control/v1/jobs`. They show the jobs of the token's project alone. */
export function createControlJobsHandlers({ jobs, hidden }: ControlJobsParts) {
  const hide = hiderOf(hidden);
  return initServer().router(api.control.jobs, {
    list: async ({ query: { limit, cursor, state }, req, res }) => {
      const { projectId } = tokenOf(req);
      const after = decodeCursor(projectId, cursor, 'jobs');
      const afterId = after === null ? null : Number(after.slice(PREFIX.length));
      const views = await jobs.page({ projectId, limit: limit + 1, afterId, ...(state && { state }) });
      const rows = views.map((job) => ({ id: cursorIdOf(job.jobId), job }));
      const { page, nextCursor } = pageOf(rows, limit, projectId, 'jobs');
      if (nextCursor !== null) {
        res.setHeader('Link', nextLink(api.control.jobs.list.path, { limit, cursor: nextCursor, state }));
      }
      const data = page.map(({ job }) => presentJob(job, hide));
      return { status: 200, body: { object: 'list' as const, data, next_cursor: nextCursor } };
    },
  });
}

const PREFIX = 'job-';
const CURSOR_DIGITS = 26;

/** The id of a job, padded to the length that cursors have. */
function cursorIdOf(jobId: number): string {
  return PREFIX + String(jobId).padStart(CURSOR_DIGITS, '0');
}
