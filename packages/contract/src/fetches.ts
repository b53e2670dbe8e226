import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Filename, MediaDetail } from './control-media.ts';
import { Cursor } from './media.ts';
import { MediaFailure } from './media-failure.ts';
import { controlProblems, problemResponse } from './problem.ts';
import { Limit, listOf, MediaId, Timestamp } from './scalars.ts';

const c = initContract();

/** `fch_` and a lower-case ULID. Ids sort by creation time. */
export const FetchId = z
  .string()
  .regex(/^fch_[0-9a-z]{26}$/, 'must be fch_ and 26 lower-case letters and digits')
  .meta({ description: 'Identifier of a fetch', example: 'fch_01k0c4s6q8y2v4w6x8z0a2c4e6' });
export type FetchId = z.infer<typeof FetchId>;

/** `queued -> fetching -> done | failed | canceled`; a fault that may pass takes `fetching` back to `queued`. */
export const FetchStatus = z.enum(['queued', 'fetching', 'done', 'failed', 'canceled'], {
  error: 'must be queued, fetching, done, failed or canceled',
});
export type FetchStatus = z.infer<typeof FetchStatus>;

/** Characters of a `source_url`, at most. */
export const MAX_SOURCE_URL_LENGTH = 8192;

/** Seconds that `Prefer: wait=N` (RFC 7240, 4.3) can ask for, at most; more is taken for this. */
export const MAX_FETCH_WAIT_S = 60;

/** What to fetch. */
export const FetchRequest = z
  .strictObject({
    source_url: z
      .url()
      .max(MAX_SOURCE_URL_LENGTH)
      .meta({ description: 'An http or https URL without user name and password', format: 'uri' }),
    filename: Filename.optional().meta({
      description: "A label; the last part of the URL's path where it is left out",
    }),
    duplicate: z.enum(['existing', 'allow']).default('existing').meta({
      description: '`allow` makes another media object of bytes that the project already has',
    }),
  })
  .meta({ id: 'FetchRequest' });
export type FetchRequest = z.infer<typeof FetchRequest>;

/** A file on its way in from a URL. It becomes a media object once all of it is there and accepted. */
export const Fetch = z
  .strictObject({
    object: z.literal('fetch'),
    id: FetchId,
    created_at: Timestamp,
    updated_at: Timestamp,
    source_url: z.string().meta({ description: 'Without its query, which may hold a secret' }),
    filename: z.string().nullable(),
    status: FetchStatus,
    received_bytes: z.int().min(0).meta({ description: 'At most a second old while it is `fetching`' }),
    total_bytes: z.int().min(0).nullable().meta({ description: 'As the source says; null where it does not say' }),
    attempts: z.int().min(0).meta({ description: 'Times that it was begun, this one included' }),
    media_id: MediaId.nullable().meta({ description: 'The media object that it became; null until it is `done`' }),
    created: z.boolean().nullable().meta({
      description: 'False where the project had these bytes already; null until it is `done`',
    }),
    error: MediaFailure.nullable().meta({
      description: 'Why it `failed`, or, while it is `queued`, why the attempt before did not do',
    }),
  })
  .meta({ id: 'Fetch' });
export type Fetch = z.infer<typeof Fetch>;

/** A page of {@link Fetch}, newest first. */
export const FetchList = listOf(Fetch).extend({ next_cursor: z.string().nullable() }).meta({ id: 'FetchList' });
export type FetchList = z.infer<typeof FetchList>;

const fetchPath = z.object({ fetch: FetchId });

/** The routes for ingest from a URL. `create` shares its path with the upload of a file: a body of JSON is for this one. */
export const fetchesRoutes = c.router({
  create: {
    method: 'POST',
    path: '/media',
    summary: 'Ingest from a URL',
    description:
      'With `Content-Type: application/json`: the service fetches the file itself. 202 at once; with `Prefer: wait=N` 201 or 200 with the media object where it is accepted within N seconds.',
    headers: z.object({
      'idempotency-key': z.string().min(1).max(255).optional(),
      prefer: z.string().optional().meta({ description: '`wait=N`: seconds to wait for the media object, 60 at most' }),
    }),
    body: FetchRequest,
    responses: {
      ...controlProblems,
      200: MediaDetail,
      201: MediaDetail,
      202: Fetch,
      409: problemResponse,
      413: problemResponse,
      415: problemResponse,
      422: problemResponse,
      502: problemResponse,
      504: problemResponse,
      507: problemResponse,
    },
    metadata: { scope: 'ingest' },
  },
  list: {
    method: 'GET',
    path: '/fetches',
    summary: 'List fetches',
    description: 'Newest first. The latest 10,000 of a project that are over are kept.',
    query: z.object({ limit: Limit, cursor: Cursor.optional(), status: FetchStatus.optional() }),
    responses: { ...controlProblems, 200: FetchList },
    metadata: { scope: 'ingest' },
  },
  get: {
    method: 'GET',
    path: '/fetches/:fetch',
    pathParams: fetchPath,
    summary: 'A fetch, and how far it is',
    responses: { ...controlProblems, 200: Fetch, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  cancel: {
    method: 'DELETE',
    path: '/fetches/:fetch',
    pathParams: fetchPath,
    summary: 'Cancel a fetch',
    description: 'What has arrived is removed. 409 where it is over, or has arrived and is being accepted.',
    responses: { ...controlProblems, 200: Fetch, 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'ingest' },
  },
});
