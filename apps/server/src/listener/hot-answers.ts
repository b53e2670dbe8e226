import type { IncomingMessage, ServerResponse } from 'node:http';
import { READ_API_PREFIX } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { VersionScope } from '../db/changes.ts';
import type { Versions } from '../db/versions.ts';
import { type Answer, matchesEtag, onAnswer, whenAnswered } from '../http/answer.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { type AnswerSink, type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import { REQUEST_ID_HEADER } from '../http/request-id.ts';
import type { RouteFigures } from './request-figures.ts';

/** Requests for ever new pages evict pages that were requested once. Pages requested often stay. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_ENTRIES = 2_000;
/** An answer is never older than this: it contains more than the database has (measured states, formats). */
const MAX_AGE_MS = 1_000;
/**
 * The database's version is trusted for this time after it was read. Writes of other processes must show within a second. This is far
 * less, and yet a busy server asks its database 200 times a second instead of 30,000 times.
 */
const VERSION_AGE_MS = 5;
/** Estimated size of an entry beside its body: key, fields, record. */
const ENTRY_BYTES = 2 * 1024;

/** The state that an answer was made from. The answer is valid while nothing has been written since. */
interface Basis {
  stamp: number;
  version: number;
  /** Monotonic time at which the making began. */
  atMs: number;
}

interface StoredAnswer {
  scope: VersionScope;
  basis: Basis;
  etag: string;
  body: readonly [Buffer];
  /** Whether it was sent from here, or others waited for it. */
  isWanted: boolean;
  full: PreparedFields;
  notModified: PreparedFields;
  figures: Record<'GET' | 'HEAD', RouteFigures>;
}

/** The status of an answer from memory, and the figures that count it. */
export interface HotlyAnswered {
  status: 200 | 304;
  figures: RouteFigures;
}

/** Read-API answers that are still valid, sent without being made again. No endpoint knows of it. */
export interface HotAnswers {
  /** Whether the answer to a request could be stored at all. */
  concerns(req: RequestHead): boolean;
  /**
   * Finds out whether anything has been written. False: that is known already. Rejects if the database does not answer.
   * @param nowMs monotonic time
   */
  refresh(req: RequestHead, nowMs: number): Promise<void> | false;
  /** Sends a stored answer, 304 and HEAD included. Null: there is no valid one, and nothing was sent. */
  answer(req: RequestHead, sink: AnswerSink, requestId: string, nowMs: number): HotlyAnswered | null;
  /**
   * For a request without a valid stored answer. Resolves when the request that makes the answer has done so, or has failed.
   * Null: there is none, and this request is now the one that makes it.
   */
  join(req: IncomingMessage, res: ServerResponse): Promise<void> | null;
  /** Whether an answer will serve more than one request if it is made again: the last one did, or others waited for it. */
  isWanted(req: RequestHead): boolean;
  /** Stores the answer that is about to be made, if it may be stored. */
  keep(req: IncomingMessage, res: ServerResponse, nowMs: number): void;
  readonly entries: number;
  readonly bytes: number;
}

/**
 * Makes {@link HotAnswers}. An answer is valid if this process's stamp and the database's version, for its scope, are unchanged since
 * before it was made, and if it is at most a second old. So a write shows in the next answer of this process, and within a second in
 * every other.
 *
 * If requests miss at the same time, one makes the answer and the others wait for it, so that a page in demand is made once. If
 * something is written meanwhile, later requests cannot use that answer. They wait once more, for one that began after they arrived.
 * A page that was never stored may not be storable, so each request makes it for itself.
 */
export function createHotAnswers(parts: {
  versions: Versions;
  figuresOf: (method: string, route: string) => RouteFigures;
  maxBytes?: number;
  maxEntries?: number;
}): HotAnswers {
  const { versions, figuresOf } = parts;
  const stored = new LRUCache<string, StoredAnswer>({
    max: parts.maxEntries ?? MAX_ENTRIES,
    maxSize: parts.maxBytes ?? MAX_BYTES,
    sizeCalculation: ({ body: [bytes] }, key) => bytes.length + 2 * key.length + ENTRY_BYTES,
  });
  const known = createKnownVersions(versions);
  const makers = createMakers();
  /** Reused for each request: only the id changes. */
  const also = [REQUEST_ID_HEADER, ''];

  /** Stores an answer that was made from a basis. */
  const store = (
    key: string,
    req: IncomingMessage,
    res: ServerResponse,
    answer: Answer,
    basisOf: (scope: VersionScope) => Basis | null,
  ) => {
    const route = routeOf(req);
    if (route === null || answer.status !== 200 || answer.etag === null) return;
    if (!answer.cacheControl.startsWith('public')) return;
    const scope = scopeOf(route);
    const basis = basisOf(scope);
    if (basis === null) return;
    const always = [...headersOf(res), 'Cache-Control', answer.cacheControl, 'ETag', answer.etag];
    const length = String(answer.body.length);
    stored.set(key, {
      ...{ scope, basis, etag: answer.etag, body: [answer.body], isWanted: makers.isAwaited(key, req) },
      full: prepareFields([...always, 'Content-Type', answer.contentType, 'Content-Length', length]),
      notModified: prepareFields(always),
      figures: { GET: figuresOf('GET', route), HEAD: figuresOf('HEAD', route) },
    });
  };

  return {
    concerns,
    // Without a stored answer its scope is not known, and most answers have this one.
    refresh: (req, nowMs) => known.refresh(stored.peek(keyOf(req))?.scope ?? 'others', nowMs),

    answer(req, sink, requestId, nowMs) {
      const answer = stored.get(keyOf(req));
      if (answer === undefined) return null;
      // An answer begun after the request came contains everything that was written before.
      const isNewer = answer.basis.atMs >= nowMs;
      if (!isNewer && !known.isCurrent(answer, nowMs)) return null;
      answer.isWanted = true;
      const isHead = req.method === 'HEAD';
      const status = matchesEtag(req.headers['if-none-match'], answer.etag) ? 304 : 200;
      const fields = status === 304 ? answer.notModified : answer.full;
      also[1] = requestId;
      sink.send(status, fields, also, status === 304 || isHead ? [] : answer.body);
      return { status, figures: answer.figures[isHead ? 'HEAD' : 'GET'] };
    },

    join(req, res) {
      const key = keyOf(req);
      const made = makers.join(key);
      if (made !== null) return made;
      // The others need not wait until a slow client has read this answer: it is stored when it begins to go out.
      if (stored.has(key)) whenAnswered(res, makers.begin(key, req));
      return null;
    },

    isWanted: (req) => stored.peek(keyOf(req))?.isWanted ?? false,

    keep(req, res, nowMs) {
      const before = known.basisAt(nowMs);
      if (before === null) return;
      // Express changes the URL of a request on its way.
      const key = keyOf(req);
      onAnswer(res, (answer) => store(key, req, res, answer, before));
    },

    get entries() {
      return stored.size;
    },

    get bytes() {
      return stored.calculatedSize;
    },
  };
}

/** The stamps of this process and the versions of the database, as they were at the same time. */
function createKnownVersions(versions: Versions) {
  let known: (Record<VersionScope, Basis> & { atMs: number }) | null = null;
  let reading: { atMs: number; done: Promise<void> } | null = null;
  /** The reading that begins when the current one has ended. */
  let nextReading: Promise<void> | null = null;

  const isFresh = (scope: VersionScope, nowMs: number) =>
    known !== null && nowMs - known.atMs <= VERSION_AGE_MS && known[scope].stamp === versions.stamp(scope);

  const read = async (atMs: number): Promise<void> => {
    const stamp = { assets: versions.stamp('assets'), others: versions.stamp('others') };
    try {
      const version = await versions.read();
      const basisOf = (scope: VersionScope): Basis => ({ stamp: stamp[scope], version: version[scope], atMs });
      known = { atMs, assets: basisOf('assets'), others: basisOf('others') };
    } finally {
      reading = null;
    }
  };

  const beginReading = (): Promise<void> => {
    const atMs = performance.now();
    // Begun in a microtask, because `read` may end before it returns, and `reading` must be set before.
    const done = Promise.resolve(atMs).then(read);
    reading = { atMs, done };
    return done;
  };

  return {
    refresh(scope: VersionScope, nowMs: number): Promise<void> | false {
      if (isFresh(scope, nowMs)) return false;
      if (reading === null) return beginReading();
      if (nowMs - reading.atMs <= VERSION_AGE_MS) return reading.done;
      // The current reading is too old for this request. If it fails, the requests that wait for it handle that.
      nextReading ??= reading.done
        .catch(() => undefined)
        .then(() => {
          nextReading = null;
          return reading?.done ?? beginReading();
        });
      return nextReading;
    },

    isCurrent({ scope, basis }: Pick<StoredAnswer, 'scope' | 'basis'>, nowMs: number): boolean {
      if (known === null || !isFresh(scope, nowMs) || nowMs - basis.atMs > MAX_AGE_MS) return false;
      return basis.stamp === known[scope].stamp && basis.version === known[scope].version;
    },

    /**
     * The basis of an answer that is made from now on, by its scope. An older version is good enough: at worst the answer counts as
     * older than it is. Null: nothing is known.
     */
    basisAt(nowMs: number): ((scope: VersionScope) => Basis | null) | null {
      const before = known;
      if (before === null || before.others.stamp !== versions.stamp('others')) return null;
      const assetStamp = versions.stamp('assets');
      return (scope) =>
        scope === 'assets' && before.assets.stamp !== assetStamp ? null : { ...before[scope], atMs: nowMs };
    },
  };
}

/** The requests that make an answer for others. */
function createMakers() {
  const makers = new Map<string, { by: IncomingMessage; done: Promise<void>; isAwaited: boolean }>();
  return {
    /** Resolves when the answer is made. Null: no request makes it. */
    join(key: string): Promise<void> | null {
      const maker = makers.get(key);
      if (maker === undefined) return null;
      maker.isAwaited = true;
      return maker.done;
    },

    /** Whether others wait for the answer that a request makes. */
    isAwaited(key: string, by: IncomingMessage): boolean {
      const maker = makers.get(key);
      return maker?.by === by && maker.isAwaited;
    },

    /** @returns the function to call when the answer is made or has failed */
    begin(key: string, by: IncomingMessage): () => void {
      let resolve = (): void => undefined;
      const done = new Promise<void>((whenDone) => {
        resolve = whenDone;
      });
      const maker = { by, done, isAwaited: false };
      makers.set(key, maker);
      return () => {
        if (makers.get(key) === maker) makers.delete(key);
        resolve();
      };
    },
  };
}

/** Whether a request is a plain GET or HEAD of the read API, whose answer may be stored. */
function concerns({ method, url = '', headers, httpVersion }: RequestHead): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  if (!url.startsWith(READ_API_PREFIX)) return false;
  // HTTP/1.1 without Host is refused (RFC 9112, 3.2).
  if (headers.host === undefined && httpVersion === '1.1') return false;
  return (
    headers.authorization === undefined &&
    headers.range === undefined &&
    headers.expect === undefined &&
    headers['transfer-encoding'] === undefined &&
    (headers['content-length'] === undefined || headers['content-length'] === '0')
  );
}

/** The scope of the versions that the answers of a route depend on. */
function scopeOf(route: string): VersionScope {
  return route === `${READ_API_PREFIX}/assets` ? 'assets' : 'others';
}

/** The target as received, and Host, which selects the project. Neither contains a blank. */
function keyOf({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  return `${headers.host ?? ''} ${url}`;
}

/** The route that Express matched. */
function routeOf(req: IncomingMessage & { route?: { path?: unknown } }): string | null {
  return typeof req.route?.path === 'string' ? req.route.path : null;
}

/** The fields that were set, as a flat list, without the request id. */
function headersOf(res: ServerResponse): string[] {
  // Every OutgoingMessage has it (Node 15.4), but the types only declare it for requests.
  const { getRawHeaderNames } = res as unknown as { getRawHeaderNames(): string[] };
  return getRawHeaderNames.call(res).flatMap((name) => {
    const value = res.getHeader(name);
    if (name === REQUEST_ID_HEADER || value === undefined) return [];
    return (Array.isArray(value) ? value : [value]).flatMap((each) => [name, String(each)]);
  });
}
