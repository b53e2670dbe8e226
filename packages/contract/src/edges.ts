import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { CacheStatus } from './assets.ts';
import { Event } from './events.ts';
import { controlProblems, problemResponse } from './problem.ts';
import { Region } from './regions.ts';
import { MediaId, NodeId, RegionCode, Sha256 } from './scalars.ts';

const c = initContract();

/** Size in bytes of the pieces in which large objects are read, verified and cached. */
export const PIECE_BYTES = 1024 * 1024;

const EventId = z.string().regex(/^\d{1,15}$/, 'must be the id of an event');

/** A delivery path, bounded for use as a cache key. */
const Path = z.string().min(1).max(1024).regex(/^\//);

/** OpenAPI 3.0 names the Base64 format differently from JSON Schema. */
const Base64 = z.base64().meta({ openapi: { type: 'string', format: 'byte' } });

/** A successful delivery, as an edge reports it. */
export const ReportedDelivery = z.strictObject({
  path: Path,
  bytes: z.int().min(0).meta({ description: 'Size of the whole representation in bytes' }),
  cache_status: CacheStatus,
  at_ms: z
    .int()
    .min(0)
    .meta({ description: 'Time of the first request since the last report, in milliseconds since the epoch' }),
});

export type ReportedDelivery = z.infer<typeof ReportedDelivery>;

/** Maximum deliveries in one report. */
export const MAX_REPORTED_DELIVERIES = 1_000;

/** A node's report to its origin: a heartbeat, its position in the events, and its deliveries. Safe to repeat. */
export const EdgeReport = z
  .strictObject({
    node: NodeId,
    name: Region.shape.name,
    zone: Region.shape.zone,
    country: Region.shape.country,
    events_through: EventId.nullable().meta({
      description:
        'Id of the last event that the node has applied: its caches hold nothing that was purged or deleted up to it',
    }),
    deliveries: z.array(ReportedDelivery).max(MAX_REPORTED_DELIVERIES),
    leaving: z
      .boolean()
      .meta({ description: 'True if the node is stopping: the origin no longer expects its heartbeats' }),
  })
  .meta({ id: 'EdgeReport' });
export type EdgeReport = z.infer<typeof EdgeReport>;

/** The origin's answer to a report. */
export const EdgeReportReceipt = z
  .strictObject({
    heartbeat_ms: z.int().min(1).meta({ description: 'The origin expects the next report within this time' }),
  })
  .meta({ id: 'EdgeReportReceipt' });
export type EdgeReportReceipt = z.infer<typeof EdgeReportReceipt>;

/** One representation of a delivery path, with everything that a node needs to deliver it. */
export const EdgeRepresentation = z
  .strictObject({
    media_id: MediaId,
    content_type: z.string(),
    bytes: z.int().min(0),
    sha256: Sha256,
    last_modified_ms: z.int(),
    immutable: z.boolean().meta({ description: 'True if the path names this revision, which never changes' }),
    content_location: z
      .string()
      .nullable()
      .meta({ description: 'Its own path, if Accept selects among several representations' }),
    pieces: Base64.nullable().meta({
      description: `SHA-256 of each piece of ${PIECE_BYTES} bytes, concatenated; null for an object of one piece, or if unknown`,
    }),
    content: Base64.nullable().meta({
      description: 'The content, if it is generated from the database; null: request the object',
    }),
  })
  .meta({ id: 'EdgeRepresentation' });
export type EdgeRepresentation = z.infer<typeof EdgeRepresentation>;

/** The representations of a delivery path. */
export const EdgeResource = z
  .strictObject({
    path: Path,
    negotiated: z.boolean(),
    max_age_s: z
      .int()
      .min(0)
      .meta({ description: 'Seconds for which it may be used without revalidation while no events arrive' }),
    stale_if_error_s: z
      .int()
      .min(0)
      .meta({ description: 'Additional seconds for which it may be used while the origin does not answer (RFC 5861)' }),
    representations: z.array(EdgeRepresentation).min(1),
  })
  .meta({ id: 'EdgeResource' });
export type EdgeResource = z.infer<typeof EdgeResource>;

/**
 * Replaces events that are no longer stored; only in the stream of nodes. Everything resolved before may be out of date. The message
 * includes the latest purge of everything, because cached bytes known by their hash stay valid unless there was one.
 */
export const EdgeReset = z
  .strictObject({
    id: EventId.meta({ description: 'Id of the latest event; the stream continues after it' }),
    type: z.literal('reset'),
    data: z.strictObject({
      purged_everything: EventId.nullable().meta({
        description: 'Id of the latest purge of everything; null if there was none',
      }),
    }),
  })
  .meta({ id: 'EdgeReset' });
export type EdgeReset = z.infer<typeof EdgeReset>;

/** A message of the stream of nodes. */
export const EdgeEvent = z.union([Event, EdgeReset]);
export type EdgeEvent = z.infer<typeof EdgeEvent>;

const regionPath = z.object({ region: RegionCode });

/** The routes that points of presence call on their origin. Each needs a token with the scope `operate`. */
export const edgesRoutes = c.router({
  report: {
    method: 'POST',
    path: '/edges/:region/report',
    pathParams: regionPath,
    summary: 'Report the heartbeat and deliveries of a node',
    body: EdgeReport,
    responses: { ...controlProblems, 200: EdgeReportReceipt },
    metadata: { scope: 'operate' },
  },
  resource: {
    method: 'GET',
    path: '/edges/:region/resource',
    pathParams: regionPath,
    summary: 'Resolve a delivery path',
    query: z.object({
      path: Path,
      base_url: z.string().max(1024).default('').meta({ description: 'Prefix of the paths in manifests' }),
    }),
    responses: { ...controlProblems, 200: EdgeResource, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});

/** The routes of points of presence that answer with bytes or with an endless stream. */
export const edgeStreamsRoutes = c.router({
  object: {
    method: 'GET',
    path: '/edges/:region/object',
    pathParams: regionPath,
    summary: 'Get the bytes of a representation',
    description:
      'Returns the object of a delivery path, or a range of it (RFC 9110, 14). Does not count as a delivery. `If-Match` names the expected SHA-256: returns 412 if the path now resolves to another object.',
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
    summary: 'Follow the events of all projects',
    description:
      'Server-sent events as at `/events`, of all projects and without `media.progress`. An id without data means that the reader is up to date to that id. `reset` means that some events since the last one are no longer stored.',
    headers: z.object({ 'last-event-id': EventId.optional() }),
    responses: { ...controlProblems, 200: c.otherResponse({ contentType: 'text/event-stream', body: EdgeEvent }) },
    metadata: { scope: 'operate' },
  },
});
