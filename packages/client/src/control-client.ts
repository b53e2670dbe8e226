import type { api, EventType, Job, JobState, WorkerList } from '@mds/contract';
import { type ControlCache, createControlCache } from './control-cache.ts';
import { type ControlFetches, createControlFetches } from './control-fetches.ts';
import { type ControlMedia, createControlMedia } from './control-media.ts';
import { type ControlMigrations, createControlMigrations } from './control-migrations.ts';
import { type ControlRegions, createControlRegions } from './control-regions.ts';
import { type EventOf, type EventsOptions, followEvents } from './events.ts';
import { createMediaWatch } from './media-watch.ts';
import { type PagePromise, pagePromise } from './page.ts';
import type { ListOptions } from './read-client.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** Selects a page of jobs. */
export interface JobListOptions extends ListOptions {
  /** Only jobs in this state. */
  state?: JobState | undefined;
}

/**
 * The operator's API. Every call needs a client with a token; without one it throws {@link MissingTokenError} and sends nothing. The scope
 * of the token limits what is allowed ({@link ForbiddenError}).
 */
export interface ControlClient {
  media: ControlMedia;
  /** Files that the service fetches from URLs. */
  fetches: ControlFetches;
  /** The queue of jobs. */
  jobs: {
    /**
     * Running and queued jobs, oldest first: for equal priority, the order in which they are handed out. Await it for a page;
     * `for await` goes through all pages.
     */
    list(options?: JobListOptions): PagePromise<Job>;
  };
  /** The processes that work on jobs. */
  workers: {
    /** Every worker, by id, each with its running jobs. All in one answer: there are no pages. */
    list(options?: RequestOptions): Promise<WorkerList>;
  };
  /** Points of presence and the nodes that serve them. */
  regions: ControlRegions;
  /** The caches of all nodes. */
  cache: ControlCache;
  /** Moves the deployment to another database and storage. */
  migrations: ControlMigrations;
  /**
   * Events as they happen, until the loop is left or the signal aborted. A connection that breaks is made again and continues after
   * the last event received. The service does not store `media.progress`, so those sent while nobody listens are lost.
   * @throws ApiError if the service has no events or refuses them; ConnectionError if the first connection fails
   */
  events<T extends EventType = EventType>(options?: EventsOptions<T>): AsyncGenerator<EventOf<T>, void, undefined>;
}

type Control = typeof api.control;

/** Routes whose methods have other names: `media.ingestUrl`, `migrations.begin` and `migrations.current`. */
interface Renamed extends Partial<Record<keyof Control, string>> {
  fetches: 'create';
  migrations: 'create' | 'get';
}

/** A method for each route of the control API, so that a forgotten one does not compile. Only nodes use `edges`. */
type Complete = {
  [R in Exclude<keyof Control, 'edges'>]: {
    [M in Exclude<keyof Control[R], Renamed[R]>]: (...args: never[]) => unknown;
  };
};

/** Makes the {@link ControlClient} over a transport. */
export function createControlClient(transport: Transport): ControlClient {
  const watch = createMediaWatch((options) => followEvents(transport, options));
  const fetches = createControlFetches(transport);
  return {
    media: createControlMedia({ transport, fetches, watch }),
    fetches,
    jobs: {
      list: ({ limit, cursor, state, signal } = {}) =>
        pagePromise(
          (at) => transport.callJson('GET /control/v1/jobs', { query: { limit, cursor: at, state } }, { signal }),
          cursor,
        ),
    },
    workers: {
      list: ({ signal } = {}) => transport.callJson('GET /control/v1/workers', {}, { signal }),
    },
    regions: createControlRegions(transport),
    cache: createControlCache(transport),
    migrations: createControlMigrations(transport),
    events: (options) => followEvents(transport, options),
  } satisfies ControlClient & Complete;
}
