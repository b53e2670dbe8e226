import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { MediaRepository } from '../db/media-repository.ts';
import { AppError } from '../http/app-error.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { chooseByAccept } from './accept.ts';
import { planAnswer } from './answer-plan.ts';
import { createMemoryTier } from './memory-tier.ts';
import { createObjectCache, type FoundObject } from './object-cache.ts';
import { OPEN_TO_ALL, type Representation } from './representation.ts';
import type { RequestLog } from './request-log.ts';
import { requestPath } from './request-path.ts';
import { createResolver, type Resource } from './resolver.ts';
import {
  type CacheDecision,
  respondPreconditionFailed,
  respondToOptions,
  respondWithBody,
  respondWithoutBody,
} from './respond.ts';
import { ObjectDamagedError } from './verified-body.ts';

/** Delivers renditions and manifests of one region. */
export interface Delivery {
  /**
   * Answers a request for a path under `/media`, by the request's own bytes: nothing is decoded or normalised before.
   * Plain `node:http`, so that it needs no framework around it.
   * @throws AppError before anything is sent; afterwards a failure ends the connection
   */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Lets go of a medium that was deleted or changed by this process: the next answer looks it up anew. */
  evict(mediaId: string): void;
  /** Resolves when a request could be answered: the rows can be read, and the object delivered last is still there. */
  probe(): Promise<void>;
  readonly stats: DeliveryStats;
}

/** Counters since the start, and the state of the memory tier. */
export interface DeliveryStats {
  hits: number;
  misses: number;
  /** Bytes of bodies handed over to clients. */
  bytesSent: number;
  /** Reads of the object store; misses that came at the same time share one. */
  storeReads: number;
  /** Objects found missing or not what was recorded. */
  damagedObjects: number;
  memoryBytes: number;
  memoryEntries: number;
  memoryMaxBytes: number;
}

/**
 * @param deps.region code of the point of presence that answers
 * @param deps.publicUrl base address of the URLs in manifests; a function where it is known only later. Without it they are paths
 */
export function createDelivery(deps: {
  media: Pick<MediaRepository, 'find' | 'findRendition' | 'renditions' | 'version'>;
  store: Pick<ObjectStore, 'readAll' | 'localFile' | 'stat'>;
  region: string;
  memoryCacheBytes: number;
  requestLog: Pick<RequestLog, 'record'>;
  publicUrl?: string | (() => string);
  logger: Pick<Logger, 'error'>;
}): Delivery {
  const { media, store, region, requestLog, publicUrl = '', logger } = deps;
  const memory = createMemoryTier(deps.memoryCacheBytes);
  const objects = createObjectCache({ store, memory, logger });
  const resolver = createResolver({
    media,
    region,
    publicUrl: () => (typeof publicUrl === 'function' ? publicUrl() : publicUrl).replace(/\/+$/, ''),
  });
  let hits = 0;
  let misses = 0;
  let bytesSent = 0;
  let latest: Representation | null = null;

  /** The one place where a delivery is counted, by the decision that its headers have told. */
  const count = (path: string, { bytes }: Representation, { cacheStatus }: CacheDecision) => {
    if (cacheStatus === 'HIT') hits += 1;
    else misses += 1;
    requestLog.record({ region, path, bytes, cacheStatus, atMs: Date.now() });
  };

  const choose = ({ representations, negotiated }: Resource, accept: string | undefined): Representation => {
    const chosen = negotiated ? chooseByAccept(representations, accept) : representations[0];
    if (chosen) return chosen;
    // RFC 9110, 15.5.7. Sending a format that the client has ruled out would only fail later, and further from the cause.
    const types = representations.map(({ contentType }) => contentType).join(', ');
    throw new AppError('not_acceptable', `Accept allows none of the formats that there are: ${types}.`, {
      headers: { ...OPEN_TO_ALL, Vary: 'Accept' },
    });
  };

  /** How the cache takes part in an answer that needs no bytes. */
  const decideWithoutBody = ({ source }: Representation, resource: Resource): CacheDecision => {
    const held = source.kind === 'made' ? resource.used : objects.holds(source.object);
    return { cacheStatus: held ? 'HIT' : 'MISS', stored: held || source.kind === 'made', collapsed: false };
  };

  const find = (representation: Representation, resource: Resource): FoundObject | Promise<FoundObject> => {
    const { source } = representation;
    if (source.kind === 'made') return { body: source.body, ...decideWithoutBody(representation, resource) };
    const body = objects.hit(source.object);
    if (body) return { body, cacheStatus: 'HIT', stored: true, collapsed: false };
    return objects.fetch(source.object);
  };

  /** Answers from the cache or the store. Null: the object was gone or another one, and its row deserves a second look. */
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    resource: Resource,
  ): Promise<ObjectDamagedError | null> => {
    const representation = choose(resource, request.headers.accept);
    const plan = planAnswer(request.method ?? 'GET', request.headers, representation);
    if (plan.status === 412) {
      respondPreconditionFailed(response, representation);
      return null;
    }
    if (plan.status === 416) throw rangeNotSatisfiable(representation);
    if (plan.status === 304 || request.method === 'HEAD') {
      const decision = decideWithoutBody(representation, resource);
      respondWithoutBody(response, plan.status === 304 ? 304 : 200, representation, { ...decision, region });
      resource.used = true;
      count(path, representation, decision);
      return null;
    }

    let found: FoundObject;
    try {
      const finding = find(representation, resource);
      found = finding instanceof Promise ? await finding : finding;
    } catch (error) {
      if (error instanceof ObjectDamagedError) return error;
      throw asUnavailable(error, 'The object storage does not answer.');
    }
    if (response.destroyed) {
      if (!Buffer.isBuffer(found.body)) await found.body.close();
      return null;
    }
    resource.used = true;
    latest = representation;
    const sending = respondWithBody(response, representation, plan.status === 206 ? plan.ranges : null, found, region);
    count(path, representation, found);
    try {
      bytesSent += typeof sending === 'number' ? sending : await sending;
    } catch (error) {
      logger.error({ err: error, path }, 'A delivery broke off half-way; its connection is closed.');
      response.destroy();
    }
    return null;
  };

  return {
    async handle(request, response) {
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        if (request.method !== 'OPTIONS') throw methodNotAllowed();
        respondToOptions(response);
        return;
      }
      const path = requestPath(request);
      const known = resolver.resolve(path);
      const damage = await answer(request, response, path, known instanceof Promise ? await awaitRows(known) : known);
      if (damage === null) return;
      // The row may have been deleted or written anew since it was read: then that is the answer.
      resolver.forget(path);
      const damageAgain = await answer(request, response, path, await awaitRows(resolver.resolve(path)));
      if (damageAgain) throw objectCorrupt(damageAgain);
    },

    evict(mediaId) {
      for (const { source } of resolver.forgetMedium(mediaId)) {
        if (source.kind === 'object') objects.drop(source.object);
      }
    },

    async probe() {
      await media.version();
      if (latest?.source.kind !== 'object') return;
      const { key, bytes } = latest.source.object;
      const stat = await store.stat(key);
      if (stat?.bytes === bytes) return;
      // Deleted since, most likely.
      const stillThere = await media.find(latest.mediaId);
      latest = null;
      if (stillThere) throw new Error('An object that was delivered a while ago is missing from the object store.');
    },

    get stats() {
      return {
        hits,
        misses,
        bytesSent,
        storeReads: objects.reads,
        damagedObjects: objects.damaged,
        memoryBytes: memory.bytes,
        memoryEntries: memory.entries,
        memoryMaxBytes: memory.maxBytes,
      };
    },
  };
}

/** Waits for a look into the database; where that fails, the caller may come again. */
async function awaitRows<T>(looking: T | Promise<T>): Promise<T> {
  try {
    return await looking;
  } catch (error) {
    throw asUnavailable(error, 'The database does not answer.');
  }
}

function methodNotAllowed(): AppError {
  return new AppError(
    'method_not_allowed',
    'Renditions can be read with GET and HEAD. Changes go to the control API.',
    {
      headers: { ...OPEN_TO_ALL, Allow: 'GET, HEAD, OPTIONS' },
    },
  );
}

function rangeNotSatisfiable({ bytes, etag }: Representation): AppError {
  return new AppError('range_not_satisfiable', `The representation has ${bytes} bytes; ask for a range within them.`, {
    headers: { ...OPEN_TO_ALL, 'Content-Range': `bytes */${bytes}`, ETag: etag },
  });
}

function objectCorrupt(cause: ObjectDamagedError): AppError {
  return new AppError(
    'object_corrupt',
    'The stored object is missing or damaged, so that it is not delivered. The operator can have it made again by retrying ' +
      'or re-rendering the medium.',
    { cause, headers: OPEN_TO_ALL },
  );
}

function asUnavailable(cause: unknown, what: string): unknown {
  if (cause instanceof AppError) return cause;
  return new AppError('unavailable', `${what} Ask again in a few seconds.`, {
    cause,
    headers: { ...OPEN_TO_ALL, 'Retry-After': '5' },
  });
}
