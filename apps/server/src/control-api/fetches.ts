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

/** What the control API's routes for ingest from a URL need. */
export interface ControlFetchesParts {
  fetches: Pick<FetchRepository, 'add' | 'find' | 'findByIdempotencyKey' | 'page' | 'cancel'>;
  runner: Pick<FetchRunner, 'wake' | 'canceled' | 'settled'>;
  /** Fetches of a project that may be under way or wait. Default {@link MAX_WAITING_FETCHES}. */
  maxWaiting?: number;
}

export const MAX_WAITING_FETCHES = 10_000;
/** How soon it is worth asking again where too many wait, in seconds. */
const RETRY_AFTER_S = '60';

/**
 * Lets a `POST /media` pass to the next route of that path unless its body is JSON: else it is the file itself. Mounted in front of
 * the routes, and of what reads the JSON.
 */
export function onlyJsonBodies(req: Request, res: Response, next: NextFunction): void {
  if (mediaTypeOf(req.headers['content-type']) !== 'application/json') {
    next('route');
    return;
  }
  continueBody(req, res);
  next();
}

/** The routes for ingest from a URL; each acts in its token's project alone. */
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

  /** The fetch of a request: a new one, or that of the same request before. */
  const admit = async (request: NewFetch): Promise<FetchRecord> => {
    const { projectId, idempotencyKey: key } = request;
    if (key !== null && (await fetches.findByIdempotencyKey(projectId, key)) === null) {
      const made = await media.media.findByIdempotencyKey(projectId, key);
      if (made !== null) throw keyInUse(`sent a file that became ${made.id}`);
    }
    const admission = await fetches.add(request, { maxWaiting });
    if (admission.outcome === 'other') throw keyInUse(`became ${admission.fetchId}`);
    if (admission.outcome === 'full') throw tooMany(maxWaiting);
    runner.wake();
    return admission.fetch;
  };

  const mediaObjectOf = async ({ mediaId }: FetchRecord): Promise<MediaRecord> => {
    const found = mediaId === null ? null : await media.media.find(mediaId);
    if (found !== null) return found;
    throw new AppError(
      'media_not_found',
      `The file was fetched, and its media object ${mediaId} has been deleted since.`,
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
        if (over.status !== 'done') throw outcomeOf(over);
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
        const why = status === 'fetching' ? 'All of it has arrived, and is being accepted' : `It is ${status}`;
        throw new AppError('state_conflict', `${why}: there is nothing to cancel any more.`);
      }
      runner.canceled(found.id);
      return { status: 200, body: presentFetch(await findOwn(req, found.id)) };
    },
  });
}

/**
 * The seconds that a Prefer field asks to be waited for (RFC 7240, 2 and 4.3), {@link MAX_FETCH_WAIT_S} at most. Null where it asks for
 * nothing, or in a way that is not understood: a preference is no error.
 */
function preferredWaitS(field: string | undefined): number | null {
  for (const preference of (field ?? '').split(',')) {
    const seconds = /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;|$)/i.exec(preference)?.[1];
    // Of several, the first counts.
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

/** The name that a URL's path ends with; null where it ends with none. */
function lastPartOf({ pathname }: URL): string | null {
  const last = pathname.slice(pathname.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** What the asker is told who waited for a fetch that became no media object. */
function outcomeOf({ status, failure }: FetchRecord): AppError {
  if (status === 'canceled' || failure === null) return new AppError('state_conflict', 'The fetch was canceled.');
  // Written by this service out of its own errors.
  return new AppError(failure.code as ProblemCode, failure.message);
}

function keyInUse(what: string): AppError {
  const detail = `The Idempotency-Key has already been used for another request, which ${what}. Use a new key for a new request.`;
  return new AppError('idempotency_conflict', detail);
}

function tooMany(maxWaiting: number): AppError {
  return new AppError(
    'too_many_fetches',
    `${maxWaiting} fetches of this project wait already. Ask again when some of them are done.`,
    { headers: { 'Retry-After': RETRY_AFTER_S } },
  );
}

function noSuchFetch(id: string): AppError {
  return new AppError(
    'fetch_not_found',
    `There is no fetch ${id} in this project, or not any more. GET ${api.control.fetches.list.path} lists what there is.`,
  );
}
