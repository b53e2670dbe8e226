import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Cursor, Media, MediaStatus } from './media.ts';
import { MediaExplanation } from './media-explanation.ts';
import { MediaFailure } from './media-failure.ts';
import { controlProblems, problemResponse } from './problem.ts';
import { Limit, listOf, MediaId, MediaKind, Revision, Sha256 } from './scalars.ts';

const c = initContract();

/** What a token may do: `ingest` adds media and reads what it added; `operate` does everything. */
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
    reason: z.string().nullable().meta({ description: 'Why it was skipped or failed' }),
    bytes: z.int().nullable().meta({ description: 'Of all its files' }),
    files: z.int().nullable().meta({ description: 'How many files it consists of; null until it is ready' }),
    width: z.int().nullable(),
    height: z.int().nullable(),
    url: z.string().meta({ description: 'The current revision, cached for minutes' }),
    immutable_url: z.string().meta({ description: 'This very revision, cached for ever' }),
  })
  .meta({ id: 'MediaRendition' });
export type MediaRendition = z.infer<typeof MediaRendition>;

/** A media object as its operator sees it: the seven public fields and everything else that is known. */
export const MediaDetail = Media.extend({
  filename: z.string().nullable(),
  sha256: Sha256,
  kind: MediaKind,
  duration: z.number().nullable().meta({ description: 'Seconds; null for still pictures' }),
  codecs: z.array(z.string()),
  thumbhash: z.string().nullable().meta({ description: 'Base64 of the thumbhash of the picture or poster' }),
  warnings: z.array(z.string()),
  error: MediaFailure.nullable(),
  attempts: z.int().min(0),
  progress: z.number().min(0).max(1).nullable().meta({
    description: 'Share of the processing that is done, at most a second old; null unless `processing`',
  }),
  renditions: z.array(MediaRendition),
}).meta({ id: 'MediaDetail' });
export type MediaDetail = z.infer<typeof MediaDetail>;

/** What became of stored bytes: as recorded, other than recorded, or gone. */
export const ObjectHealth = z.enum(['sound', 'damaged', 'missing']);
export type ObjectHealth = z.infer<typeof ObjectHealth>;

/** What is done about stored bytes that are not sound. */
export const Repair = z.enum(['none', 'possible', 'queued', 'needs_preset', 'given_up', 'needs_original']).meta({
  description:
    '`none`: nothing is wrong. `possible`: it can be made again, as its preset is now. `queued`: it is being made again. `needs_preset`: no preset makes it any more; put its preset back first, or have it given up. `given_up`: it was removed, and has failed for want of a preset. `needs_original`: the original itself is damaged or missing; upload the same file again',
});
export type Repair = z.infer<typeof Repair>;

/** The stored bytes of one media object, each read through and compared with the SHA-256 recorded for them. */
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
    repair: Repair.meta({ description: 'Of what is worst about it' }),
  })
  .meta({ id: 'MediaVerification' });
export type MediaVerification = z.infer<typeof MediaVerification>;

/** A page of {@link MediaDetail}, newest first. */
export const MediaDetailList = listOf(MediaDetail)
  .extend({ next_cursor: z.string().nullable() })
  .meta({ id: 'MediaDetailList' });
export type MediaDetailList = z.infer<typeof MediaDetailList>;

/** A file name as its sender knew it: never a path here, only ever shown. */
export const Filename = z.string().min(1).max(255);

const mediaPath = z.object({ id: MediaId });

/** The operator's API. Everything here needs a bearer token. */
export const controlMediaRoutes = c.router({
  ingest: {
    method: 'POST',
    path: '/media',
    summary: 'Ingest a file',
    description:
      'The body is the file; what it is, is read from its bytes. 201 with a new media object, or 200 with the one that has these bytes already.',
    query: z.object({
      filename: Filename.optional(),
      duplicate: z.enum(['existing', 'allow']).default('existing').meta({
        description: '`allow` makes another media object of bytes that the project already has',
      }),
    }),
    headers: z.object({
      'idempotency-key': z.string().min(1).max(255).optional().meta({
        description: 'Makes a retry of the same request safe: it answers with the media object that the first one made',
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
    summary: 'Why a media object is as it is',
    description:
      'What identification found, what was decided for each preset and why, every attempt with its programs, timings and last words, and what it is waiting for.',
    responses: { ...controlProblems, 200: MediaExplanation, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  retry: {
    method: 'POST',
    path: '/media/:id/retry',
    pathParams: mediaPath,
    summary: 'Process again what failed',
    description:
      'A media object that failed goes back into the queue. One that is ready stays ready while those of its renditions that failed are made again.',
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
      'Reads the original and every rendition and compares them with their recorded SHA-256. With `repair=true`, renditions that are damaged or missing are made again from a sound original; those that no preset makes any more are given up.',
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
    description: 'The media object, its renditions and, unless another media object has the same bytes, its objects.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});
