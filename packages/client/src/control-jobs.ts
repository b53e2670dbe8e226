import type { Job, JobState } from '@mds/contract';
import { type PagePromise, pagePromise } from './page.ts';
import type { ListOptions } from './read-client.ts';
import { jobsRoutes } from './routes.ts';
import type { Transport } from './transport.ts';

/** Which page of the jobs. */
export interface JobListOptions extends ListOptions {
  /** Only jobs in this state. */
  state?: JobState | undefined;
}

/** What is worked on, and what waits. */
export interface ControlJobs {
  /** Oldest first: of equal priority, as they are handed out. Await it for a page; `for await` goes through all pages. */
  list(options?: JobListOptions): PagePromise<Job>;
}

/** Makes {@link ControlJobs} over a transport. */
export function createControlJobs(transport: Transport): ControlJobs {
  return {
    list: ({ limit, cursor, state, signal } = {}) =>
      pagePromise(async (at) => {
        const query = { limit, cursor: at, state };
        return (await transport.call(jobsRoutes.list, { query }, { signal, authorize: true })).body;
      }, cursor),
  };
}
