import type { EdgeEvent } from '@mds/contract';
import type { Delivery } from '../delivery/delivery.ts';
import { type PurgeScope, purgeScopeOf } from '../delivery/purge-scope.ts';
import type { EventActions } from './event-follower.ts';
import type { OriginResolver } from './origin-resolver.ts';
import type { PathJournal } from './path-journal.ts';
import type { ReadThrough } from './read-through.ts';
import type { Reporter } from './reporter.ts';

/** Applies the events of the origin to the caches of a point of presence. */
export function createEventActions(caches: {
  delivery: Pick<Delivery, 'purge'>;
  resolver: Pick<OriginResolver, 'outdateAll' | 'outdateMedia'>;
  readThrough: Pick<ReadThrough, 'outdate'>;
  journal: Pick<PathJournal, 'forgotten'>;
  reporter: Pick<Reporter, 'acknowledge'>;
}): EventActions & { readonly purges: number } {
  const { delivery, resolver, readThrough, journal, reporter } = caches;

  let purges = 0;
  const purge = (scope: PurgeScope) => {
    purges += 1;
    delivery.purge(scope);
    // The caller of the purge waits for the receipt. It must hold even if this node is killed.
    void journal.forgotten().then(() => reporter.acknowledge());
  };

  return {
    onEvent(event: EdgeEvent) {
      switch (event.type) {
        case 'cache.purged': {
          const scope = purgeScopeOf(event.data);
          purge(scope);
          if (scope === 'everything') readThrough.outdate('/api');
          return;
        }
        case 'media.deleted':
          purge({ mediaId: event.data.id });
          readThrough.outdate('/api/v1/media');
          return;
        case 'media.created':
          readThrough.outdate('/api/v1/media');
          return;
        case 'media.processing':
        case 'media.ready':
        case 'media.failed':
          resolver.outdateMedia(event.data.id);
          readThrough.outdate('/api/v1/media');
          return;
        case 'rendition.ready':
        case 'rendition.failed':
          resolver.outdateMedia(event.data.id);
          return;
        case 'region.status_changed':
          readThrough.outdate('/api/v1/regions');
          return;
        case 'media.progress':
        case 'reset':
          return;
      }
    },

    onGap({ purge: isPurgePossible }) {
      if (isPurgePossible) delivery.purge('everything');
      resolver.outdateAll();
      readThrough.outdate('/api');
    },

    onUpToDate: () => reporter.acknowledge(),

    /** Purges since the start, including those for deleted media. */
    get purges() {
      return purges;
    },
  };
}
