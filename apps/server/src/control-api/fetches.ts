import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { api, CONTROL_API_PREFIX, type Fetch, MAX_FETCH_WAIT_S, type ProblemCode } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { NextFunction, Request, Response } from 'express';
import { monotonicFactory } from 'ulid';
import { AppError } from '../base/app-error.ts';
import { decodeCursor, nextLink, pageOf } from '../base/cursor.ts';
import { type Presented, timestamp } from '../base/presented.ts';
import { shownUrl } from '../base/shown-url.ts';
import type { FetchRecord, FetchRepository, NewFetch } from '../db/fetch-repository.ts';
import type { MediaRecord, MediaRepository } from '../db/media-repository.ts';
import type { FetchRunner } from '../fetches/fetch-runner.ts';
import { sourceUrlOf } from '../fetches/source-url.ts';
import { continueBody } from '../http/unread-body.ts';
import { filenameLabel } from '../ingest/filename-label.ts';
import { tokenOf } from './authenticate.ts';
import { type MediaDetailParts, readMediaDetail } from './media-detail.ts';
import { abortWhenGone, mediaTypeOf } from './upload-headers.ts';

/** Parts of the routes for ingest from a URL. */
export interface ControlFetchesParts {
  fetches: Pick<FetchRepository, 'add' | 'find' | 'findByIdempotencyKey' | 'page' | 'cancel'>;
  runner: Pick<FetchRunner, 'wake' | 'canceled' | 'settled'>;
  /** Maximum running and waiting fetches of a project. Default {@link MAX_WAITING_FETCHES}. */
  maxWaiting?: number;
}

export const MAX_WAITING_FETCHES = 10_000;
/** Retry-After in seconds if too many fetches wait. */
const RETRY_AFTER_S = '60';

/**
 * Passes a `POST /media` to the next route of that path unless its body is JSON: then the body is the file. Runs before the JSON
 * parser.
 */
export function onlyJsonBodies(req: Request, res: Response, next: NextFunction): void {
  if (mediaTypeOf(req.headers['content-type']) !== 'application/json') {
    next('route');
    return;
  }
  continueBody(req, res);
  next();
}

/** The routes for ingest from a URL. Each acts in the token's project alone. */
export function createControlFetchesHandlers(
  parts: ControlFetchesParts,
  media: MediaDetailParts & { media: Pick<MediaRepository, 'find' | 'findByIdempotencyKey'> },
) {
  const { fetches, runner, maxWaiting = MAX_WAITING_FETCHES } = parts;
  const nextUlid = monotonicFactory();

  const findOwn = async (req: IncomingMessage, id: string): Promise<FetchRecord> => {
    const found = await fetches.find(id);
    if (found === null || found.projectId !== tokenOf(req).projectId) throw noSuchFetch(id);
    return found;
  };

  /** Returns a new fetch, or the existing one of a repeated request. */
  const admit = async (request: NewFetch): Promise<FetchRecord> => {
    const { projectId, idempotencyKey: key } = request;
    if (key !== null && (await fetches.findByIdempotencyKey(projectId, key)) === null) {
      const made = await media.media.findByIdempotencyKey(projectId, key);
      if (made !== null) throw keyInUse(`sent a file that became ${made.id}`);
    }
    const admission = await fetches.add(request, { maxWaiting });
    if (admission.outcome === 'other') throw keyInUse(`became ${admission.fetchId}`);
    if (admission.outcome === 'full') throw tooManyFetches(maxWaiting);
    runner.wake();
    return admission.fetch;
  };

  const mediaObjectOf = async ({ mediaId }: FetchRecord): Promise<MediaRecord> => {
    const found = mediaId === null ? null : await media.media.find(mediaId);
    if (found !== null) return found;
    throw new AppError(
      'media_not_found',
      `The file was fetched, but its media object ${mediaId} has since been deleted.`,
    );
  };

  return initServer().router(api.control.fetches, {
    create: {
      middleware: [onlyJsonBodies],
      handler: async ({ body, headers, req, res }) => {
        const createdAtMs = Date.now();
        const url = sourceUrlOf(body.source_url);
        url.hash = '';
        const asked = { url: url.href, filename: body.filename ?? null, duplicate: body.duplicate };
        const fetch = await admit({
          id: `fch_${nextUlid(createdAtMs).toLowerCase()}`,
          projectId: tokenOf(req).projectId,
          createdAtMs,
          sourceUrl: url.href,
          filename: filenameLabel(body.filename ?? lastPartOf(url)),
          duplicate: body.duplicate,
          idempotencyKey: headers['idempotency-key'] ?? null,
          requestSha256: createHash('sha256').update(JSON.stringify(asked)).digest('hex'),
        });
        res.setHeader('Location', `${CONTROL_API_PREFIX}/fetches/${fetch.id}`);
        const waitS = preferredWaitS(headers.prefer);
        if (waitS === null) return { status: 202, body: presentFetch(fetch) };
        res.setHeader('Preference-Applied', `wait=${waitS}`);
        const over = await runner.settled(fetch.id, { timeoutMs: waitS * 1000, signal: abortWhenGone(res) });
        if (over === null) return { status: 202, body: presentFetch((await fetches.find(fetch.id)) ?? fetch) };
        if (over.status !== 'done') throw failureOf(over);
        const record = await mediaObjectOf(over);
        res.setHeader('Location', `${CONTROL_API_PREFIX}/media/${record.id}`);
        return { status: over.mediaCreated ? 201 : 200, body: await readMediaDetail(media, record) };
      },
    },

    list: async ({ query: { limit, cursor, status }, req, res }) => {
      const { projectId } = tokenOf(req);
      const before = decodeCursor(projectId, cursor, 'fetches');
      const rows = await fetches.page({ projectId, limit: limit + 1, before, ...(status ? { status } : {}) });
      const { page, nextCursor } = pageOf(rows, limit, projectId, 'fetches');
      if (nextCursor !== null) {
        res.setHeader('Link', nextLink(api.control.fetches.list.path, { limit, cursor: nextCursor, status }));
      }
      return { status: 200, body: { object: 'list' as const, data: page.map(presentFetch), next_cursor: nextCursor } };
    },

    get: async ({ params, req }) => ({ status: 200, body: presentFetch(await findOwn(req, params.fetch)) }),

    cancel: async ({ params, req }) => {
      const found = await findOwn(req, params.fetch);
      if (!(await fetches.cancel(found.id))) {
        const { status } = await findOwn(req, found.id);
        const why = status === 'fetching' ? 'The file has arrived and is being accepted' : `The fetch is ${status}`;
        throw new AppError('state_conflict', `${why}: there is nothing left to cancel.`);
      }
      runner.canceled(found.id);
      return { status: 200, body: presentFetch(await findOwn(req, found.id)) };
    },
  });
}

/**
 * The seconds to wait according to a Prefer field (RFC 7240, 2 and 4.3), at most {@link MAX_FETCH_WAIT_S}. Null if it has no valid `wait`:
 * an invalid preference is no error.
 */
function preferredWaitS(field: string | undefined): number | null {
  for (const preference of (field ?? '').split(',')) {
    const seconds = /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;|$)/i.exec(preference)?.[1];
    // If there are several, the first counts.
    if (seconds !== undefined) return Math.min(MAX_FETCH_WAIT_S, Number(seconds));
  }
  return null;
}

function presentFetch(fetch: FetchRecord): Presented<Fetch> {
  return {
    object: 'fetch',
    id: fetch.id,
    created_at: timestamp(fetch.createdAtMs),
    updated_at: timestamp(fetch.updatedAtMs),
    source_url: shownUrl(fetch.sourceUrl),
    filename: fetch.filename,
    status: fetch.status,
    received_bytes: fetch.receivedBytes,
    total_bytes: fetch.totalBytes,
    attempts: fetch.attempts,
    media_id: fetch.mediaId,
    created: fetch.mediaCreated,
    error: fetch.status === 'fetching' ? null : fetch.failure,
  };
}

/** The last part of a URL's path; null if the path ends with a slash. */
function lastPartOf({ pathname }: URL): string | null {
  const last = pathname.slice(pathname.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** The error for a caller that waited for a fetch which produced no media object. */
function failureOf({ status, failure }: FetchRecord): AppError {
  if (status === 'canceled' || failure === null) return new AppError('state_conflict', 'The fetch was canceled.');
  // The failure was recorded from an AppError.
  return new AppError(failure.code as ProblemCode, failure.message);
}

function keyInUse(what: string): AppError {
  const detail = `The Idempotency-Key has already been used for another request, which ${what}. Use a new key for a new request.`;
  return new AppError('idempotency_conflict', detail);
}

function tooManyFetches(maxWaiting: number): AppError {
  return new AppError(
    'too_many_fetches',
    `This project already has ${maxWaiting} waiting fetches. Send the request again when some of them are finished.`,
    { headers: { 'Retry-After': RETRY_AFTER_S } },
  );
}

function noSuchFetch(id: string): AppError {
  return new AppError(
    'fetch_not_found',
    `There is no fetch ${id} in this project, or it was removed. GET ${api.control.fetches.list.path} lists the fetches.`,
  );
}
