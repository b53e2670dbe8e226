import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  MEDIA_CREATED_HEADER,
  MEDIA_ID_HEADER,
  PROBLEM_CODE_HEADER,
  TUS_EXTENSIONS,
  TUS_VERSION,
  UPLOADS_PATH,
} from '@mds/contract';
import { Server } from '@tus/server';
import { monotonicFactory } from 'ulid';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { UploadOutcome, UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import { endAnswer } from '../http/unread-body.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { PieceWriting } from '../ingest/piece-writing.ts';
import type { StagingSpace } from '../ingest/staging-space.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import { createFileHashing } from '../storage/file-hashing.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createStoredUploadFiles } from './stored-upload-files.ts';
import { createUploadAdmission } from './upload-admission.ts';
import { createUploadBody, type UploadBody } from './upload-body.ts';
import { createUploadCompletion } from './upload-completion.ts';
import { createUploadFiles } from './upload-files.ts';
import { createUploadJanitor } from './upload-janitor.ts';
import { createUploadLocker } from './upload-locker.ts';
import { badContentType, badHeader, noSuchUpload, uploadProblem } from './upload-problems.ts';
import { createUploadProgress } from './upload-progress.ts';
import { requireUploadHeaders, uploadMethodOf, webRequest } from './upload-request.ts';
import { UploadStore } from './upload-store.ts';

/** A sender that says nothing for this long is cut off, and may come back; in milliseconds. */
const IDLE_MS = 60_000;

export interface UploadsParts {
  uploads: UploadRepository;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  /** Folder of the bytes on their way; outlives restarts. */
  folder: string;
  /** Whether other processes take uploads over the same database. */
  shared?: boolean;
  /** Where they keep the bytes, so that any of them can go on with any upload; null: each in its folder. */
  segments?: { store: ObjectStore; stagingDir: string; segmentBytes?: number } | null;
  /** Whether bytes of uploads that nobody knows may be removed there. Default: they may. */
  mayRemove?: () => boolean;
  /** What is accepted without a request passes it; requests have. Default: nothing is kept out. */
  writes?: Pick<WriteGate, 'enter'>;
  space: StagingSpace;
  writing: PieceWriting;
  maxBytes: number;
  /** Open uploads that a token may have at once. */
  maxOpen: number;
  /** How long an upload is kept after its last byte, and an outcome after it was reached; in milliseconds. */
  expiryMs: number;
  idleMs?: number;
  logger: Logger;
}

/** On whose behalf a request is made. */
export interface UploadCaller {
  projectId: string;
  tokenSha256: string;
}

/** Counts since the start of the process, but for `open`. */
export interface UploadFigures {
  /** Uploads that are on their way, in the whole database. */
  open: number;
  /** Bodies that are arriving at the moment. */
  receiving: number;
  receivedBytes: number;
  /** Uploads that are over, by how they ended. */
  over: Partial<Record<UploadOutcome['state'], number>>;
}

/** Resumable uploads over tus 1.0.0. */
export interface Uploads {
  /**
   * Answers a request of the protocol.
   * @param id the upload of the path; null for the collection
   * @throws AppError whatever is to be told instead
   */
  serve(req: IncomingMessage, res: ServerResponse, id: string | null, caller: UploadCaller): Promise<void>;
  figures(): Promise<UploadFigures>;
  /** Takes up what a restart interrupted. */
  start(): Promise<void>;
  /** Ends the bodies that are arriving: what came of each is kept and acknowledged, and no more is taken. */
  leave(): void;
  /** Ends the rest, once every request is answered. */
  stop(): Promise<void>;
}

/** A request on its way through the protocol's library. */
interface Passage {
  id: string | null;
  caller: UploadCaller;
  failure: unknown;
}

/** {@link Uploads}: what the protocol's library says in its own terms, in the service's. */
export function createUploads(parts: UploadsParts): Uploads {
  const {
    uploads,
    writing,
    logger,
    shared = false,
    segments = null,
    maxBytes,
    maxOpen,
    expiryMs,
    idleMs = IDLE_MS,
  } = parts;
  const nextUlid = monotonicFactory();
  const stopped = new AbortController();
  const bodies = new Set<UploadBody>();
  const figures: Omit<UploadFigures, 'open' | 'receiving'> = { receivedBytes: 0, over: {} };
  const passages = new WeakMap<Request, Passage>();
  let leaving = false;

  const hashing = createFileHashing();
  const files =
    segments === null
      ? createUploadFiles({ folder: parts.folder, writing })
      : createStoredUploadFiles({ ...segments, folder: parts.folder, writing, hashing, logger });
  const progress = createUploadProgress({ space: parts.space, hashing, files });
  const admission = createUploadAdmission({ uploads, files, progress, maxOpen, expiryMs });
  const locker = createUploadLocker({ uploads, logger });
  const completion = createUploadCompletion({
    uploads,
    media: parts.media,
    ingest: parts.ingest,
    files,
    progress,
    keepMs: expiryMs,
    signal: stopped.signal,
    onOver: (state) => {
      figures.over[state] = (figures.over[state] ?? 0) + 1;
    },
    logger,
  });
  const janitor = createUploadJanitor({
    ...{ uploads, files, progress, completion, locker, shared, expiryMs, logger },
    ...(parts.mayRemove && { mayRemove: parts.mayRemove }),
    ...(parts.writes && { writes: parts.writes }),
  });
  const onBytes = (count: number) => {
    figures.receivedBytes += count;
  };
  const store = new UploadStore({ uploads, files, progress, completion, locker, expiryMs, onBytes });

  const passageOf = (request: Request): Passage => {
    const passage = passages.get(request);
    if (!passage) throw new Error('a request reached the uploads from elsewhere');
    return passage;
  };

  const tus = new Server({
    path: UPLOADS_PATH,
    datastore: store,
    locker: {
      newLock: (id) => {
        const lock = locker.newLock(id);
        return { lock: lock.lock, unlock: () => store.settled(id).then(lock.unlock) };
      },
    },
    maxSize: maxBytes,
    // A body that is cut for somebody who waits has nothing to do but to be written down.
    lockDrainTimeout: 1,
    namingFunction: (request) => {
      const passage = passageOf(request);
      passage.id = `upl_${nextUlid().toLowerCase()}`;
      return passage.id;
    },
    generateUrl: (_request, { id }) => `${UPLOADS_PATH}/${id}`,
    getFileIdFromRequest: (request) => passageOf(request).id ?? undefined,
    onIncomingRequest: async (request, id) => {
      if (request.method === 'POST') return;
      const upload = await uploads.find(id);
      if (upload?.projectId !== passageOf(request).caller.projectId) throw noSuchUpload();
    },
    onUploadCreate: async (request, upload) => {
      // Before the library locks it: the lock is in the row.
      const { id, metadata = null, size: length = null } = upload;
      await admission.admit({ id, metadata, length, ...passageOf(request).caller });
      return {};
    },
    onResponseError: (request, error) => {
      passageOf(request as Request).failure = error;
      return undefined;
    },
  });

  const failureOf = async (response: Response, { failure }: Passage): Promise<unknown> => {
    if (failure !== null) return uploadProblem(failure, maxBytes);
    // The library's own look at headers says its refusals in a line.
    const name = /^Invalid ([a-z-]+)/.exec(await response.text())?.[1];
    if (name === 'content-type') return badContentType();
    return badHeader(name ?? 'tus-resumable', 'is not as the protocol wants it');
  };

  /** What an answer says beside what the library makes it say. */
  const addOutcome = (res: ServerResponse, upload: UploadRecord | null) => {
    if (upload?.state === 'open') res.setHeader('Upload-Expires', new Date(upload.expiresAtMs).toUTCString());
    if (upload?.state !== 'accepted' || upload.mediaId === null) return;
    res.setHeader(MEDIA_ID_HEADER, upload.mediaId);
    res.setHeader(MEDIA_CREATED_HEADER, String(upload.mediaCreated ?? false));
  };

  const exchange = async (req: IncomingMessage, res: ServerResponse, method: string, passage: Passage) => {
    const body = method === 'POST' || method === 'PATCH' ? createUploadBody(req, res, { idleMs }) : null;
    if (body) bodies.add(body);
    try {
      const request = webRequest(req, method, body?.stream ?? null);
      passages.set(request, passage);
      const response = await tus.handleWeb(request);
      if (!response.ok) throw await failureOf(response, passage);
      for (const name of PROTOCOL_HEADERS) {
        const value = response.headers.get(name);
        if (value !== null) res.setHeader(name, value);
      }
      if (passage.id !== null) addOutcome(res, await uploads.find(passage.id));
      res.statusCode = response.status;
    } catch (error) {
      // Nobody was told where it is.
      if (method === 'POST' && passage.id !== null) await completion.discard(passage.id, { state: 'terminated' });
      throw error;
    } finally {
      if (body) {
        body.end();
        bodies.delete(body);
      }
    }
    endAnswer(req, res, '');
  };

  return {
    async serve(req, res, id, caller) {
      const method = uploadMethodOf(req);
      res.setHeader('Tus-Resumable', TUS_VERSION);
      res.setHeader('Cache-Control', 'no-store');
      if (method === 'OPTIONS') {
        res.setHeader('Tus-Version', TUS_VERSION);
        res.setHeader('Tus-Extension', TUS_EXTENSIONS.join(','));
        res.setHeader('Tus-Max-Size', maxBytes);
        res.statusCode = 204;
        res.end();
        return;
      }
      try {
        requireUploadHeaders(req);
        if (leaving) throw stopping();
        await exchange(req, res, method, { id, caller, failure: null });
      } catch (error) {
        if (error instanceof AppError) res.setHeader(PROBLEM_CODE_HEADER, error.code);
        throw error;
      }
    },

    async figures() {
      return { ...figures, over: { ...figures.over }, receiving: bodies.size, open: await uploads.countOpen() };
    },

    start: () => janitor.start(),

    leave() {
      leaving = true;
      for (const body of bodies) body.end();
    },

    async stop() {
      stopped.abort(new Error('the service stops'));
      await janitor.stop();
      await locker.stop();
      await hashing.stop();
    },
  };
}

/** Those of the library's headers that belong to the protocol. */
const PROTOCOL_HEADERS = ['Location', 'Upload-Offset', 'Upload-Length', 'Upload-Defer-Length', 'Upload-Metadata'];

function stopping(): AppError {
  return new AppError(
    'unavailable',
    'The service is stopping. What arrived of the upload is kept; go on in a moment.',
    {
      headers: { 'Retry-After': '2' },
    },
  );
}
