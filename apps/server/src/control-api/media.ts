import type { IncomingMessage } from 'node:http';
import { api, CONTROL_API_PREFIX, type MediaDetailList } from '@mds/contract';
import type { Preset } from '@mds/transcode';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import { decodeCursor, nextLink, pageOf } from '../base/cursor.ts';
import type { Presented } from '../base/presented.ts';
import type { JobQueue } from '../db/job-queue.ts';
import type { MediaRecord, MediaRepository, RenditionRecord } from '../db/media-repository.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { MediaRemoval } from '../ingest/media-removal.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import type { MediaVerifier } from '../processing/media-verifier.ts';
import { tokenOf } from './authenticate.ts';
import { presentMediaDetail, readMediaDetail } from './media-detail.ts';
import { presentExplanation } from './media-explanation.ts';
import { uploadBody } from './upload-body.ts';
import { abortWhenGone, requireFileBody } from './upload-headers.ts';

/** Parts of the media routes. */
export interface ControlMediaParts {
  media: Pick<MediaRepository, 'find' | 'page' | 'retry' | 'renditions' | 'renditionsOf'>;
  jobs: Pick<JobQueue, 'findJobViews' | 'ahead' | 'attempts'>;
  presets: readonly Preset[];
  /** Texts to hide in explanations (paths of this machine, secrets), each with its replacement. */
  hidden: Readonly<Record<string, string>>;
  ingest: Pick<Ingest, 'ingest'>;
  removal: MediaRemoval;
  verifier: MediaVerifier;
  writes: Pick<WriteGate, 'isClosedForGood'>;
  /** Announces a new job, so that workers look for it at once. */
  wakeWorkers(): void;
  /** Base address that clients use, without a trailing slash. */
  publicUrl(): string;
}

/** The operator's routes under `/control/v1/media`. Each acts in the token's project alone. */
export function createControlMediaHandlers(parts: ControlMediaParts) {
  const { media } = parts;

  const detail = (record: MediaRecord) => readMediaDetail(parts, record);

  const findOwn = async (req: IncomingMessage, id: string): Promise<MediaRecord> => {
    const found = await media.find(id);
    if (found === null || found.projectId !== tokenOf(req).projectId) throw noSuchMedia(id);
    return found;
  };

  return initServer().router(api.control.media, {
    ingest: async ({ query, headers, req, res }) => {
      const declaredBytes = requireFileBody(req);
      const gone = abortWhenGone(res);
      const body = uploadBody(req, res);
      try {
        const { media: record, created } = await parts.ingest.ingest({
          projectId: tokenOf(req).projectId,
          body,
          filename: query.filename ?? null,
          idempotencyKey: headers['idempotency-key'] ?? null,
          duplicate: query.duplicate,
          declaredBytes,
          signal: gone,
        });
        res.setHeader('Location', `${CONTROL_API_PREFIX}/media/${record.id}`);
        // A new one has no renditions, and its job has made no progress: nothing to read.
        if (created) return { status: 201, body: presentMediaDetail(record, [], null, parts.publicUrl()) };
        return { status: 200, body: await detail(record) };
      } finally {
        body.destroy();
      }
    },

    list: async ({ query: { limit, cursor, status }, req, res }) => {
      const { projectId } = tokenOf(req);
      const before = decodeCursor(projectId, cursor);
      const rows = await media.page({ projectId, limit: limit + 1, before, ...(status ? { status } : {}) });
      const { page, nextCursor } = pageOf(rows, limit, projectId);
      const ids = page.map(({ id }) => id);
      const renditions = byMedia(await media.renditionsOf(ids));
      const views = new Map((await parts.jobs.findJobViews(ids)).map((job) => [job.mediaId, job]));
      const body: Presented<MediaDetailList> = {
        object: 'list',
        data: page.map((record) =>
          presentMediaDetail(record, renditions.get(record.id) ?? [], views.get(record.id) ?? null, parts.publicUrl()),
        ),
        next_cursor: nextCursor,
      };
      if (nextCursor !== null) {
        res.setHeader('Link', nextLink(api.control.media.list.path, { limit, cursor: nextCursor, status }));
      }
      return { status: 200, body };
    },

    get: async ({ params: { id }, req }) => ({ status: 200, body: await detail(await findOwn(req, id)) }),

    explain: async ({ params: { id }, req }) => {
      const record = await findOwn(req, id);
      const [job = null] = await parts.jobs.findJobViews([id]);
      const body = presentExplanation({
        media: record,
        job,
        moved: parts.writes.isClosedForGood,
        ahead: await parts.jobs.ahead(id),
        attempts: await parts.jobs.attempts(id),
        presets: parts.presets,
        hidden: parts.hidden,
      });
      return { status: 200, body };
    },

    retry: async ({ params: { id }, req }) => {
      const found = await findOwn(req, id);
      if (!(await media.retry(id))) {
        throw new AppError('state_conflict', nothingToRetry(found, await media.renditions(id)));
      }
      parts.wakeWorkers();
      return { status: 202, body: await detail(await findOwn(req, id)) };
    },

    verify: async ({ params: { id }, query, req }) => ({
      status: 200,
      body: await parts.verifier.verify(await findOwn(req, id), { repair: query.repair === 'true' }),
    }),

    delete: async ({ params: { id }, req }) => {
      await findOwn(req, id);
      if (!(await parts.removal.remove(id))) throw noSuchMedia(id);
      return { status: 204, body: undefined };
    },
  });
}

function byMedia(renditions: RenditionRecord[]): Map<string, RenditionRecord[]> {
  const groups = new Map<string, RenditionRecord[]>();
  for (const rendition of renditions) {
    const group = groups.get(rendition.mediaId);
    if (group) group.push(rendition);
    else groups.set(rendition.mediaId, [rendition]);
  }
  return groups;
}

function nothingToRetry({ status }: MediaRecord, renditions: readonly RenditionRecord[]): string {
  if (status !== 'ready')
    return `The media object is ${status}; only failed media and renditions can be processed again.`;
  const pending = renditions.filter(({ state }) => state === 'pending');
  if (pending.length === 0) {
    return 'The media object is ready and none of its renditions failed: there is nothing to process again.';
  }
  const names = pending.map(({ name, extension }) => `${name}.${extension}`).sort();
  return `The media object is ready, and these renditions are already being made: ${names.join(', ')}. No other rendition failed.`;
}

function noSuchMedia(id: string): AppError {
  return new AppError(
    'media_not_found',
    `There is no media object ${id} in this project. GET ${api.control.media.list.path} lists the media.`,
  );
}
