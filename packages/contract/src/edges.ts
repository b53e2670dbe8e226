import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { CacheStatus } from './assets.ts';
import { Event } from './events.ts';
import { controlProblems, problemResponse } from './problem.ts';
import { Region } from './regions.ts';
import { MediaId, NodeId, RegionCode, Sha256 } from './scalars.ts';

const c = initContract();

/** Bytes of the pieces by which large objects are read, verified and cached. */
export const PIECE_BYTES = 1024 * 1024;

const EventId = z.string().regex(/^\d{1,15}$/, 'must be the id of an event');

/** A delivery path, and the sizes of it that a cache may be told of. */
const Path = z.string().min(1).max(1024).regex(/^\//);

/** OpenAPI 3.0 knows base64 by another name than JSON Schema. */
const Base64 = z.base64().meta({ openapi: { type: 'string', format: 'byte' } });

/** A successful delivery, as an edge reports it. */
export const ReportedDelivery = z.strictObject({
  path: Path,
  bytes: z.int().min(0).meta({ description: 'Of the whole representation' }),
  cache_status: CacheStatus,
  at_ms: z.int().min(0).meta({ description: 'First request since the last report, milliseconds since the epoch' }),
});

export type ReportedDelivery = z.infer<typeof ReportedDelivery>;

/** Deliveries of one report, at most. */
export const MAX_REPORTED_DELIVERIES = 1_000;

/** What a node says to its origin: that it lives, how far it has followed the events, and what it has delivered. Repeating one is safe. */
export const EdgeReport = z
  .strictObject({
    node: NodeId,
    name: Region.shape.name,
    zone: Region.shape.zone,
    country: Region.shape.country,
    events_through: EventId.nullable().meta({
      description:
        'The last event that the node has acted upon: what was purged or deleted up to it is gone from its caches',
    }),
    deliveries: z.array(ReportedDelivery).max(MAX_REPORTED_DELIVERIES),
    leaving: z.boolean().meta({ description: 'The node stops now and is not missed' }),
  })
  .meta({ id: 'EdgeReport' });
export type EdgeReport = z.infer<typeof EdgeReport>;

/** What an origin answers a report with. */
export const EdgeReportReceipt = z
  .strictObject({ heartbeat_ms: z.int().min(1).meta({ description: 'The next report is awaited within this time' }) })
  .meta({ id: 'EdgeReportReceipt' });
export type EdgeReportReceipt = z.infer<typeof EdgeReportReceipt>;

/** One representation of a delivery path, with all that a node needs to deliver it by itself. */
export const EdgeRepresentation = z
  .strictObject({
    media_id: MediaId,
    content_type: z.string(),
    bytes: z.int().min(0),
    sha256: Sha256,
    last_modified_ms: z.int(),
    immutable: z.boolean().meta({ description: 'Whether the path names this revision for ever' }),
    content_location: z.string().nullable().meta({ description: 'Its own path, where Accept chooses among several' }),
    pieces: Base64.nullable().meta({
      description: `SHA-256 of each piece of ${PIECE_BYTES} bytes, one after the other; null for objects of one piece, and where they are not known`,
    }),
    content: Base64.nullable().meta({
      description: 'The bytes themselves of what is made from the database; null: ask for the object',
    }),
  })
  .meta({ id: 'EdgeRepresentation' });
export type EdgeRepresentation = z.infer<typeof EdgeRepresentation>;

/** What a delivery path stands for. */
export const EdgeResource = z
  .strictObject({
    path: Path,
    negotiated: z.boolean(),
    max_age_s: z
      .int()
      .min(0)
      .meta({ description: 'How long it may be used without asking again while events do not come' }),
    stale_if_error_s: z
      .int()
      .min(0)
      .meta({ description: 'How long beyond that while the origin does not answer (RFC 5861)' }),
    representations: z.array(EdgeRepresentation).min(1),
  })
  .meta({ id: 'EdgeResource' });
export type EdgeResource = z.infer<typeof EdgeResource>;

/**
 * Told instead of events that are not kept any more, in the stream of nodes alone. What was looked up before may be out of date. Whether
 * everything was purged in between is told as well, since bytes that are known by their hash need not be fetched again otherwise.
 */
export const EdgeReset = z
  .strictObject({
    id: EventId.meta({ description: 'The latest event; the stream goes on after it' }),
    type: z.literal('reset'),
    data: z.strictObject({
      purged_everything: EventId.nullable().meta({
        description: 'The latest purge of everything; null: there never was one',
      }),
    }),
  })
  .meta({ id: 'EdgeReset' });
export type EdgeReset = z.infer<typeof EdgeReset>;

/** What the stream of nodes consists of. */
export const EdgeEvent = z.union([Event, EdgeReset]);
export type EdgeEvent = z.infer<typeof EdgeEvent>;

const regionPath = z.object({ region: RegionCode });

/** What points of presence ask of their origin. Everything needs a token of scope `operate`. */
export const edgesRoutes = c.router({
  report: {
    method: 'POST',
    path: '/edges/:region/report',
    pathParams: regionPath,
    summary: 'Heartbeat and request log of a node',
    body: EdgeReport,
    responses: { ...controlProblems, 200: EdgeReportReceipt },
    metadata: { scope: 'operate' },
  },
  resource: {
    method: 'GET',
    path: '/edges/:region/resource',
    pathParams: regionPath,
    summary: 'What a delivery path stands for',
    query: z.object({
      path: Path,
      base_url: z.string().max(1024).default('').meta({ description: 'Put before the paths in manifests' }),
    }),
    responses: { ...controlProblems, 200: EdgeResource, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});

/** What answers with bytes or never ends, so that whoever serves or reads it handles it itself. */
export const edgeStreamsRoutes = c.router({
  object: {
    method: 'GET',
    path: '/edges/:region/object',
    pathParams: regionPath,
    summary: 'Bytes of a representation',
    description:
      'The object of a delivery path, by ranges (RFC 9110, 14), not counted as a delivery. `If-Match` names the SHA-256 that is expected: 412 where the path stands for another one by now.',
    query: z.object({ path: Path }),
    headers: z.object({ 'if-match': z.string(), range: z.string().optional() }),
    responses: {
      ...controlProblems,
      200: c.otherResponse({ contentType: 'application/octet-stream', body: z.unknown() }),
      206: c.otherResponse({ contentType: 'application/octet-stream', body: z.unknown() }),
      404: problemResponse,
      412: problemResponse,
      416: problemResponse,
    },
    metadata: { scope: 'operate' },
  },
  events: {
    method: 'GET',
    path: '/edges/:region/events',
    pathParams: regionPath,
    summary: 'What happens to the media of all projects',
    description:
      'Server-sent events as of `/events`, of every project, `media.progress` left out. An id without data says that the reader is up to date with it. `reset` says that events between the last one and now are not kept any more.',
    headers: z.object({ 'last-event-id': EventId.optional() }),
    responses: { ...controlProblems, 200: c.otherResponse({ contentType: 'text/event-stream', body: EdgeEvent }) },
    metadata: { scope: 'operate' },
  },
});
