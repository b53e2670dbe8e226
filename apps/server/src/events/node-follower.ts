import type { Logger } from '../base/logger.ts';
import type { RegionRepository } from '../db/delivery-repository.ts';
import type { EventRecord, EventRepository } from '../db/event-repository.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { purgeScopeOf } from '../delivery/purge-scope.ts';
import { createEventPolling } from './event-polling.ts';

const POLL_MS = 1_000;
const PAGE = 500;

export interface NodeFollowerParts {
  events: Pick<EventRepository, 'after' | 'horizon' | 'latest' | 'onAppended'>;
  regions: Pick<RegionRepository, 'heartbeat'>;
  /** The node that follows. */
  self: { id: string; region: string };
  delivery: Pick<Delivery, 'purge'>;
  logger: Pick<Logger, 'warn'>;
  pollMs?: number;
}

/** Removes content from this node's caches that was purged or deleted through another node. */
export interface NodeFollower {
  /** Follows the events from now on. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** {@link NodeFollower} by the events of the database. Its heartbeat reports how far it has followed them, for callers who wait for a purge. */
export function createNodeFollower(parts: NodeFollowerParts): NodeFollower {
  const { events, regions, self, delivery, logger, pollMs = POLL_MS } = parts;
  let through = 0;

  const act = ({ type, data }: EventRecord): boolean => {
    if (type === 'media.deleted') delivery.purge({ mediaId: String(data['id']) });
    if (type !== 'cache.purged') return false;
    delivery.purge(purgeScopeOf(data as Parameters<typeof purgeScopeOf>[0]));
    return true;
  };

  /** If events are gone that were not read, any of them may have been a purge. */
  const purgeAfterGap = async (next: EventRecord | undefined): Promise<boolean> => {
    if (next?.seq === through + 1 || next === undefined) return false;
    const { completeAfter } = await events.horizon();
    if (completeAfter <= through) return false;
    delivery.purge('everything');
    return true;
  };

  const follow = async () => {
    for (;;) {
      const page = await events.after(through, { projectId: null, limit: PAGE });
      const missed = await purgeAfterGap(page[0]);
      const purged = page.map(act).includes(true) || missed;
      through = page.at(-1)?.seq ?? through;
      // Only the caller of a purge waits for the heartbeat.
      if (purged) await regions.heartbeat({ ...self, atMs: Date.now(), eventsThrough: through });
      if (page.length < PAGE) return;
    }
  };

  const polling = createEventPolling({
    ...{ events, pollMs, read: follow },
    onFailure: (error) => logger.warn({ err: error }, 'events could not be followed; retrying'),
  });

  return {
    async start() {
      through = await events.latest();
      polling.start();
    },
    stop: polling.stop,
  };
}
