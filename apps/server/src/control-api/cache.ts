import { setTimeout as delay } from 'node:timers/promises';
import { controlCacheApi, type Purge, type PurgeReceipt, type PurgeResult, parseDeliveryPath } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { EventRepository } from '../db/event-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { Delivery, PurgeScope } from '../delivery/delivery.ts';
import { AppError } from '../http/app-error.ts';
import type { Presented } from '../read-api/presented.ts';
import type { NodeState, RegionMonitor } from '../regions/region-monitor.ts';
import { requireDeploymentOperator, tokenOf } from './authenticate.ts';

/** What the route of caches needs. */
export interface ControlCacheParts {
  media: Pick<MediaRepository, 'find'>;
  events: Pick<EventRepository, 'append'>;
  regionMonitor: Pick<RegionMonitor, 'nodes' | 'nodeId'>;
  delivery: Pick<Delivery, 'purge'>;
}

/** Between two looks at what the nodes have reported. */
const LOOK_MS = 25;

/**
 * `POST /control/v1/cache/purge`. The event tells every node, and each says in its reports up to which event it has followed: that is
 * its receipt. This node purges before it waits for the others.
 */
export function createControlCacheHandlers(parts: ControlCacheParts) {
  const { events, delivery, regionMonitor } = parts;

  const receiptOf = ({ id, region, alive, eventsThrough }: NodeState, seq: number): Presented<PurgeReceipt> => {
    const isPurged = id === regionMonitor.nodeId || (eventsThrough ?? 0) >= seq;
    return { region, node: id, state: isPurged ? 'purged' : alive ? 'pending' : 'silent' };
  };

  const receipts = async (seq: number) => (await regionMonitor.nodes()).map((node) => receiptOf(node, seq));

  return initServer().router(controlCacheApi, {
    purge: async ({ body, query: { wait }, req, res }) => {
      const scope = scopeOf(body);
      const mediaId = typeof scope === 'string' ? null : 'mediaId' in scope ? scope.mediaId : mediumAt(scope.path);
      const medium = mediaId === null ? null : await parts.media.find(mediaId);
      // What belongs to no medium of the caller's project touches the caches of others.
      if (medium === null || medium.projectId !== tokenOf(req).projectId) requireDeploymentOperator(req);

      const seq = await events.append({
        projectId: medium?.projectId ?? null,
        type: 'cache.purged',
        data: {
          media_id: typeof scope === 'object' && 'mediaId' in scope ? scope.mediaId : null,
          path: typeof scope === 'object' && 'path' in scope ? scope.path : null,
        },
      });
      delivery.purge(scope);

      const deadline = performance.now() + wait * 1000;
      let given = await receipts(seq);
      while (given.some(({ state }) => state === 'pending') && performance.now() < deadline && !res.destroyed) {
        await delay(LOOK_MS);
        given = await receipts(seq);
      }
      const result: Presented<PurgeResult> = {
        object: 'purge',
        id: String(seq),
        complete: given.every(({ state }) => state === 'purged'),
        receipts: given,
      };
      return { status: 200, body: result };
    },
  });
}

function scopeOf(purge: Purge): PurgeScope {
  if ('media_id' in purge) return { mediaId: purge.media_id };
  return 'path' in purge ? { path: purge.path } : 'everything';
}

/** @throws AppError where no medium can be at the path */
function mediumAt(path: string): string {
  const parsed = parseDeliveryPath(path);
  if (parsed) return parsed.id;
  const message = 'must be a delivery path such as /media/{id}/{name}.{ext}, without percent-encoding or query';
  throw new AppError('invalid_request', `In the body, path ${message}.`, {
    issues: [{ in: 'body', path: 'path', message }],
  });
}
