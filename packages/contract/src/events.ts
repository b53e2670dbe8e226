import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { MediaStatus } from './media.ts';
import { MediaFailure } from './media-failure.ts';
import { controlProblems } from './problem.ts';
import { MediaId, RegionCode, Revision, Sha256, Timestamp } from './scalars.ts';

const c = initContract();

const MediaEventData = z.strictObject({ id: MediaId, status: MediaStatus, error: MediaFailure.nullable() });

const stored = { id: z.string().regex(/^\d+$/), created_at: Timestamp };

/**
 * An event of a media object, a rendition, a region or the caches, ordered by `id`, an increasing number. As a server-sent event (WHATWG
 * HTML, 9.2), `event` is the type, `id` the id and `data` this document. `media.progress` is sent but not stored: it has no id, and a
 * reader that reconnects does not get it again.
 */
export const Event = z
  .discriminatedUnion('type', [
    z.strictObject({
      ...stored,
      type: z.enum(['media.created', 'media.processing', 'media.ready', 'media.failed', 'media.deleted']),
      data: MediaEventData,
    }),
    z.strictObject({
      ...stored,
      type: z.literal('rendition.ready'),
      data: z.strictObject({ id: MediaId, name: z.string(), extension: z.string(), revision: Revision }),
    }),
    z.strictObject({
      ...stored,
      type: z.literal('rendition.failed'),
      data: z.strictObject({
        id: MediaId,
        name: z.string(),
        extension: z.string(),
        revision: Revision,
        reason: z.string().nullable().meta({ description: 'Why the rendition could not be made' }),
      }),
    }),
    z.strictObject({
      ...stored,
      type: z.literal('region.status_changed'),
      data: z.strictObject({ code: RegionCode, status: z.string() }),
    }),
    z.strictObject({
      ...stored,
      type: z.literal('cache.purged'),
      data: z.strictObject({
        media_id: MediaId.nullable(),
        path: z.string().nullable().meta({ description: 'Null together with `media_id`: everything was purged' }),
        objects: z
          .array(Sha256)
          .optional()
          .meta({ description: 'For a path: SHA-256 of the objects that it resolved to' }),
      }),
    }),
    z.strictObject({
      type: z.literal('media.progress'),
      data: z.strictObject({
        id: MediaId,
        progress: z.number().min(0).max(1).meta({ description: 'Share of the processing that is done, from 0 to 1' }),
      }),
    }),
  ])
  .meta({ id: 'Event' });
export type Event = z.infer<typeof Event>;
export type EventType = Event['type'];

/** Id of an event that the reader has received: digits. */
const EventId = z.string().regex(/^\d{1,15}$/, 'must be the id of an event');

/** The stream of events. */
export const eventsRoutes = c.router({
  stream: {
    method: 'GET',
    path: '/events',
    summary: 'Follow events',
    description:
      "Server-sent events of the token's project; each `data` line is an Event. `Last-Event-ID`, or `after` if no header can be set, continues after that event. Without either, the stream begins with the next event. The latest 10,000 events are stored. A comment is sent every 15 seconds. A reader that is too slow is disconnected and can continue after its last event.",
    query: z.object({
      after: EventId.optional().meta({
        description: 'Begin after the event with this id; `0`: begin with the oldest stored event',
      }),
    }),
    headers: z.object({ 'last-event-id': EventId.optional() }),
    responses: { ...controlProblems, 200: c.otherResponse({ contentType: 'text/event-stream', body: Event }) },
    metadata: { scope: 'ingest' },
  },
});
