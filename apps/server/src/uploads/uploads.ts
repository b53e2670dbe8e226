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

/** A sender that is silent for this long is cut off, and may resume; in milliseconds. */
const IDLE_MS = 60_000;

export interface UploadsParts {
  uploads: UploadRepository;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  /** Folder of unfinished uploads; outlives restarts. */
  folder: string;
  /** Whether other processes take uploads with the same database. */
  shared?: boolean;
  /** Store for the bytes of uploads, so that any process can resume any upload. Null: each process keeps its own in its folder. */
  segments?: { store: ObjectStore; stagingDir: string; segmentBytes?: number } | null;
  /** Whether bytes of unknown uploads may be removed there. Default: yes. */
  mayRemove?: () => boolean;
  /** Gate for uploads that are completed without a request. Requests pass the gate earlier. Default: nothing is refused. */
  writes?: Pick<WriteGate, 'enter'>;
  space: StagingSpace;
  writing: PieceWriting;
  maxBytes: number;
  /** Open uploads that a token may have at once. */
  maxOpen: number;
  /** Milliseconds that an upload is kept after its last byte, and its outcome after its end. */
  expiryMs: number;
  idleMs?: number;
  logger: Logger;
}

/** The project and token of a request. */
export interface UploadCaller {
  projectId: string;
  tokenSha256: string;
}

/** Counts since the start of the process; `open` and `receiving` are current numbers. */
export interface UploadStats {
  /** Unfinished uploads in the whole database. */
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
   * @throws AppError for every refusal
   */
  serve(req: IncomingMessage, res: ServerResponse, id: string | null, caller: UploadCaller): Promise<void>;
  stats(): Promise<UploadStats>;
  /** Resumes what a restart interrupted. */
  start(): Promise<void>;
  /** Ends the bodies that are arriving: the bytes received are kept and acknowledged, and no more are taken. */
  endBodies(): void;
  /** Ends the rest, after every request was answered. */
  stop(): Promise<void>;
}

/** A request on its way through the tus library. */
interface TusRequest {
  id: string | null;
  caller: UploadCaller;
  failure: unknown;
}

/** {@link Uploads}: the tus library implements the protocol; this translates its answers and errors into the service's. */
export function createUploads(parts: UploadsParts): Uploads {
  const { uploads, writing, logger, shared = false, segments = null } = parts;
  const { maxBytes, maxOpen, expiryMs, idleMs = IDLE_MS } = parts;
  const stopped = new AbortController();
  const bodies = new Set<UploadBody>();
  const stats: Omit<UploadStats, 'open' | 'receiving'> = { receivedBytes: 0, over: {} };
  let isStopping = false;

  const hashing = createFileHashing();
  const files =
    segments === null
      ? createUploadFiles({ folder: parts.folder, writing })
      : createStoredUploadFiles({ ...segments, folder: parts.folder, writing, hashing, logger });
  const progress = createUploadProgress({ space: parts.space, hashing, files });
  const admission = createUploadAdmission({ uploads, files, progress, maxOpen, expiryMs });
  const locker = createUploadLocker({ uploads, logger });
  const completion = createUploadCompletion({
    ...{ uploads, media: parts.media, ingest: parts.ingest, files, progress, logger },
    keepMs: expiryMs,
    signal: stopped.signal,
    onEnded: (state) => {
      stats.over[state] = (stats.over[state] ?? 0) + 1;
    },
  });
  const janitor = createUploadJanitor({
    ...{ uploads, files, progress, completion, locker, shared, expiryMs, logger },
    ...(parts.mayRemove && { mayRemove: parts.mayRemove }),
    ...(parts.writes && { writes: parts.writes }),
  });
  const onBytes = (count: number) => {
    stats.receivedBytes += count;
  };
  const store = new UploadStore({ uploads, files, progress, completion, locker, expiryMs, onBytes });
  const tus = createTusServer({ uploads, store, locker, admission, maxBytes });

  const exchange = async (req: IncomingMessage, res: ServerResponse, method: string, tusRequest: TusRequest) => {
    const body = method === 'POST' || method === 'PATCH' ? createUploadBody(req, res, { idleMs }) : null;
    if (body) bodies.add(body);
    try {
      const response = await tus.handle(webRequest(req, method, body?.stream ?? null), tusRequest);
      if (!response.ok) throw await failureOf(response, tusRequest, maxBytes);
      for (const name of PROTOCOL_HEADERS) {
        const value = response.headers.get(name);
        if (value !== null) res.setHeader(name, value);
      }
      if (tusRequest.id !== null) addOutcome(res, await uploads.find(tusRequest.id));
      res.statusCode = response.status;
    } catch (error) {
      // The client never learned the URL of a new upload.
      if (method === 'POST' && tusRequest.id !== null) await completion.discard(tusRequest.id, { state: 'terminated' });
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
      if (method === 'OPTIONS') return answerOptions(res, maxBytes);
      try {
        requireUploadHeaders(req);
        if (isStopping) throw stopping();
        await exchange(req, res, method, { id, caller, failure: null });
      } catch (error) {
        if (error instanceof AppError) res.setHeader(PROBLEM_CODE_HEADER, error.code);
        throw error;
      }
    },

    async stats() {
      return { ...stats, over: { ...stats.over }, receiving: bodies.size, open: await uploads.countOpen() };
    },

    start: () => janitor.start(),

    endBodies() {
      isStopping = true;
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

/** Headers of the library's answers that belong to the protocol. */
const PROTOCOL_HEADERS = ['Location', 'Upload-Offset', 'Upload-Length', 'Upload-Defer-Length', 'Upload-Metadata'];

/** Makes the library's server, with the ids, the locks and the ownership checks of this service. */
function createTusServer(parts: {
  uploads: UploadRepository;
  store: UploadStore;
  locker: ReturnType<typeof createUploadLocker>;
  admission: ReturnType<typeof createUploadAdmission>;
  maxBytes: number;
}): { handle(request: Request, tusRequest: TusRequest): Promise<Response> } {
  const { uploads, store, locker, admission, maxBytes } = parts;
  const nextUlid = monotonicFactory();
  const tusRequests = new WeakMap<Request, TusRequest>();
  const tusRequestOf = (request: Request): TusRequest => {
    const found = tusRequests.get(request);
    if (!found) throw new Error('request did not come through Uploads.serve');
    return found;
  };
  const server = new Server({
    path: UPLOADS_PATH,
    datastore: store,
    locker: {
      newLock: (id) => {
        const lock = locker.newLock(id);
        return { lock: lock.lock, unlock: () => store.settled(id).then(lock.unlock) };
      },
    },
    maxSize: maxBytes,
    // Milliseconds to wait for the lock's holder. Short, because only bytes that have already arrived remain to be written.
    lockDrainTimeout: 1,
    namingFunction: (request) => {
      const tusRequest = tusRequestOf(request);
      tusRequest.id = `upl_${nextUlid().toLowerCase()}`;
      return tusRequest.id;
    },
    generateUrl: (_request, { id }) => `${UPLOADS_PATH}/${id}`,
    getFileIdFromRequest: (request) => tusRequestOf(request).id ?? undefined,
    onIncomingRequest: async (request, id) => {
      if (request.method === 'POST') return;
      const upload = await uploads.find(id);
      if (upload?.projectId !== tusRequestOf(request).caller.projectId) throw noSuchUpload();
    },
    onUploadCreate: async (request, upload) => {
      // The row must exist before the library locks the upload: the lock is in the row.
      const { id, metadata = null, size: length = null } = upload;
      await admission.admit({ id, metadata, length, ...tusRequestOf(request).caller });
      return {};
    },
    onResponseError: (request, error) => {
      tusRequestOf(request as Request).failure = error;
      return undefined;
    },
  });
  return {
    handle(request, tusRequest) {
      tusRequests.set(request, tusRequest);
      return server.handleWeb(request);
    },
  };
}

async function failureOf(response: Response, { failure }: TusRequest, maxBytes: number): Promise<unknown> {
  if (failure !== null) return uploadProblem(failure, maxBytes);
  // The library refuses bad headers itself, with one line of text.
  const name = /^Invalid ([a-z-]+)/.exec(await response.text())?.[1];
  if (name === 'content-type') return badContentType();
  return badHeader(name ?? 'tus-resumable', 'does not follow the tus protocol');
}

/** Adds the headers of the upload's state to those of the library. */
function addOutcome(res: ServerResponse, upload: UploadRecord | null): void {
  if (upload?.state === 'open') res.setHeader('Upload-Expires', new Date(upload.expiresAtMs).toUTCString());
  if (upload?.state !== 'accepted' || upload.mediaId === null) return;
  res.setHeader(MEDIA_ID_HEADER, upload.mediaId);
  res.setHeader(MEDIA_CREATED_HEADER, String(upload.mediaCreated ?? false));
}

function answerOptions(res: ServerResponse, maxBytes: number): void {
  res.setHeader('Tus-Version', TUS_VERSION);
  res.setHeader('Tus-Extension', TUS_EXTENSIONS.join(','));
  res.setHeader('Tus-Max-Size', maxBytes);
  res.statusCode = 204;
  res.end();
}

function stopping(): AppError {
  const detail = 'The service is stopping. The bytes that arrived are kept. Continue the upload in a moment.';
  return new AppError('unavailable', detail, { headers: { 'Retry-After': '2' } });
}
