import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Cursor, Media, MediaStatus } from './media.ts';
import { MediaExplanation } from './media-explanation.ts';
import { MediaFailure } from './media-failure.ts';
import { controlProblems, problemResponse } from './problem.ts';
import { Limit, listOf, MediaId, MediaKind, Revision, Sha256 } from './scalars.ts';

const c = initContract();

/** The rights of a token: `ingest` adds media and reads them; `operate` allows everything. */
export const TokenScope = z.enum(['ingest', 'operate']);
export type TokenScope = z.infer<typeof TokenScope>;

/** State of one rendition of one media object. */
export const RenditionState = z.enum(['pending', 'ready', 'skipped', 'failed']);
export type RenditionState = z.infer<typeof RenditionState>;

/** One rendition of one media object. Sizes are null until it is ready. */
export const MediaRendition = z
  .strictObject({
    name: z.string(),
    extension: z.string(),
    content_type: z.string(),
    revision: Revision,
    state: RenditionState,
    reason: z.string().nullable().meta({ description: 'Why the rendition was skipped or failed' }),
    bytes: z.int().nullable().meta({ description: 'Total size of its files in bytes' }),
    files: z.int().nullable().meta({ description: 'Number of its files; null until it is ready' }),
    width: z.int().nullable(),
    height: z.int().nullable(),
    url: z.string().meta({ description: 'URL of the current revision, cached for minutes' }),
    immutable_url: z.string().meta({ description: 'URL of this revision, cached without limit' }),
  })
  .meta({ id: 'MediaRendition' });
export type MediaRendition = z.infer<typeof MediaRendition>;

/** A media object as its operator sees it: the seven public fields, and those for operators only. */
export const MediaDetail = Media.extend({
  filename: z.string().nullable(),
  sha256: Sha256,
  kind: MediaKind,
  duration: z.number().nullable().meta({ description: 'Duration in seconds; null for still pictures' }),
  codecs: z.array(z.string()),
  thumbhash: z.string().nullable().meta({ description: 'Thumbhash of the picture or poster, in Base64' }),
  warnings: z.array(z.string()),
  error: MediaFailure.nullable(),
  attempts: z.int().min(0),
  progress: z.number().min(0).max(1).nullable().meta({
    description: 'Share of the processing that is done, from 0 to 1, at most a second old; null unless `processing`',
  }),
  renditions: z.array(MediaRendition),
}).meta({ id: 'MediaDetail' });
export type MediaDetail = z.infer<typeof MediaDetail>;

/** State of stored bytes: as recorded, different from the record, or missing. */
export const ObjectHealth = z.enum(['sound', 'damaged', 'missing']);
export type ObjectHealth = z.infer<typeof ObjectHealth>;

/** Whether and how damaged or missing bytes can be repaired. */
export const Repair = z.enum(['none', 'possible', 'queued', 'needs_preset', 'given_up', 'needs_original']).meta({
  description:
    '`none`: nothing to repair. `possible`: the rendition can be made again with its current preset. `queued`: the rendition is being made again. `needs_preset`: no preset makes this rendition any more; restore its preset, or verify with `repair=true` to give the rendition up. `given_up`: the rendition was removed and marked as failed, because it has no preset. `needs_original`: the original is damaged or missing; upload the same file again',
});
export type Repair = z.infer<typeof Repair>;

/** Result of a check: all stored bytes of one media object were read and compared with their recorded SHA-256. */
export const MediaVerification = z
  .strictObject({
    id: MediaId,
    filename: z.string().nullable(),
    checked_bytes: z.int().min(0),
    original: ObjectHealth,
    renditions: z.array(
      z.strictObject({
        name: z.string(),
        extension: z.string(),
        revision: Revision,
        health: ObjectHealth,
        repair: Repair,
      }),
    ),
    repair: Repair.meta({ description: 'The repair of the worst problem found' }),
  })
  .meta({ id: 'MediaVerification' });
export type MediaVerification = z.infer<typeof MediaVerification>;

/** A page of {@link MediaDetail}, newest first. */
export const MediaDetailList = listOf(MediaDetail)
  .extend({ next_cursor: z.string().nullable() })
  .meta({ id: 'MediaDetailList' });
export type MediaDetailList = z.infer<typeof MediaDetailList>;

/** The sender's name of a file. A label: it is shown, and never used as a path. */
export const Filename = z.string().min(1).max(255);

const mediaPath = z.object({ id: MediaId });

/** The operator's routes for media. */
export const controlMediaRoutes = c.router({
  ingest: {
    method: 'POST',
    path: '/media',
    summary: 'Ingest a file',
    description:
      'The body is the file. Its format is detected from its bytes. Returns 201 with a new media object, or 200 with the existing one if the project already has these bytes.',
    query: z.object({
      filename: Filename.optional(),
      duplicate: z.enum(['existing', 'allow']).default('existing').meta({
        description: '`allow` creates another media object even if the project already has these bytes',
      }),
    }),
    headers: z.object({
      'idempotency-key': z.string().min(1).max(255).optional().meta({
        description: 'Makes a retry safe: it returns the media object that the first request created',
      }),
    }),
    body: c.noBody(),
    responses: {
      ...controlProblems,
      200: MediaDetail,
      201: MediaDetail,
      409: problemResponse,
      413: problemResponse,
      415: problemResponse,
      422: problemResponse,
      507: problemResponse,
    },
    metadata: { scope: 'ingest', binaryBody: true },
  },
  list: {
    method: 'GET',
    path: '/media',
    summary: 'List media in detail',
    query: z.object({ limit: Limit, cursor: Cursor.optional(), status: MediaStatus.optional() }),
    responses: { ...controlProblems, 200: MediaDetailList },
    metadata: { scope: 'ingest' },
  },
  get: {
    method: 'GET',
    path: '/media/:id',
    pathParams: mediaPath,
    summary: 'A media object in detail',
    responses: { ...controlProblems, 200: MediaDetail, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  explain: {
    method: 'GET',
    path: '/media/:id/explain',
    pathParams: mediaPath,
    summary: 'Explain the state of a media object',
    description:
      'Returns the result of identification, the decision for each preset with its reason, each attempt with its programs, timings and last output, and what the media object is waiting for.',
    responses: { ...controlProblems, 200: MediaExplanation, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  retry: {
    method: 'POST',
    path: '/media/:id/retry',
    pathParams: mediaPath,
    summary: 'Process failed media again',
    description:
      'Puts a failed media object back into the queue. A ready media object stays ready while its failed renditions are made again.',
    body: c.noBody(),
    responses: { ...controlProblems, 202: MediaDetail, 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
  verify: {
    method: 'POST',
    path: '/media/:id/verify',
    pathParams: mediaPath,
    summary: 'Check the stored bytes of a media object',
    description:
      'Compares the original and every ready rendition with their recorded SHA-256. With `repair=true`, damaged or missing renditions are made again if the original is sound. A rendition that no preset makes any more is given up.',
    query: z.object({ repair: z.enum(['true', 'false']).default('false') }),
    body: c.noBody(),
    responses: { ...controlProblems, 200: MediaVerification, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
  delete: {
    method: 'DELETE',
    path: '/media/:id',
    pathParams: mediaPath,
    summary: 'Delete a media object',
    description:
      'Deletes the media object and its renditions. Its stored bytes are deleted too, unless another media object has the same ones.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});
