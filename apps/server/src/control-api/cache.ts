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

/** What the route of caches needs. */
export interface ControlCacheParts {
  media: Pick<MediaRepository, 'find'>;
  events: Pick<EventRepository, 'append'>;
  regionMonitor: Pick<RegionMonitor, 'nodes' | 'nodeId'>;
  /** What paths stand for. */
  resolver: Pick<Resolver, 'resolve'>;
  delivery: Pick<Delivery, 'purge'>;
}

/** Between two looks at what the nodes have reported. */
const LOOK_MS = 25;

/**
 * `POST /control/v1/cache/purge`. The event tells every node, and each says in its reports up to which event it has followed: that is
 * its receipt. This node purges before it waits for the others. Of a path the event names the objects, for a node that does not know the
 * path at the moment may hold them all the same.
 */
export function createControlCacheHandlers(parts: ControlCacheParts) {
  const { events, delivery, regionMonitor } = parts;

  const receiptOf = ({ id, region, alive, eventsThrough }: NodeState, seq: number): Presented<PurgeReceipt> => {
    const isPurged = id === regionMonitor.nodeId || (eventsThrough ?? 0) >= seq;
    return { region, node: id, state: isPurged ? 'purged' : alive ? 'pending' : 'silent' };
  };

  const receipts = async (seq: number) => (await regionMonitor.nodes()).map((node) => receiptOf(node, seq));

  /** SHA-256 of what is at a path. @throws AppError as delivery would answer, where nothing is */
  const objectsAt = async (path: string): Promise<string[]> => {
    try {
      const { representations } = await parts.resolver.resolve(path);
      const hashes = representations.flatMap(({ source }) => (source.kind === 'object' ? [source.object.sha256] : []));
      return [...new Set(hashes)].sort();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      // Its headers are for those who asked delivery.
      throw new AppError(error.code, error.message, { cause: error });
    }
  };

  return initServer().router(api.control.cache, {
    purge: async ({ body, query: { wait }, req, res }) => {
      const mediaId = mediaObjectOf(body);
      const mediaObject = mediaId === null ? null : await parts.media.find(mediaId);
      // What belongs to no media object of the caller's project touches the caches of others.
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

/** Null: it is about everything. @throws AppError where no media object can be at the path */
function mediaObjectOf(purge: Purge): string | null {
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
    `There is no media object ${id}: the id is mistyped, or it was deleted, of which every node hears without being told to purge.`,
  );
}
