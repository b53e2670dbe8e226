import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { MediaStatus } from './media.ts';
import { MediaFailure } from './media-failure.ts';
import { controlProblems } from './problem.ts';
import { MediaId, RegionCode, Revision, Sha256, Timestamp } from './scalars.ts';

const c = initContract();

const MediaEventData = z.strictObject({ id: MediaId, status: MediaStatus, error: MediaFailure.nullable() });

const kept = { id: z.string().regex(/^\d+$/), created_at: Timestamp };

/**
 * What happened to a media object, a rendition, a region or the caches, in the order of `id`, a number that only grows. As server-sent events (WHATWG
 * HTML, 9.2): `event` is the type, `id` the id and `data` this document. `media.progress` is told to who listens and not kept: it
 * has no id, and a listener that comes back does not get it again.
 */
export const Event = z
  .discriminatedUnion('type', [
    z.strictObject({
      ...kept,
      type: z.enum(['media.created', 'media.processing', 'media.ready', 'media.failed', 'media.deleted']),
      data: MediaEventData,
    }),
    z.strictObject({
      ...kept,
      type: z.literal('rendition.ready'),
      data: z.strictObject({ id: MediaId, name: z.string(), extension: z.string(), revision: Revision }),
    }),
    z.strictObject({
      ...kept,
      type: z.literal('rendition.failed'),
      data: z.strictObject({
        id: MediaId,
        name: z.string(),
        extension: z.string(),
        revision: Revision,
        reason: z.string().nullable().meta({ description: 'Why it could not be made' }),
      }),
    }),
    z.strictObject({
      ...kept,
      type: z.literal('region.status_changed'),
      data: z.strictObject({ code: RegionCode, status: z.string() }),
    }),
    z.strictObject({
      ...kept,
      type: z.literal('cache.purged'),
      data: z.strictObject({
        media_id: MediaId.nullable(),
        path: z
          .string()
          .nullable()
          .meta({ description: 'Where media object and path are null, everything was dropped' }),
        objects: z
          .array(Sha256)
          .optional()
          .meta({ description: 'Of a path: SHA-256 of the objects that it stood for' }),
      }),
    }),
    z.strictObject({
      type: z.literal('media.progress'),
      data: z.strictObject({
        id: MediaId,
        progress: z.number().min(0).max(1).meta({ description: 'Share of the processing that is done' }),
      }),
    }),
  ])
  .meta({ id: 'Event' });
export type Event = z.infer<typeof Event>;
export type EventType = Event['type'];

/** Number of an event that was seen: digits. */
const EventId = z.string().regex(/^\d{1,15}$/, 'must be the id of an event');

/**
 * The stream of events. Apart from the rest of the control API, for it is no answer that ends: whoever serves or reads it
 * handles the stream itself.
 */
export const eventsRoutes = c.router({
  stream: {
    method: 'GET',
    path: '/events',
    summary: 'What happens, as it happens',
    description:
      "Server-sent events of the token's project: each `data` line is an Event. `Last-Event-ID`, or `after` where no header can be set, goes on after that event; without either the stream begins with what happens next. The latest 10,000 events are kept. A comment comes every 15 seconds; a reader that does not keep up is cut off and goes on from where it was.",
    query: z.object({
      after: EventId.optional().meta({ description: 'Events after the one of this id; `0`: all that are kept' }),
    }),
    headers: z.object({ 'last-event-id': EventId.optional() }),
    responses: { ...controlProblems, 200: c.otherResponse({ contentType: 'text/event-stream', body: Event }) },
    metadata: { scope: 'ingest' },
  },
});
