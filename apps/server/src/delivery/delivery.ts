import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseDeliveryPath } from '@mds/contract';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import { systemCode } from '../base/storage-error.ts';
import type { HotRequest } from '../http/answer-sink.ts';
import { type AnswerSink, type Fields, sinkOf } from '../http/answer-sink.ts';
import { chooseByAccept } from './accept.ts';
import { planAnswer } from './answer-plan.ts';
import type { ByteRange } from './byte-ranges.ts';
import { createDiskFolder } from './cache/disk/disk-folder.ts';
import { createMemoryTier } from './cache/memory/memory-tier.ts';
import { createPinnedMemory } from './cache/memory/pinned-memory.ts';
import { createObjectCache, type FoundObject, type OwnedObject } from './cache/object-cache.ts';
import {
  methodNotAllowed,
  notAcceptable,
  objectCorrupt,
  originFailed,
  preconditionFailed,
  rangeNotSatisfiable,
  resolverFailed,
} from './delivery-problems.ts';
import type { ObjectOrigin } from './object-origin.ts';
import type { PurgeScope } from './purge-scope.ts';
import { asObject, cacheHeaders, type Representation } from './representation.ts';
import type { RequestLog } from './request-log.ts';
import { requestPath } from './request-path.ts';
import type { Resolver, Resource } from './resolver.ts';
import {
  type BodyAnswer,
  type CacheDecision,
  respondFromMemory,
  respondFromReader,
  respondWithoutBody,
} from './respond.ts';
import { ObjectDamagedError } from './verified-body.ts';

/** Delivers renditions and manifests of one region. */
export interface Delivery {
  /**
   * Answers a GET or HEAD for something that is known, valid and in memory, without waiting for anything.
   * @param extra headers of this answer alone: a flat list of names and values
   * @returns the status that it has answered with; null: nothing was sent and {@link handle} is to be asked
   */
  answerHot(request: HotRequest, sink: AnswerSink, extra?: Fields): 200 | 206 | 304 | null;
  /** Finds out whether what is known is still valid, where {@link answerHot} can't tell. False: it can. */
  refresh(): Promise<void> | false;
  /**
   * Answers a request for a path under `/media`, by the request's own bytes: nothing is decoded or normalised before.
   * Plain `node:http`, so that it needs no framework around it.
   * @throws AppError before anything is sent; afterwards a failure ends the connection
   */
  handle(request: IncomingMessage, response: ServerResponse, extra?: Fields): Promise<void>;
  /**
   * Answers another point of presence with the bytes at a path, obeying preconditions and ranges. Not a delivery: not logged.
   * @throws AppError as {@link handle}; `not_found` also for a path at which Accept would choose
   */
  handleObject(request: IncomingMessage, response: ServerResponse, path: string): Promise<void>;
  /** Lets go, in every tier, of what was deleted or changed or is to be fetched anew. */
  purge(what: PurgeScope): void;
  /** `purge` of one media object. */
  evict(mediaId: string): void;
  /** Resolves when a request could be answered: paths can be resolved, and the object delivered last is still there. */
  probe(): Promise<void>;
  /** Has ready what the first miss needs. */
  warmUp(): void;
  /** Ends what is being fetched and closes files. */
  stop(): Promise<void>;
  readonly stats: DeliveryStats;
}

/** Counters since the start, and the state of the tiers. */
export interface DeliveryStats {
  hits: number;
  misses: number;
  /** Those answered with what was out of date, as nobody could say what is true. */
  stale: number;
  /** Requests that were refused because what they need does not answer: the database, the storage or the origin. */
  unavailable: number;
  /** Misses that shared a read with another one. */
  collapsed: number;
  /** Bytes of bodies handed over to clients. */
  bytesSent: number;
  /** Reads of the origin; misses that came at the same time share one. */
  storeReads: number;
  /** Objects, or pieces of them, found missing or not what was recorded. */
  damagedObjects: number;
  memoryBytes: number;
  memoryEntries: number;
  memoryMaxBytes: number;
  memoryEvictions: number;
  /** Of the memory tier, or let go of by it, what readers hold who do not take it. */
  pinnedBytes: number;
  /** The cache folder; zeros where objects are read where they lie. */
  diskBytes: number;
  diskEntries: number;
  diskMaxBytes: number;
  diskEvictions: number;
  /** Whether the cache folder takes no more, so that what is fetched is delivered without being kept. */
  diskFailing: boolean;
}

/** What stalled readers may hold of objects in memory; beyond it bodies go out from the disk, piece by piece. */
const PINNED_BYTES = 64 * 1024 * 1024;
const NOTHING_EXTRA: Fields = [];

/**
 * @param deps.region code of the point of presence that answers
 * @param deps.diskCache folder for objects of an origin that is elsewhere; null: they are kept in memory alone
 */
export function createDelivery(deps: {
  resolver: Resolver;
  origin: ObjectOrigin;
  diskCache: { dir: string; maxBytes: number } | null;
  region: string;
  memoryCacheBytes: number;
  pinnedBytes?: number;
  /** Keeps digests of pieces that were not known, so that no process has to find them out again. */
  keepDigests: (sha256: string, pieces: Buffer) => Promise<void>;
  requestLog: Pick<RequestLog, 'record'>;
  logger: Pick<Logger, 'error' | 'warn' | 'info'>;
}): Delivery {
  const { resolver, origin, region, requestLog, logger, keepDigests } = deps;
  const memory = createMemoryTier(deps.memoryCacheBytes);
  const folder =
    deps.diskCache &&
    createDiskFolder({
      ...deps.diskCache,
      isInMemory: memory.has,
      onGone: (mediaId, sha256) => objects.closeFile(mediaId, sha256),
      logger,
    });
  const pinned = createPinnedMemory(deps.pinnedBytes ?? PINNED_BYTES);
  const objects = createObjectCache({ origin, folder, memory, pinned, keepDigests, logger });
  let hits = 0;
  let misses = 0;
  let stale = 0;
  let unavailableCount = 0;
  let bytesSent = 0;
  let latest: { path: string; owned: OwnedObject } | null = null;

  /** The one place where a delivery is counted, by the decision that its headers have told. */
  const count = (path: string, resource: Resource, { bytes }: Representation, { cacheStatus }: CacheDecision) => {
    resource.used = true;
    if (cacheStatus === 'HIT') hits += 1;
    else misses += 1;
    if (resource.staleS !== undefined) stale += 1;
    requestLog.record({ region, path, bytes, cacheStatus, atMs: Date.now() });
  };

  const choose = ({ representations, negotiated }: Resource, accept: string | undefined): Representation => {
    const chosen = negotiated ? chooseByAccept(representations, accept) : representations[0];
    if (chosen) return chosen;
    throw notAcceptable(representations);
  };

  const ownedOf = ({ mediaId, source }: Representation): OwnedObject | null =>
    source.kind === 'object' ? { mediaId, object: source.object } : null;

  /** How the cache takes part in an answer that needs no bytes. */
  const decideWithoutBody = (representation: Representation, resource: Resource): CacheDecision => {
    const owned = ownedOf(representation);
    const held = owned === null ? resource.used : objects.holds(owned);
    return held ? HIT : owned === null ? MADE : MISS;
  };

  const find = (
    representation: Representation,
    resource: Resource,
    ranges: readonly ByteRange[] | null,
  ): FoundObject | Promise<FoundObject> => {
    const { source, mediaId, bytes } = representation;
    if (source.kind === 'made') return { body: source.body, ...decideWithoutBody(representation, resource) };
    const body = objects.hit(source.object);
    if (body) return { body, ...HIT };
    return objects.fetch({ mediaId, object: source.object }, spanOf(ranges, bytes));
  };

  const statusOf = (decision: CacheDecision, { headers }: Representation, resource: Resource): readonly string[] => {
    const { staleS, ageS } = resource;
    if (ageS !== undefined) return ['Age', String(ageS), ...cacheHeaders(region, decision, staleS)];
    return decision === HIT || decision.cacheStatus === 'HIT' ? headers.hitStatus : cacheHeaders(region, decision);
  };

  const resolve = async (path: string): Promise<Resource> => {
    const known = resolver.resolve(path);
    return known instanceof Promise ? known.catch(resolverFailed) : known;
  };

  /** Sees an answer out that needs bytes. What goes wrong once the head is sent can only be told by cutting the connection. */
  const sendFound = async (
    response: ServerResponse,
    answer: BodyAnswer,
    { body }: FoundObject,
    path: string,
    onBegin: () => void,
  ): Promise<void> => {
    if (Buffer.isBuffer(body)) {
      bytesSent += respondFromMemory(sinkOf(response), answer, body, pinned);
      onBegin();
      return;
    }
    let begun = false;
    try {
      bytesSent += await respondFromReader(response, answer, body, () => {
        begun = true;
        onBegin();
      });
    } catch (error) {
      if (!begun) throw error;
      logger.error({ err: error, path }, 'A delivery broke off half-way; its connection is closed.');
      response.destroy();
    }
  };

  /** Looks up and answers; once more where an object is not what its row says, for the row may have changed since it was read. */
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    as: {
      pick: (resource: Resource) => Representation;
      shape: (representation: Representation) => Representation;
      extra: Fields;
      onAnswer: (resource: Resource, representation: Representation, decision: CacheDecision) => void;
    },
  ): Promise<void> => {
    const { method = 'GET', headers } = request;
    for (let secondLook = false; ; secondLook = true) {
      const resource = await resolve(path);
      const representation = as.pick(resource);
      const plan = planAnswer(method, headers, representation);
      if (plan.status === 412) throw preconditionFailed(representation);
      if (plan.status === 416) throw rangeNotSatisfiable(representation);
      if (plan.status === 304 || method === 'HEAD') {
        const decision = decideWithoutBody(representation, resource);
        const status = plan.status === 304 ? 304 : 200;
        const cacheStatus = statusOf(decision, representation, resource);
        respondWithoutBody(sinkOf(response), status, as.shape(representation), cacheStatus, as.extra);
        as.onAnswer(resource, representation, decision);
        return;
      }
      try {
        const ranges = plan.status === 206 ? plan.ranges : null;
        const finding = find(representation, resource, ranges);
        const nearest = finding instanceof Promise ? await finding : finding;
        const owned = ownedOf(representation);
        // Others may have taken the room while this one waited. From a body that is allowed to its answer nothing waits.
        const tooMuch = owned && Buffer.isBuffer(nearest.body) && !pinned.allows(nearest.body);
        const found = tooMuch ? await objects.open(owned, spanOf(ranges, representation.bytes)) : nearest;
        if (response.destroyed) {
          if (!Buffer.isBuffer(found.body)) found.body.close();
          return;
        }
        const cacheStatus = statusOf(found, representation, resource);
        const shaped = as.shape(representation);
        const body = { representation: shaped, ranges, cacheStatus, extra: as.extra };
        await sendFound(response, body, found, path, () => as.onAnswer(resource, representation, found));
        return;
      } catch (error) {
        if (!(error instanceof ObjectDamagedError)) throw originFailed(error);
        if (secondLook) throw objectCorrupt(error);
        resolver.forget(path);
      }
    }
  };

  const drop = (representations: readonly Representation[]): void => {
    for (const representation of representations) {
      const owned = ownedOf(representation);
      if (owned) objects.drop(owned);
    }
  };

  const purge = (what: PurgeScope): void => {
    if (what === 'everything') {
      resolver.forgetAll();
      objects.clear();
      return;
    }
    if ('mediaId' in what) {
      drop(resolver.forgetMedia(what.mediaId));
      objects.dropMedia(what.mediaId);
      return;
    }
    const known = resolver.forget(what.path);
    drop(known);
    const mediaId = parseDeliveryPath(what.path)?.id;
    if (mediaId === undefined) return;
    if (what.objects) for (const sha256 of what.objects) objects.drop({ mediaId, object: { sha256 } });
    else if (known.length === 0) purge({ mediaId });
  };

  return {
    answerHot(request, sink, extra = NOTHING_EXTRA) {
      const { method } = request;
      if (method !== 'GET' && method !== 'HEAD') return null;
      const path = requestPath(request);
      const resource = resolver.peek(path);
      if (resource === null) return null;
      const { headers } = request;
      const { representations, negotiated } = resource;
      const representation = negotiated ? chooseByAccept(representations, headers.accept) : representations[0];
      if (!representation) return null;
      const plan = planAnswer(method, headers, representation);
      if (plan.status === 412 || plan.status === 416) return null;
      if (plan.status === 304 || method === 'HEAD') {
        const decision = decideWithoutBody(representation, resource);
        const cacheStatus = statusOf(decision, representation, resource);
        const status = plan.status === 304 ? 304 : 200;
        respondWithoutBody(sink, status, representation, cacheStatus, extra);
        count(path, resource, representation, decision);
        return status;
      }
      const { source } = representation;
      const body = source.kind === 'made' ? source.body : objects.hit(source.object);
      if (!body) return null;
      const decision = source.kind === 'made' ? decideWithoutBody(representation, resource) : HIT;
      const ranges = plan.status === 206 ? plan.ranges : null;
      const cacheStatus = statusOf(decision, representation, resource);
      bytesSent += respondFromMemory(sink, { representation, ranges, cacheStatus, extra }, body, pinned);
      count(path, resource, representation, decision);
      return plan.status;
    },

    refresh: resolver.refresh,

    async handle(request, response, extra = NOTHING_EXTRA) {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed();
      const path = requestPath(request);
      await answer(request, response, path, {
        pick: (resource) => choose(resource, request.headers.accept),
        shape: (representation) => representation,
        extra,
        onAnswer(resource, representation, decision) {
          const owned = ownedOf(representation);
          if (owned) latest = { path, owned };
          count(path, resource, representation, decision);
        },
      }).catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'unavailable') unavailableCount += 1;
        throw error;
      });
    },

    async handleObject(request, response, path) {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed();
      await answer(request, response, path, {
        pick({ representations, negotiated }) {
          const [only] = representations;
          if (negotiated || !only)
            throw new AppError('not_found', 'At this path Accept chooses among several objects.');
          return only;
        },
        shape: asObject,
        extra: NOTHING_EXTRA,
        onAnswer: () => undefined,
      });
    },

    purge,
    evict: (mediaId) => purge({ mediaId }),

    async probe() {
      await resolver.probe();
      if (latest === null) return;
      const { path, owned } = latest;
      const local = await origin.localFile(owned.object);
      if (local === null) return;
      try {
        if (await isWhole(local.path, owned.object)) return;
      } finally {
        await local.release();
      }
      // What is known of it may be a few milliseconds old.
      resolver.forget(path);
      const stillThere = await resolve(path).then(
        ({ representations }) => representations.some((one) => ownedOf(one)?.object.key === owned.object.key),
        (error: unknown) => {
          if (error instanceof AppError && error.status === 404) return false;
          throw error;
        },
      );
      if (stillThere) throw new Error('An object that was delivered a while ago is missing from the object store.');
      // It was deleted since.
      latest = null;
    },

    warmUp: objects.warmUp,

    async stop() {
      await objects.stop();
      await folder?.stop();
    },

    get stats() {
      return {
        hits,
        misses,
        stale,
        unavailable: unavailableCount,
        collapsed: objects.collapsed,
        bytesSent,
        storeReads: objects.reads,
        damagedObjects: objects.damaged,
        memoryBytes: memory.bytes,
        memoryEntries: memory.entries,
        memoryMaxBytes: memory.maxBytes,
        memoryEvictions: memory.evictions,
        pinnedBytes: pinned.bytes,
        diskBytes: folder?.bytes ?? 0,
        diskEntries: folder?.entries ?? 0,
        diskMaxBytes: folder?.maxBytes ?? 0,
        diskEvictions: folder?.evictions ?? 0,
        diskFailing: folder?.failing ?? false,
      };
    },
  };
}

const HIT: CacheDecision = { cacheStatus: 'HIT', stored: true, collapsed: false };
const MISS: CacheDecision = { cacheStatus: 'MISS', stored: false, collapsed: false };
/** Made here just now, and kept. */
const MADE: CacheDecision = { cacheStatus: 'MISS', stored: true, collapsed: false };

/** From the first byte that ranges name to the last. */
function spanOf(ranges: readonly ByteRange[] | null, bytes: number): ByteRange {
  if (ranges === null) return { start: 0, end: bytes - 1 };
  let [start, end] = [bytes - 1, 0];
  for (const range of ranges) {
    start = Math.min(start, range.start);
    end = Math.max(end, range.end);
  }
  return { start, end };
}

async function isWhole(path: string, { bytes }: { bytes: number }): Promise<boolean> {
  try {
    return (await stat(path)).size === bytes;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}
