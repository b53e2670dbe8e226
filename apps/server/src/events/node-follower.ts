import type { Logger } from '../base/logger.ts';
import type { RegionRepository } from '../db/delivery-repository.ts';
import type { EventRecord, EventRepository } from '../db/event-repository.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { purgeScopeOf } from '../delivery/purge-scope.ts';

/** Between two looks where nobody calls: notices of other processes may be lost with the connection that brings them. */
const LOOK_MS = 1_000;
const PAGE = 500;

export interface NodeFollowerParts {
  events: Pick<EventRepository, 'after' | 'horizon' | 'latest' | 'onAppended'>;
  regions: Pick<RegionRepository, 'heartbeat'>;
  /** The node that follows. */
  self: { id: string; region: string };
  delivery: Pick<Delivery, 'purge'>;
  logger: Pick<Logger, 'warn'>;
  lookMs?: number;
}

/** Lets go, in this node's caches, of what was purged or deleted through another node. */
export interface NodeFollower {
  /** From now on. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** {@link NodeFollower} by the events of the database, which tells each purge's asker up to where it has followed them. */
export function createNodeFollower(parts: NodeFollowerParts): NodeFollower {
  const { events, regions, self, delivery, logger, lookMs = LOOK_MS } = parts;
  let through = 0;
  let looking: Promise<void> | null = null;
  let lookAgain = false;
  let timer: NodeJS.Timeout | undefined;
  let deafen: () => void = () => undefined;
  let stopped = false;

  const act = ({ type, data }: EventRecord): boolean => {
    if (type === 'media.deleted') delivery.purge({ mediaId: String(data['id']) });
    if (type !== 'cache.purged') return false;
    delivery.purge(purgeScopeOf(data as Parameters<typeof purgeScopeOf>[0]));
    return true;
  };

  /** What was purged in events that are gone by now nobody can tell any more. */
  const mindGap = async (next: EventRecord | undefined): Promise<boolean> => {
    if (next?.seq === through + 1 || next === undefined) return false;
    const { completeAfter } = await events.horizon();
    if (completeAfter <= through) return false;
    delivery.purge('everything');
    return true;
  };

  const follow = async () => {
    for (;;) {
      const page = await events.after(through, { projectId: null, limit: PAGE });
      const missed = await mindGap(page[0]);
      const purged = page.map(act).includes(true) || missed;
      through = page.at(-1)?.seq ?? through;
      // Whoever purged waits for it; nobody waits for anything else.
      if (purged) await regions.heartbeat({ ...self, atMs: Date.now(), eventsThrough: through });
      if (page.length < PAGE) return;
    }
  };

  const look = () => {
    if (stopped) return;
    if (looking !== null) {
      lookAgain = true;
      return;
    }
    looking = follow()
      .catch((error: unknown) => logger.warn({ err: error }, 'the events could not be followed; it is tried again'))
      .finally(() => {
        looking = null;
        if (!lookAgain) return;
        lookAgain = false;
        look();
      });
  };

  return {
    async start() {
      through = await events.latest();
      deafen = events.onAppended(look);
      timer = setInterval(look, lookMs).unref();
    },
    async stop() {
      stopped = true;
      clearInterval(timer);
      deafen();
      await looking;
    },
  };
}
