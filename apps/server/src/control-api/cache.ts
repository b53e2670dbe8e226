import { setTimeout as delay } from 'node:timers/promises';
import { api, type Purge, type PurgeReceipt, type PurgeResult, parseDeliveryPath } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import type { Presented } from '../base/presented.ts';
import type { EventRepository } from '../db/event-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { PurgeScope } from '../delivery/purge-scope.ts';
import type { Resolver } from '../delivery/resolver.ts';
import type { NodeState, RegionMonitor } from '../regions/region-monitor.ts';
import { requireDeploymentOperator, tokenOf } from './authenticate.ts';

/** Parts of the cache routes. */
export interface ControlCacheParts {
  media: Pick<MediaRepository, 'find'>;
  events: Pick<EventRepository, 'append'>;
  regionMonitor: Pick<RegionMonitor, 'nodes' | 'nodeId'>;
  resolver: Pick<Resolver, 'resolve'>;
  delivery: Pick<Delivery, 'purge'>;
}

/** Pause between two checks of the nodes' reports. */
const LOOK_MS = 25;

/**
 * `POST /control/v1/cache/purge`. An event announces the purge, and each node reports up to which event it has applied: that is its
 * receipt. This node purges before it waits for the others. For a path, the event also names the objects, because a node may hold them
 * without knowing the path.
 */
export function createControlCacheHandlers(parts: ControlCacheParts) {
  const { events, delivery, regionMonitor } = parts;

  const receiptOf = ({ id, region, alive, eventsThrough }: NodeState, seq: number): Presented<PurgeReceipt> => {
    const isPurged = id === regionMonitor.nodeId || (eventsThrough ?? 0) >= seq;
    return { region, node: id, state: isPurged ? 'purged' : alive ? 'pending' : 'silent' };
  };

  const receipts = async (seq: number) => (await regionMonitor.nodes()).map((node) => receiptOf(node, seq));

  /** SHA-256 of the objects at a path. @throws AppError as delivery answers if there are none */
  const objectsAt = async (path: string): Promise<string[]> => {
    try {
      const { representations } = await parts.resolver.resolve(path);
      const hashes = representations.flatMap(({ source }) => (source.kind === 'object' ? [source.object.sha256] : []));
      return [...new Set(hashes)].sort();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      // Its headers are for requests to delivery.
      throw new AppError(error.code, error.message, { cause: error });
    }
  };

  return initServer().router(api.control.cache, {
    purge: async ({ body, query: { wait }, req, res }) => {
      const mediaId = mediaIdOf(body);
      const mediaObject = mediaId === null ? null : await parts.media.find(mediaId);
      // A purge beyond the caller's own project affects other projects.
      if (mediaObject === null || mediaObject.projectId !== tokenOf(req).projectId) requireDeploymentOperator(req);
      if (mediaId !== null && mediaObject === null) throw mediaNotFound(mediaId);

      const path = 'path' in body ? body.path : null;
      const objects = path === null ? null : await objectsAt(path);
      const seq = await events.append({
        projectId: mediaObject?.projectId ?? null,
        type: 'cache.purged',
        data: { media_id: path === null ? mediaId : null, path, ...(objects && { objects }) },
      });
      delivery.purge(scopeOf(body, objects));

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

function scopeOf(purge: Purge, objects: string[] | null): PurgeScope {
  if ('media_id' in purge) return { mediaId: purge.media_id };
  return 'path' in purge ? { path: purge.path, ...(objects && { objects }) } : 'everything';
}

/** The id of the media object to purge; null for everything. @throws AppError if the path cannot belong to a media object */
function mediaIdOf(purge: Purge): string | null {
  if ('media_id' in purge) return purge.media_id;
  if (!('path' in purge)) return null;
  const parsed = parseDeliveryPath(purge.path);
  if (parsed) return parsed.id;
  const message = 'must be a delivery path such as /media/{id}/{name}.{ext}, without percent-encoding or query';
  throw new AppError('invalid_request', `In the body, path ${message}.`, {
    issues: [{ in: 'body', path: 'path', message }],
  });
}

function mediaNotFound(id: string): AppError {
  return new AppError(
    'media_not_found',
    `There is no media object ${id}. The id is mistyped, or the media object was deleted; every cache drops a deleted media object without a purge.`,
  );
}
