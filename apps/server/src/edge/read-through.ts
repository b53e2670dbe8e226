import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { READ_API_PREFIX } from '@mds/contract';
import type { Express, Request } from 'express';
import { LRUCache } from 'lru-cache';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { type Answer, makeAnswer, sendAnswer } from '../http/answer.ts';
import { allowEveryOrigin } from '../http/cors.ts';
import { methodNotAllowed } from '../http/methods.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../http/request-id.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import type { OriginConnection } from './origin-connection.ts';
import { originAway } from './origin-problem.ts';

/** Read-API answers of the origin, kept as their Cache-Control allows (RFC 9111). */
export interface ReadThrough {
  handle(req: Request, res: ServerResponse): Promise<void>;
  /** Has answers whose path begins like this asked for anew before they are used again. */
  outdate(pathPrefix: string): void;
}

const MAX_BYTES = 16 * 1024 * 1024;
/** Estimate of what an entry takes beside body and key. */
const ENTRY_BYTES = 1024;
/** How long beyond its lifetime an answer stands in for an origin that is away (RFC 9111, 4.2.4). */
const DISCONNECTED_MS = 86_400_000;

interface Kept {
  answer: Answer;
  link: string | undefined;
  /** Of the origin's own answer, to ask whether it still holds. */
  originEtag: string | undefined;
  /** Of the monotonic clock: when the answer was made, as far as its Age tells (4.2.3). */
  bornAtMs: number;
  lifetimeMs: number;
  mayBeStale: boolean;
  outdated: boolean;
}

/** What the origin said that is not to be kept. */
interface Passed {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** How the cache took part, in the words of RFC 9211. */
type Course = 'uri-miss' | 'stale' | null;

export function createReadThrough(deps: {
  origin: OriginConnection;
  region: RegionIdentity;
  monotonicNow?: () => number;
}): ReadThrough {
  const { origin, region, monotonicNow = () => performance.now() } = deps;
  const kept = new LRUCache<string, Kept>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ answer }, key) => answer.body.length + 2 * key.length + ENTRY_BYTES,
  });
  const asking = new Map<string, Promise<Kept | Passed>>();

  const ask = async (key: string, req: IncomingMessage, before: Kept | undefined): Promise<Kept | Passed> => {
    const askedAtMs = monotonicNow();
    const { status, headers, body } = await origin.fetch({
      target: req.url ?? '/',
      authorize: false,
      headers: {
        accept: 'application/json',
        // The project hangs on it.
        ...(req.headers.host === undefined ? {} : { host: req.headers.host }),
        [REQUEST_ID_HEADER]: requestIdOf(req),
        ...(before?.originEtag === undefined ? {} : { 'if-none-match': before.originEtag }),
      },
    });
    const caching = readCacheControl(headers['cache-control']);
    // Asked before the answer was made, so that it is taken for rather too old (4.2.3).
    const bornAtMs = askedAtMs - Number(headers.age ?? 0) * 1000;
    if (status === 304 && before) {
      const renewed = { ...before, bornAtMs, lifetimeMs: caching.lifetimeMs ?? before.lifetimeMs, outdated: false };
      kept.set(key, renewed);
      return renewed;
    }
    if (status !== 200 || caching.lifetimeMs === null) {
      kept.delete(key);
      return { status, headers, body };
    }
    const fresh: Kept = {
      answer: localise(req, {
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
    kept.set(key, fresh);
    return fresh;
  };

  /** The index tells which region answered; that is this one. */
  const localise = (req: IncomingMessage, answer: Answer): Answer => {
    if (pathOf(req) !== READ_API_PREFIX) return answer;
    const index = JSON.parse(answer.body.toString()) as Record<string, unknown>;
    return makeAnswer({ body: JSON.stringify({ ...index, region: region.name }), cacheControl: answer.cacheControl });
  };

  const askOnce = (key: string, req: IncomingMessage, before: Kept | undefined): Promise<Kept | Passed> => {
    const begun = asking.get(key);
    if (begun !== undefined) return begun;
    const mine = ask(key, req, before).finally(() => asking.delete(key));
    asking.set(key, mine);
    return mine;
  };

  const ageMs = (entry: Kept) => Math.max(0, monotonicNow() - entry.bornAtMs);

  const send = (req: IncomingMessage, res: ServerResponse, entry: Kept, course: Course) => {
    const age = Math.floor(ageMs(entry) / 1000);
    const ttl = Math.ceil((entry.lifetimeMs - ageMs(entry)) / 1000);
    res.setHeader('Age', age);
    res.setHeader('Cache-Status', `${region.code}; ${course === null ? `hit; ttl=${ttl}` : `fwd=${course}; stored`}`);
    if (entry.link !== undefined) res.setHeader('Link', entry.link);
    sendAnswer(req, res, entry.answer);
  };

  return {
    async handle(req, res) {
      if (req.method !== 'GET' && req.method !== 'HEAD') throw methodNotAllowed(req, 'GET, HEAD');
      const key = `${req.headers.host ?? ''} ${req.url}`;
      const before = kept.get(key);
      if (before && !before.outdated && ageMs(before) < before.lifetimeMs) {
        send(req, res, before, null);
        return;
      }
      let found: Kept | Passed;
      try {
        found = await askOnce(key, req, before);
      } catch (error) {
        if (!(error instanceof OriginUnavailableError)) throw error;
        if (!before?.mayBeStale || ageMs(before) > before.lifetimeMs + DISCONNECTED_MS) throw originAway(error);
        send(req, res, before, null);
        return;
      }
      if ('answer' in found) send(req, res, found, before ? 'stale' : 'uri-miss');
      else pass(res, found, region.code);
    },

    outdate(pathPrefix) {
      for (const [key, entry] of kept.entries()) {
        if (key.slice(key.indexOf(' ') + 1).startsWith(pathPrefix)) entry.outdated = true;
      }
      // What is under way may be from before; it belongs to those who wait for it, and to nobody after them.
      for (const [key, answer] of asking) {
        const outdateIt = (found: Kept | Passed) => {
          if ('answer' in found) found.outdated = true;
        };
        if (key.slice(key.indexOf(' ') + 1).startsWith(pathPrefix)) answer.then(outdateIt, () => undefined);
      }
    },
  };
}

/** Mounts {@link ReadThrough} for what no route before it has answered under `/api`. */
export function mountReadThrough(app: Express, readThrough: ReadThrough): void {
  app.use((req, res, next) => {
    if (req.path !== '/api' && !req.path.startsWith('/api/')) {
      next();
      return;
    }
    allowEveryOrigin(req, res, () => void readThrough.handle(req, res).catch(next));
  });
}

/** An answer that is nobody's but this caller's: as the origin gave it. */
function pass(res: ServerResponse, { status, headers, body }: Passed, region: string): void {
  for (const name of ['content-type', 'cache-control', 'retry-after', 'allow', 'link', 'etag']) {
    const value = headers[name];
    if (value !== undefined) res.setHeader(name, value);
  }
  res.setHeader('Cache-Status', `${region}; fwd=uri-miss`);
  res.statusCode = status;
  res.setHeader('Content-Length', body.length);
  res.end(body);
}

function pathOf(req: IncomingMessage): string {
  return (req.url ?? '/').replace(/\?.*$/s, '').replace(/(?<=.)\/$/, '');
}

/** What a shared cache may do by a Cache-Control field (RFC 9111, 5.2.2). `lifetimeMs` null: not keep it. */
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
