import { api, type EdgeReport, type EdgeRepresentation, type EdgeResource, parseDeliveryPath } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { Request } from 'express';
import { AppError } from '../base/app-error.ts';
import type { Presented } from '../base/presented.ts';
import type { AssetRepository, RegionRepository } from '../db/delivery-repository.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Representation } from '../delivery/representation.ts';
import type { Resolver } from '../delivery/resolver.ts';
import type { EventStream } from '../events/event-stream.ts';
import type { PlainHandlers } from '../http/contract-routes.ts';
import { HEARTBEAT_MS, type RegionMonitor } from '../regions/region-monitor.ts';
import { requireDeploymentOperator } from './authenticate.ts';
import { serveEvents } from './events.ts';

/** Parts of the routes for points of presence. */
export interface ControlEdgesParts {
  regions: Pick<RegionRepository, 'find' | 'put' | 'heartbeat' | 'removeNode'>;
  assets: Pick<AssetRepository, 'record'>;
  /** Maximum asset records of a region. */
  keptAssets: number;
  regionMonitor: Pick<RegionMonitor, 'nodeId'>;
  events: Pick<EventStream, 'serve'>;
  /** A resolver of delivery paths that writes this base address into manifests. */
  resolverFor(baseUrl: string): Pick<Resolver, 'resolve'>;
  delivery: Pick<Delivery, 'handleObject'>;
}

/** How long a node may use a resolved path while it receives no events. Otherwise events announce changes at once. */
const MAX_AGE_S = 30;
/** How much longer it may use it while its origin does not answer. */
const STALE_IF_ERROR_S = 86_400;
/** Records in one transaction; they take a few milliseconds of the event loop. */
const BATCH = 200;

/** The routes under `/control/v1/edges` that answer with JSON. */
export function createControlEdgesHandlers(parts: ControlEdgesParts) {
  const { regions, assets } = parts;

  const register = async (code: string, { name, zone, country }: EdgeReport) => {
    // The settings of a node do not overwrite what an operator wrote.
    if ((await regions.find(code)) === null) await regions.put({ code, name, zone, country, maintenance: false });
  };

  return initServer().router(api.control.edges, {
    report: async ({ params: { region }, body, req }) => {
      requireDeploymentOperator(req);
      if (body.node === parts.regionMonitor.nodeId) {
        const message = 'is the name of the origin itself: give the node its own data folder';
        throw new AppError('invalid_request', `In the body, node ${message}.`, {
          issues: [{ in: 'body', path: 'node', message }],
        });
      }
      await register(region, body);
      const deliveries = body.deliveries.map(({ path, bytes, cache_status: cacheStatus, at_ms: atMs }) => ({
        ...{ region, path, bytes, cacheStatus, atMs },
      }));
      for (let from = 0; from < deliveries.length; from += BATCH) {
        await assets.record(deliveries.slice(from, from + BATCH), parts.keptAssets);
        // Other requests run between two transactions.
        await new Promise((resolve) => setImmediate(resolve));
      }
      const eventsThrough = body.events_through === null ? null : Number(body.events_through);
      if (body.leaving) await regions.removeNode(body.node);
      else await regions.heartbeat({ id: body.node, region, atMs: Date.now(), eventsThrough });
      return { status: 200, body: { heartbeat_ms: HEARTBEAT_MS } };
    },

    resource: async ({ query: { path, base_url: baseUrl }, req }) => {
      requireDeploymentOperator(req);
      const { representations, negotiated } = await parts.resolverFor(baseUrl).resolve(path);
      const body: Presented<EdgeResource> = {
        path,
        negotiated,
        max_age_s: MAX_AGE_S,
        stale_if_error_s: STALE_IF_ERROR_S,
        representations: representations.map((representation) => presentRepresentation(representation, path)),
      };
      return { status: 200, body };
    },
  });
}

function presentRepresentation(representation: Representation, path: string): Presented<EdgeRepresentation> {
  const { mediaId, contentType, bytes, etag, lastModifiedMs, contentLocation, source } = representation;
  const parsed = parseDeliveryPath(path);
  const isRevision = parsed !== null && 'revision' in parsed && parsed.revision !== null;
  return {
    media_id: mediaId,
    content_type: contentType,
    bytes,
    sha256: etag.slice(1, -1),
    last_modified_ms: lastModifiedMs,
    immutable: isRevision,
    content_location: contentLocation,
    pieces: source.kind === 'object' ? (source.object.pieces?.toString('base64') ?? null) : null,
    content: source.kind === 'made' ? source.body.toString('base64') : null,
  };
}

/** The routes of points of presence that answer with an object's bytes, or with the events of all projects. */
export function createEdgeStreamHandlers({
  delivery,
  events,
}: Pick<ControlEdgesParts, 'delivery' | 'events'>): PlainHandlers<typeof api.streams.edgeStreams> {
  return {
    object: async (req, res) => {
      requireDeploymentOperator(req);
      await delivery.handleObject(req, res, objectPath(req));
    },
    events: (req, res) => {
      requireDeploymentOperator(req);
      serveEvents(events, req, res, null);
    },
  };
}

/** @throws AppError if the path is missing, repeated or too long */
function objectPath(req: Request): string {
  const parsed = api.streams.edgeStreams.object.query.safeParse(req.query);
  if (parsed.success) return parsed.data.path;
  const message = 'must be a delivery path such as /media/{id}/{name}.{ext}';
  throw new AppError('invalid_request', `The query parameter path ${message}.`, {
    issues: [{ in: 'query', path: 'path', message }],
  });
}
