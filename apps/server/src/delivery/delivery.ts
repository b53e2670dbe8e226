import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { type AnswerSink, type Fields, sinkOf } from '../http/answer-sink.ts';
import { type AnswerPlan, chooseRepresentation, planAnswer, type Refusal } from './answer-plan.ts';
import { createDiskFolder, type DiskFolder } from './cache/disk/disk-folder.ts';
import { createMemoryTier, type MemoryTier } from './cache/memory/memory-tier.ts';
import { createPinnedMemory, type PinnedMemory } from './cache/memory/pinned-memory.ts';
import { type CacheDecision, type FoundObject, HIT, ObjectCache } from './cache/object-cache.ts';
import type { ObjectReader } from './cache/object-reader.ts';
import { createDeliveryProbe } from './delivery-probe.ts';
import { methodNotAllowed, objectCorrupt, originFailed, resolverFailed } from './delivery-problems.ts';
import type { ObjectOrigin } from './object-origin.ts';
import { type PurgeScope, purge } from './purge-scope.ts';
import { cacheHeaders, ownedObjectOf, type Representation, toObject } from './representation.ts';
import type { RequestLog } from './request-log.ts';
import { requestPath } from './request-path.ts';
import type { Resolver, Resource } from './resolver.ts';
import { respondFromMemory, respondFromReader, respondWithoutBody } from './respond.ts';
import { ObjectDamagedError, type VerifiedRun } from './verified-body.ts';

/** Delivers renditions and manifests of one region. */
export interface Delivery {
  /**
   * Answers a GET or HEAD at once if the path is cached and still valid, and the content is in memory.
   * @param extra header fields of this answer only: a flat list of names and values
   * @returns the status of the answer; null: nothing was sent, and the request is one for {@link handle}
   */
  answerFromMemory(request: RequestHead, sink: AnswerSink, extra?: Fields): 200 | 206 | 304 | null;
  /** Checks whether cached paths are still valid. False: no check is needed. */
  refresh(): Promise<void> | false;
  /**
   * Answers a request for a path under `/media`. The path is matched byte for byte: it is neither decoded nor normalised.
   * Takes plain `node:http`, so that it needs no framework around it.
   * @throws AppError before anything is sent; a later failure closes the connection
   */
  handle(request: IncomingMessage, response: ServerResponse, extra?: Fields): Promise<void>;
  /**
   * Sends another point of presence the bytes at a path, with preconditions and ranges. This is no delivery and is not logged.
   * @throws AppError as {@link handle} does; `not_found` also for a path with content negotiation
   */
  handleObject(request: IncomingMessage, response: ServerResponse, path: string): Promise<void>;
  /** Drops deleted, changed or purged content from every tier. */
  purge(scope: PurgeScope): void;
  /** Purges one media object. */
  evict(mediaId: string): void;
  /** Resolves if a request could be answered: paths can be resolved, and the most recently delivered object still exists. */
  probe(): Promise<void>;
  /** Starts the reading threads, so that the first miss does not wait. */
  warmUp(): void;
  /** Ends the fetches in progress and closes files. */
  stop(): Promise<void>;
  readonly stats: DeliveryStats;
}

/** Counters since the start, and the state of the tiers. */
export interface DeliveryStats {
  hits: number;
  misses: number;
  /** Answers from out-of-date content, because the origin did not answer. */
  stale: number;
  /** Requests refused because the database, the storage or the origin does not answer. */
  unavailable: number;
  /** Misses that shared the read of another one. */
  collapsed: number;
  /** Bytes of bodies handed to the system. */
  bytesSent: number;
  /** Reads of the origin; misses at the same time share one. */
  storeReads: number;
  /** Objects or pieces that were missing, or differed from their recorded digest. */
  damagedObjects: number;
  memoryBytes: number;
  memoryEntries: number;
  memoryMaxBytes: number;
  memoryEvictions: number;
  /** Bytes of pieces that slow readers hold in memory, evicted ones included. */
  pinnedBytes: number;
  /** The figures of the cache folder are 0 if objects are read directly from the store's folder. */
  diskBytes: number;
  diskEntries: number;
  diskMaxBytes: number;
  diskEvictions: number;
  /** Whether the cache folder cannot be written, so that fetched objects are delivered without being stored. */
  diskFailing: boolean;
}

/** Bytes of memory that slow readers may hold. Beyond this, bodies are read from the disk piece by piece. */
const PINNED_BYTES = 64 * 1024 * 1024;
const NO_FIELDS: Fields = [];
const MISS: CacheDecision = { cacheStatus: 'MISS', stored: false, collapsed: false };
/** A manifest that was made for this request and is now cached. */
const MADE: CacheDecision = { cacheStatus: 'MISS', stored: true, collapsed: false };

export interface DeliveryParts {
  resolver: Resolver;
  origin: ObjectOrigin;
  /** Folder for objects of a remote origin; null: they are held in memory only. */
  diskCache: { dir: string; maxBytes: number } | null;
  /** Code of this point of presence. */
  region: string;
  memoryCacheBytes: number;
  pinnedBytes?: number;
  /** Stores digests of pieces that were not known, so that no process has to compute them again. */
  keepDigests: (sha256: string, pieces: Buffer) => Promise<void>;
  requestLog: Pick<RequestLog, 'record'>;
  logger: Pick<Logger, 'error' | 'warn' | 'info'>;
}

/** The parts of an answer that are not in its plan. */
interface AnswerContext {
  path: string;
  choose: (resource: Resource) => Representation | Refusal;
  extra: Fields;
  /** Called when the head of the answer is sent. */
  onBegin: (plan: AnswerPlan, decision: CacheDecision) => void;
}

/** Makes {@link Delivery}. Every answer is planned from the headers, then its bytes are found, then it is sent. */
export function createDelivery(parts: DeliveryParts): Delivery {
  const { resolver, origin, region, requestLog, logger } = parts;
  const memory = createMemoryTier(parts.memoryCacheBytes);
  const folder: DiskFolder | null =
    parts.diskCache &&
    createDiskFolder({
      ...parts.diskCache,
      isInMemory: (sha256) => memory.has(sha256),
      onGone: (mediaId, sha256) => objects.closeFile(mediaId, sha256),
      logger,
    });
  const pinned = createPinnedMemory(parts.pinnedBytes ?? PINNED_BYTES);
  const objects = new ObjectCache({ ...parts, folder, memory, pinned });
  const probe = createDeliveryProbe({ resolver, origin });
  const counters = { hits: 0, misses: 0, stale: 0, unavailable: 0, bytesSent: 0 };

  /** Counts and logs a delivery, by the decision that its headers report. */
  const record = (path: string, { resource, representation }: AnswerPlan, { cacheStatus }: CacheDecision): void => {
    resource.used = true;
    if (cacheStatus === 'HIT') counters.hits += 1;
    else counters.misses += 1;
    if (resource.staleS !== undefined) counters.stale += 1;
    requestLog.record({ region, path, bytes: representation.bytes, cacheStatus, atMs: Date.now() });
  };

  const sendFound = (sink: AnswerSink, plan: AnswerPlan, found: FoundNow, extra: Fields): void => {
    const answer = { plan, cacheStatus: cacheStatusOf(region, plan, found), extra };
    if (found.body === null) respondWithoutBody(sink, answer);
    else counters.bytesSent += respondFromMemory(sink, answer, found.body, pinned);
  };

  const sendRead = async (response: ServerResponse, plan: AnswerPlan, found: FoundReader, context: AnswerContext) => {
    const { path, extra, onBegin } = context;
    const answer = { plan, cacheStatus: cacheStatusOf(region, plan, found), extra };
    let isBegun = false;
    try {
      counters.bytesSent += await respondFromReader(response, answer, found.body, () => {
        isBegun = true;
        onBegin(plan, found);
      });
    } catch (error) {
      if (!isBegun) throw error;
      // Once the head is sent, only closing the connection can report the failure.
      logger.error({ err: error, path }, 'delivery broke off; connection closed');
      response.destroy();
    }
  };

  /** Finds the bytes of an answer and sends it. */
  const send = async (response: ServerResponse, plan: AnswerPlan, context: AnswerContext): Promise<void> => {
    let found: FoundNow | FoundObject | null = findInMemory(objects, plan);
    const owned = ownedObjectOf(plan.representation);
    if (owned && found === null) {
      found = await objects.fetch(owned, plan.span);
      found = isAllowed(pinned, found) ? found : await objects.open(owned, plan.span);
    }
    if (found === null) throw new Error('A representation has no source.');
    const { body } = found;
    if (isReader(body)) {
      if (response.destroyed) body.close();
      else await sendRead(response, plan, { ...found, body }, context);
    } else if (!response.destroyed) {
      sendFound(sinkOf(response), plan, { ...found, body }, context.extra);
      context.onBegin(plan, found);
    }
  };

  const resolve = async (path: string): Promise<Resource> => {
    const known = resolver.resolve(path);
    return known instanceof Promise ? known.catch(resolverFailed) : known;
  };

  /** Answers a request. If the object is damaged, its path is resolved once more, because its row may have changed. */
  const answer = async (request: IncomingMessage, response: ServerResponse, context: AnswerContext): Promise<void> => {
    for (let isRetry = false; ; isRetry = true) {
      const plan = planFor(request, await resolve(context.path), context.choose);
      if ('refusal' in plan) throw plan.refusal;
      try {
        await send(response, plan, context);
        return;
      } catch (error) {
        if (!(error instanceof ObjectDamagedError)) throw originFailed(error);
        if (isRetry) throw objectCorrupt(error);
        resolver.forget(context.path);
      }
    }
  };

  return {
    answerFromMemory(request, sink, extra = NO_FIELDS) {
      if (request.method !== 'GET' && request.method !== 'HEAD') return null;
      const path = requestPath(request);
      const resource = resolver.peek(path);
      if (resource === null) return null;
      const plan = planFor(request, resource, (known) => chooseRepresentation(known, request));
      if ('refusal' in plan) return null;
      const found = findInMemory(objects, plan);
      if (found === null) return null;
      sendFound(sink, plan, found, extra);
      record(path, plan, found);
      return plan.status;
    },

    refresh: resolver.refresh,

    async handle(request, response, extra = NO_FIELDS) {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed();
      const path = requestPath(request);
      await answer(request, response, {
        path,
        choose: (resource) => chooseRepresentation(resource, request),
        extra,
        onBegin(plan, decision) {
          probe.note(path, plan.representation);
          record(path, plan, decision);
        },
      }).catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'unavailable') counters.unavailable += 1;
        throw error;
      });
    },

    async handleObject(request, response, path) {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed();
      await answer(request, response, { path, choose: chooseOnlyObject, extra: NO_FIELDS, onBegin: () => undefined });
    },

    purge: (scope) => purge({ resolver, objects }, scope),
    evict: (mediaId) => purge({ resolver, objects }, { mediaId }),
    probe: probe.run,
    warmUp: () => objects.warmUp(),

    async stop() {
      await objects.stop();
      await folder?.stop();
    },

    get stats() {
      return {
        ...counters,
        collapsed: objects.collapsed,
        storeReads: objects.reads,
        damagedObjects: objects.damaged,
        pinnedBytes: pinned.bytes,
        ...memoryStats(memory),
        ...folderStats(folder),
      };
    },
  };
}

function memoryStats({ bytes, entries, maxBytes, evictions }: MemoryTier) {
  return { memoryBytes: bytes, memoryEntries: entries, memoryMaxBytes: maxBytes, memoryEvictions: evictions };
}

function folderStats(folder: DiskFolder | null) {
  return {
    diskBytes: folder?.bytes ?? 0,
    diskEntries: folder?.entries ?? 0,
    diskMaxBytes: folder?.maxBytes ?? 0,
    diskEvictions: folder?.evictions ?? 0,
    diskFailing: folder?.failing ?? false,
  };
}

/** An answer that can be sent at once; `body` null: without content. */
type FoundNow = CacheDecision & { readonly body: VerifiedRun | null };
type FoundReader = CacheDecision & { readonly body: ObjectReader };

function isReader(body: ObjectReader | VerifiedRun | null): body is ObjectReader {
  return body !== null && 'read' in body;
}

function planFor(
  request: RequestHead,
  resource: Resource,
  choose: (resource: Resource) => Representation | Refusal,
): AnswerPlan | Refusal {
  const chosen = choose(resource);
  return 'refusal' in chosen ? chosen : planAnswer(request, resource, chosen);
}

/** The synchronous case of finding an answer: no body, a manifest, or an object in memory. Null: it has to be read. */
function findInMemory(
  objects: Pick<ObjectCache, 'hit' | 'holds'>,
  { hasBody, representation, resource, span }: AnswerPlan,
): FoundNow | null {
  const { source } = representation;
  const owned = ownedObjectOf(representation);
  if (owned === null || source.kind === 'made') {
    const body = hasBody && source.kind === 'made' ? { start: 0, pieces: [source.body] } : null;
    return { body, ...(resource.used ? HIT : MADE) };
  }
  if (!hasBody) return { body: null, ...(objects.holds(owned) ? HIT : MISS) };
  const body = objects.hit(owned, span);
  return body ? { body, ...HIT } : null;
}

/** Whether an answer may hold these bytes in memory: other requests may have used up the budget while this one waited. */
function isAllowed(pinned: PinnedMemory, { body }: FoundObject): boolean {
  return isReader(body) || pinned.allows(body.pieces);
}

/** The header fields `Cache-Status` and `Age`. */
function cacheStatusOf(region: string, { resource, representation }: AnswerPlan, decision: CacheDecision): Fields {
  const { staleS, ageS } = resource;
  if (ageS !== undefined) return ['Age', String(ageS), ...cacheHeaders(region, decision, staleS)];
  return decision.cacheStatus === 'HIT' ? representation.headers.hitStatus : cacheHeaders(region, decision);
}

function chooseOnlyObject({ representations, negotiated }: Resource): Representation | Refusal {
  const [only] = representations;
  if (only && !negotiated) return toObject(only);
  return {
    refusal: new AppError('not_found', 'This path has several representations. Request one of them by its extension.'),
  };
}
