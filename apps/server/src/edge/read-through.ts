import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { api, READ_API_PREFIX } from '@mds/contract';
import type { Express, Request } from 'express';
import { AppError } from '../base/app-error.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { type Answer, JSON_CONTENT_TYPE, makeAnswer, sendAnswer } from '../http/answer.ts';
import { metadataOf, routesOf } from '../http/contract-routes.ts';
import { allowEveryOrigin } from '../http/cors.ts';
import { hostName } from '../http/current-project.ts';
import { methodNotAllowed } from '../http/methods.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../http/request-id.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import type { OriginConnection } from './origin-connection.ts';
import { originAway, problemIn } from './origin-problem.ts';
import { createReadCache } from './read-cache.ts';

/** Answers of the origin's read API, cached as their Cache-Control allows (RFC 9111). */
export interface ReadThrough {
  /** Answers a request for a resource of the contract. */
  handle(req: Request, res: ServerResponse, resource: ReadResource): Promise<void>;
  /** Answers whose path has this prefix must be confirmed before they are used again. */
  outdate(pathPrefix: string): void;
  readonly stats: ReadThroughStats;
}

/** Together with Host, this selects an answer. Other query parameters are ignored, here as at the origin. */
export interface ReadResource {
  path: string;
  /** Names of its query parameters. */
  query: readonly string[];
}

/** Counters since the start. */
export interface ReadThroughStats {
  hits: number;
  misses: number;
  /** Answered from an outdated entry, as the origin did not answer. */
  stale: number;
  /** Refused because the origin did not answer. */
  unavailable: number;
}

/** Estimated size of an entry without body and key. */
const ENTRY_BYTES = 1024;
/** How long after its lifetime an answer is used while the origin is away (RFC 9111, 4.2.4). */
const DISCONNECTED_MS = 86_400_000;

interface CachedAnswer {
  answer: Answer;
  link: string | undefined;
  /** The entity tag of the origin's answer, to revalidate it. */
  originEtag: string | undefined;
  /** When the answer was made, by its Age, on the monotonic clock (4.2.3). */
  bornAtMs: number;
  lifetimeMs: number;
  mayBeStale: boolean;
  outdated: boolean;
}

/** An answer of the origin that must not be stored. */
interface UncachedAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** How the cache handled a request, in the terms of RFC 9211. */
type CacheCourse = 'uri-miss' | 'stale' | null;

export function createReadThrough(deps: {
  origin: OriginConnection;
  region: RegionIdentity;
  monotonicNow?: () => number;
}): ReadThrough {
  const { origin, region, monotonicNow = () => performance.now() } = deps;
  const cache = createReadCache<CachedAnswer>(({ answer }, key) => answer.body.length + 2 * key.length + ENTRY_BYTES);
  const asking = new Map<string, Promise<CachedAnswer | UncachedAnswer>>();
  const stats: ReadThroughStats = { hits: 0, misses: 0, stale: 0, unavailable: 0 };

  const ask = async (
    key: string,
    target: string,
    req: IncomingMessage,
    before: CachedAnswer | undefined,
  ): Promise<CachedAnswer | UncachedAnswer> => {
    const askedAtMs = monotonicNow();
    const { status, headers, body } = await origin.fetch({
      target,
      authorize: false,
      headers: {
        accept: 'application/json',
        // It selects the project.
        ...(req.headers.host === undefined ? {} : { host: req.headers.host }),
        [REQUEST_ID_HEADER]: requestIdOf(req),
        ...(before?.originEtag ? { 'if-none-match': before.originEtag } : {}),
      },
    });
    const caching = readCacheControl(headers['cache-control']);
    // The time of the request, so that the age is rather too high (4.2.3).
    const bornAtMs = askedAtMs - Number(headers.age ?? 0) * 1000;
    if (status === 304 && before?.originEtag) {
      const renewed = { ...before, bornAtMs, lifetimeMs: caching.lifetimeMs ?? before.lifetimeMs, outdated: false };
      cache.set(key, renewed);
      return renewed;
    }
    if (!isFromService({ status, headers, body }, target)) {
      throw new OriginUnavailableError(
        `The program at the origin's address is no media delivery service: it answers ${status}.`,
      );
    }
    if (status >= 500) return { status, headers, body };
    if (status !== 200 || caching.lifetimeMs === null) {
      cache.delete(key);
      return { status, headers, body };
    }
    const fresh: CachedAnswer = {
      answer: withRegion(region.name, target, {
        status,
        contentType: headers['content-type'] ?? 'application/json',
        cacheControl: headers['cache-control'] ?? '',
        body,
        etag: headers.etag ?? null,
      }),
      link: headers.link as string | undefined,
      originEtag: headers.etag,
      lifetimeMs: caching.lifetimeMs,
      mayBeStale: caching.mayBeStale,
      outdated: false,
      bornAtMs,
    };
    cache.set(key, fresh);
    return fresh;
  };

  const askOnce = (
    key: string,
    target: string,
    req: IncomingMessage,
    before: CachedAnswer | undefined,
  ): Promise<CachedAnswer | UncachedAnswer> => {
    const begun = asking.get(key);
    if (begun !== undefined) return begun;
    const mine = ask(key, target, req, before).finally(() => asking.delete(key));
    asking.set(key, mine);
    return mine;
  };

  const ageMs = (entry: CachedAnswer) => Math.max(0, monotonicNow() - entry.bornAtMs);

  const send = (req: IncomingMessage, res: ServerResponse, entry: CachedAnswer, course: CacheCourse) => {
    const age = Math.floor(ageMs(entry) / 1000);
    const ttl = Math.ceil((entry.lifetimeMs - ageMs(entry)) / 1000);
    res.setHeader('Age', age);
    res.setHeader('Cache-Status', `${region.code}; ${course === null ? `hit; ttl=${ttl}` : `fwd=${course}; stored`}`);
    if (entry.link !== undefined) res.setHeader('Link', entry.link);
    sendAnswer(req, res, entry.answer);
  };

  return {
    async handle(req, res, resource) {
      if (req.method !== 'GET' && req.method !== 'HEAD') throw methodNotAllowed(req, 'GET, HEAD');
      const target = targetOf(req, resource);
      const key = `${hostName(req.headers.host ?? '')} ${target}`;
      const before = cache.get(key);
      if (before && !before.outdated && ageMs(before) < before.lifetimeMs) {
        stats.hits += 1;
        send(req, res, before, null);
        return;
      }
      if (wantsOnlyCached(req)) throw notCached();
      const standIn = before?.mayBeStale && ageMs(before) <= before.lifetimeMs + DISCONNECTED_MS ? before : null;
      const sendStale = (entry: CachedAnswer) => {
        stats.stale += 1;
        send(req, res, entry, null);
      };
      let found: CachedAnswer | UncachedAnswer;
      try {
        found = await askOnce(key, target, req, before);
      } catch (error) {
        if (!(error instanceof OriginUnavailableError)) throw error;
        if (standIn !== null) {
          sendStale(standIn);
          return;
        }
        stats.unavailable += 1;
        throw originAway(error);
      }
      if ('answer' in found) {
        stats.misses += 1;
        send(req, res, found, before ? 'stale' : 'uri-miss');
      } else if (found.status >= 500 && standIn !== null) sendStale(standIn);
      else {
        stats.misses += 1;
        pass(res, found, region.code);
      }
    },

    outdate(pathPrefix) {
      for (const [key, entry] of cache.entries()) {
        if (key.slice(key.indexOf(' ') + 1).startsWith(pathPrefix)) entry.outdated = true;
      }
      // Answers in progress may predate the event. Only the requests that wait for them may use them.
      for (const [key, answer] of asking) {
        const outdateIt = (found: CachedAnswer | UncachedAnswer) => {
          if ('answer' in found) found.outdated = true;
        };
        if (key.slice(key.indexOf(' ') + 1).startsWith(pathPrefix)) answer.then(outdateIt, () => undefined);
      }
    },

    get stats() {
      return { ...stats };
    },
  };
}

/**
 * Mounts {@link ReadThrough} for every resource of the contract without an earlier route. Other paths do not exist at the origin either, so
 * it is not asked for them.
 */
export function mountReadThrough(app: Express, readThrough: ReadThrough): void {
  app.use('/api', allowEveryOrigin);
  for (const route of routesOf(api.read)) {
    const resource = { path: route.path, query: metadataOf(route).query ?? [] };
    app.all(route.path, (req, res, next) => void readThrough.handle(req, res, resource).catch(next));
  }
}

/** The path, and its known parameters in a fixed order. A repeated parameter stays repeated, so that the origin refuses it. */
function targetOf({ url = '' }: IncomingMessage, { path, query }: ReadResource): string {
  const at = url.indexOf('?');
  if (at < 0 || query.length === 0) return path;
  const given = new URLSearchParams(url.slice(at + 1));
  const known = new URLSearchParams();
  for (const name of query) for (const value of given.getAll(name)) known.append(name, value);
  return known.size === 0 ? path : `${path}?${known}`;
}

/** Whether the caller forbids asking the origin (`only-if-cached`; RFC 9111, 5.2.1.7). */
function wantsOnlyCached({ headers }: IncomingMessage): boolean {
  return /(?:^|,)\s*only-if-cached\s*(?:,|$)/i.test(headers['cache-control'] ?? '');
}

function notCached(): AppError {
  return new AppError(
    'not_held',
    'This point of presence holds no valid answer, and only-if-cached forbids asking its origin. Ask without it.',
  );
}

/** Whether a media delivery service gives such an answer to a read; 304 only if the request had an entity tag. */
function isFromService({ status, headers, body }: UncachedAnswer, target: string): boolean {
  if (status !== 200) return problemIn({ status, body }, target) !== null;
  if (!headers['content-type']?.startsWith(JSON_CONTENT_TYPE)) return false;
  try {
    const document: unknown = JSON.parse(body.toString());
    return typeof document === 'object' && document !== null;
  } catch {
    return false;
  }
}

/** The index names the region that answers: this one. */
function withRegion(region: string, target: string, answer: Answer): Answer {
  if (target !== READ_API_PREFIX) return answer;
  const index = JSON.parse(answer.body.toString()) as Record<string, unknown>;
  return makeAnswer({ body: JSON.stringify({ ...index, region }), cacheControl: answer.cacheControl });
}

/** Passes an answer of the origin on, for this caller only. */
function pass(res: ServerResponse, { status, headers, body }: UncachedAnswer, region: string): void {
  for (const name of ['content-type', 'cache-control', 'retry-after', 'allow', 'link', 'etag']) {
    const value = headers[name];
    if (value !== undefined) res.setHeader(name, value);
  }
  res.setHeader('Cache-Status', `${region}; fwd=uri-miss`);
  res.statusCode = status;
  res.setHeader('Content-Length', body.length);
  res.end(body);
}

/** The rights of a shared cache by Cache-Control (RFC 9111, 5.2.2). `lifetimeMs` is null if it must not store. */
function readCacheControl(field: string | undefined): { lifetimeMs: number | null; mayBeStale: boolean } {
  const directives = new Map(
    (field ?? '').split(',').map((directive) => {
      const [name = '', value = ''] = directive.trim().split('=');
      return [name.toLowerCase(), value.replaceAll('"', '')] as const;
    }),
  );
  const seconds = directives.get('s-maxage') ?? directives.get('max-age');
  const isForbidden = ['no-store', 'private'].some((name) => directives.has(name));
  const mayBeStale = !['no-cache', 'must-revalidate', 'proxy-revalidate', 's-maxage'].some((name) =>
    directives.has(name),
  );
  if (isForbidden || seconds === undefined || !/^\d{1,10}$/.test(seconds)) return { lifetimeMs: null, mayBeStale };
  return { lifetimeMs: directives.has('no-cache') ? 0 : Number(seconds) * 1000, mayBeStale };
}
