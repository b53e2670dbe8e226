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
import { type CacheDecision, respondWithBody, respondWithoutBody } from './respond.ts';
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
  media: Pick<MediaRepository, 'find' | 'findRendition' | 'findFile' | 'renditions' | 'version'>;
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
  const count = (path: string, resource: Resource, { bytes }: Representation, { cacheStatus }: CacheDecision) => {
    resource.used = true;
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

  /** Sees a body out that is sent from a file; what goes wrong now can only be told by cutting the connection. */
  const finish = async (response: ServerResponse, path: string, sending: Promise<number>) => {
    try {
      bytesSent += await sending;
    } catch (error) {
      logger.error({ err: error, path }, 'A delivery broke off half-way; its connection is closed.');
      response.destroy();
    }
  };

  return {
    async handle(request, response) {
      const { method, headers } = request;
      if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed();
      const path = requestPath(request);
      for (let secondLook = false; ; secondLook = true) {
        const known = resolver.resolve(path);
        const resource = known instanceof Promise ? await known.catch(databaseFailed) : known;
        const representation = choose(resource, headers.accept);
        const plan = planAnswer(method, headers, representation);
        if (plan.status === 412) throw preconditionFailed(representation);
        if (plan.status === 416) throw rangeNotSatisfiable(representation);
        if (plan.status === 304 || method === 'HEAD') {
          const decision = decideWithoutBody(representation, resource);
          respondWithoutBody(response, plan.status === 304 ? 304 : 200, representation, { ...decision, region });
          count(path, resource, representation, decision);
          return;
        }

        const finding = find(representation, resource);
        const found = finding instanceof Promise ? await finding.catch(storeFailed) : finding;
        if (found instanceof ObjectDamagedError) {
          if (secondLook) throw objectCorrupt(found);
          // The row may have been deleted or written anew since it was read: then that is the answer.
          resolver.forget(path);
          continue;
        }
        if (response.destroyed) {
          if (!Buffer.isBuffer(found.body)) await found.body.close();
          return;
        }
        if (representation.source.kind === 'object') latest = representation;
        const ranges = plan.status === 206 ? plan.ranges : null;
        const sending = respondWithBody(response, representation, ranges, found, region);
        count(path, resource, representation, found);
        if (typeof sending === 'number') bytesSent += sending;
        else await finish(response, path, sending);
        return;
      }
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
      const rows = await media.renditions(latest.mediaId);
      if (rows.some(({ objectKey }) => objectKey === key)) {
        throw new Error('An object that was delivered a while ago is missing from the object store.');
      }
      // It was deleted since.
      latest = null;
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

function methodNotAllowed(): AppError {
  return new AppError(
    'method_not_allowed',
    'Renditions can be read with GET and HEAD. Changes go to the control API.',
    {
      headers: { ...OPEN_TO_ALL, Allow: 'GET, HEAD' },
    },
  );
}

function preconditionFailed({ etag }: Representation): AppError {
  return new AppError(
    'precondition_failed',
    'The rendition is not, or no longer, the one that If-Match or If-Unmodified-Since names. GET it to see what it is now.',
    { headers: { ...OPEN_TO_ALL, ETag: etag } },
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
    'The stored object is missing or damaged, so that it is not delivered. The operator can have it made again: mds doctor --repair.',
    { cause, headers: OPEN_TO_ALL },
  );
}

function unavailable(what: string, cause: unknown): AppError {
  return new AppError('unavailable', `${what} Ask again in a few seconds.`, {
    cause,
    headers: { ...OPEN_TO_ALL, 'Retry-After': '5' },
  });
}

function databaseFailed(error: unknown): never {
  throw error instanceof AppError ? error : unavailable('The database does not answer.', error);
}

/** An object that is not what was recorded is a finding; everything else is a failure of the storage. */
function storeFailed(error: unknown): ObjectDamagedError {
  if (error instanceof ObjectDamagedError) return error;
  throw error instanceof AppError ? error : unavailable('The object storage does not answer.', error);
}
