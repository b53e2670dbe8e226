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

/** `queued -> fetching -> done | failed | canceled`; a temporary failure returns `fetching` to `queued`. */
export const FetchStatus = z.enum(['queued', 'fetching', 'done', 'failed', 'canceled'], {
  error: 'must be queued, fetching, done, failed or canceled',
});
export type FetchStatus = z.infer<typeof FetchStatus>;

/** Maximum length of a `source_url` in characters. */
export const MAX_SOURCE_URL_LENGTH = 8192;

/** Maximum seconds of `Prefer: wait=N` (RFC 7240, 4.3); a greater value counts as this one. */
export const MAX_FETCH_WAIT_S = 60;

/** A request to fetch a file. */
export const FetchRequest = z
  .strictObject({
    source_url: z
      .url()
      .max(MAX_SOURCE_URL_LENGTH)
      .meta({ description: 'An http or https URL, without user name and password', format: 'uri' }),
    filename: Filename.optional().meta({
      description: "A label; by default the last part of the URL's path",
    }),
    duplicate: z.enum(['existing', 'allow']).default('existing').meta({
      description: '`allow` creates another media object even if the project already has these bytes',
    }),
  })
  .meta({ id: 'FetchRequest' });
export type FetchRequest = z.infer<typeof FetchRequest>;

/** A file that the service fetches from a URL. It becomes a media object after it has arrived and was accepted. */
export const Fetch = z
  .strictObject({
    object: z.literal('fetch'),
    id: FetchId,
    created_at: Timestamp,
    updated_at: Timestamp,
    source_url: z.string().meta({ description: 'Without the query, which may contain a secret' }),
    filename: z.string().nullable(),
    status: FetchStatus,
    received_bytes: z
      .int()
      .min(0)
      .meta({ description: 'Bytes received so far, at most a second old while `fetching`' }),
    total_bytes: z
      .int()
      .min(0)
      .nullable()
      .meta({ description: 'As announced by the source; null if it announces nothing' }),
    attempts: z.int().min(0).meta({ description: 'Number of attempts, including the current one' }),
    media_id: MediaId.nullable().meta({ description: 'Id of the resulting media object; null until `done`' }),
    created: z.boolean().nullable().meta({
      description: 'False if the project already had these bytes; null until `done`',
    }),
    error: MediaFailure.nullable().meta({
      description: 'Reason of the failure: of the fetch if `failed`, of the last attempt if `queued`',
    }),
  })
  .meta({ id: 'Fetch' });
export type Fetch = z.infer<typeof Fetch>;

/** A page of {@link Fetch}, newest first. */
export const FetchList = listOf(Fetch).extend({ next_cursor: z.string().nullable() }).meta({ id: 'FetchList' });
export type FetchList = z.infer<typeof FetchList>;

const fetchPath = z.object({ fetch: FetchId });

/** The routes for ingest from a URL. `create` shares its path with the upload of a file; a JSON body selects `create`. */
export const fetchesRoutes = c.router({
  create: {
    method: 'POST',
    path: '/media',
    summary: 'Ingest from a URL',
    description:
      'With `Content-Type: application/json`, the service fetches the file from a URL. Returns 202 at once. With `Prefer: wait=N`, returns 201 or 200 with the media object if it is accepted within N seconds.',
    headers: z.object({
      'idempotency-key': z.string().min(1).max(255).optional(),
      prefer: z.string().optional().meta({ description: '`wait=N`: seconds to wait for the media object, at most 60' }),
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
    description: 'Newest first. The latest 10,000 finished fetches of each project are stored.',
    query: z.object({ limit: Limit, cursor: Cursor.optional(), status: FetchStatus.optional() }),
    responses: { ...controlProblems, 200: FetchList },
    metadata: { scope: 'ingest' },
  },
  get: {
    method: 'GET',
    path: '/fetches/:fetch',
    pathParams: fetchPath,
    summary: 'Get a fetch and its progress',
    responses: { ...controlProblems, 200: Fetch, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  cancel: {
    method: 'DELETE',
    path: '/fetches/:fetch',
    pathParams: fetchPath,
    summary: 'Cancel a fetch',
    description:
      'Removes the bytes received so far. Returns 409 if the fetch is finished, or if the file has arrived and is being accepted.',
    responses: { ...controlProblems, 200: Fetch, 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'ingest' },
  },
});
