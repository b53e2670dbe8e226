import type { IncomingMessage, ServerResponse } from 'node:http';
import { READ_API_PREFIX } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { VersionScope } from '../db/changes.ts';
import type { Versions } from '../db/versions.ts';
import { matchesEtag, onAnswer, whenAnswered } from '../http/answer.ts';
import type { HotRequest } from '../http/answer-sink.ts';
import { type AnswerSink, type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import { REQUEST_ID_HEADER } from '../http/request-id.ts';
import type { RouteFigures } from './request-figures.ts';

/** What is kept at most. Whoever asks for ever new pages pushes out pages that were asked for once: those asked for often stay. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_ENTRIES = 2_000;
/** An answer is never older than this: it tells of more than the database (states that are measured, formats). */
const MAX_AGE_MS = 1_000;
/**
 * How long the database's version may be relied on after it was read. Writes of other processes have to show within a second; this
 * is far less, and yet a busy server asks its database 200 times a second instead of 30,000 times.
 */
const VERSION_AGE_MS = 5;
/** Estimate of what an entry takes beside its body: key, headers, record. */
const ENTRY_BYTES = 2 * 1024;

/** What an answer was made of: it stands while nothing was written since. */
interface Basis {
  stamp: number;
  version: number;
  /** Of the monotonic clock, when the making began. */
  atMs: number;
}

/** What is known of all that answers are made of; each as it was at the same time. */
type Known = Record<VersionScope, Basis> & { atMs: number };

interface HotAnswer {
  of: VersionScope;
  basis: Basis;
  etag: string;
  body: readonly [Buffer];
  /** It was sent from here. */
  wanted: boolean;
  full: PreparedFields;
  notModified: PreparedFields;
  figures: Record<'GET' | 'HEAD', RouteFigures>;
}

/** An answer that is being made anew. */
interface Making {
  by: IncomingMessage;
  done: Promise<void>;
  end(): void;
  /** Others wait for it. */
  awaited: boolean;
}

/** What was answered, for those who count. */
export interface HotlyAnswered {
  status: 200 | 304;
  figures: RouteFigures;
}

/** Read-API answers that are still valid, sent without making them again. No endpoint knows of it. */
export interface HotAnswers {
  /** Whether a request could have a kept answer at all; everything else takes the long way, and nothing of it is kept. */
  concerns(req: HotRequest): boolean;
  /**
   * Makes sure that it is known whether anything was written since. False: it is; else resolves when it is, and rejects where the
   * database does not answer.
   * @param nowMs of the monotonic clock
   */
  refresh(req: HotRequest, nowMs: number): Promise<void> | false;
  /** Answers at once from what is kept, 304 and HEAD included; null with nothing sent where there is nothing valid. */
  answer(req: HotRequest, sink: AnswerSink, requestId: string, nowMs: number): HotlyAnswered | null;
  /**
   * For a request that nothing valid is kept for. Resolves when the answer that is being made for another is there, or will not be;
   * null: nobody makes it, and this request is the one to do so from now until its answer goes out.
   */
  join(req: IncomingMessage, res: ServerResponse): Promise<void> | null;
  /**
   * Whether an answer that was kept was sent again before it became invalid, or waited for by others: made anew, it will serve more
   * than one.
   */
  isWanted(req: HotRequest): boolean;
  /** Has the answer that is made now kept, if it turns out to be one to keep. */
  keep(req: IncomingMessage, res: ServerResponse, nowMs: number): void;
  readonly entries: number;
  readonly bytes: number;
}

/**
 * {@link HotAnswers}. The rule, for all of them: an answer is valid while this process's stamp and the database's version, of what it
 * tells of, are what they were before it was made, and it is at most a second old. So a write shows in the next answer of this process, and within a
 * second in every other.
 *
 * Of requests that miss at the same time one makes the answer, and the others wait for it: a page that thousands ask for is made once,
 * not as often as it is asked for until it is there. Where something was written after it was begun it is nothing to those who came
 * later than that; they wait once more, for one that was begun after all of them had come. What was never kept before, and may be
 * nothing to keep, each makes for itself.
 */
export function createHotAnswers(parts: {
  versions: Versions;
  figuresOf: (method: string, route: string) => RouteFigures;
  maxBytes?: number;
  maxEntries?: number;
}): HotAnswers {
  const { versions, figuresOf } = parts;
  const kept = new LRUCache<string, HotAnswer>({
    max: parts.maxEntries ?? MAX_ENTRIES,
    maxSize: parts.maxBytes ?? MAX_BYTES,
    sizeCalculation: ({ body: [bytes] }, key) => bytes.length + 2 * key.length + ENTRY_BYTES,
  });
  let known: Known | null = null;
  let reading: { atMs: number; done: Promise<void> } | null = null;
  /** The one that begins when that has ended. */
  let nextReading: Promise<void> | null = null;
  const making = new Map<string, Making>();
  /** The id is written anew for each request. */
  const also = [REQUEST_ID_HEADER, ''];

  const isFresh = (of: VersionScope, nowMs: number) =>
    known !== null && nowMs - known.atMs <= VERSION_AGE_MS && known[of].stamp === versions.stamp(of);

  const read = async (atMs: number) => {
    const stamp = { assets: versions.stamp('assets'), others: versions.stamp('others') };
    try {
      const version = await versions.read();
      const of = (told: VersionScope): Basis => ({ stamp: stamp[told], version: version[told], atMs });
      known = { atMs, assets: of('assets'), others: of('others') };
    } finally {
      reading = null;
    }
  };

  const beginReading = (): Promise<void> => {
    const atMs = performance.now();
    // Only then is it known as one that is under way: it may have ended before `read` returns.
    const done = Promise.resolve(atMs).then(read);
    reading = { atMs, done };
    return done;
  };

  const beginMaking = (by: IncomingMessage, key: string): Making => {
    let resolve = (): void => undefined;
    const done = new Promise<void>((whenDone) => {
      resolve = whenDone;
    });
    const made: Making = {
      ...{ by, done, awaited: false },
      end() {
        if (making.get(key) === made) making.delete(key);
        resolve();
      },
    };
    making.set(key, made);
    return made;
  };

  const stands = ({ of, basis }: HotAnswer, nowMs: number) =>
    basis.stamp === known?.[of].stamp && basis.version === known[of].version && nowMs - basis.atMs <= MAX_AGE_MS;

  return {
    concerns(req) {
      const { method, url = '', headers } = req;
      if (method !== 'GET' && method !== 'HEAD') return false;
      if (!url.startsWith(READ_API_PREFIX)) return false;
      // RFC 9112, 3.2: without Host, HTTP/1.1 is refused.
      if (headers.host === undefined && req.httpVersion === '1.1') return false;
      return (
        headers.authorization === undefined &&
        headers.range === undefined &&
        headers.expect === undefined &&
        headers['transfer-encoding'] === undefined &&
        (headers['content-length'] === undefined || headers['content-length'] === '0')
      );
    },

    refresh(req, nowMs) {
      // Where nothing is kept, nothing has to be fresh.
      if (isFresh(kept.peek(keyOf(req))?.of ?? 'others', nowMs)) return false;
      if (reading === null) return beginReading();
      if (nowMs - reading.atMs <= VERSION_AGE_MS) return reading.done;
      // What that one finds is too old for this request. Whether it fails is the business of those who wait for it.
      nextReading ??= reading.done
        .catch(() => undefined)
        .then(() => {
          nextReading = null;
          return reading?.done ?? beginReading();
        });
      return nextReading;
    },

    answer(req, sink, requestId, nowMs) {
      const answer = kept.get(keyOf(req));
      if (answer === undefined) return null;
      // One that was begun after the request had come tells of all that was written before.
      const isNews = answer.basis.atMs >= nowMs;
      if (!isNews && !(isFresh(answer.of, nowMs) && stands(answer, nowMs))) return null;
      answer.wanted = true;
      const isHead = req.method === 'HEAD';
      const status = matchesEtag(req.headers['if-none-match'], answer.etag) ? 304 : 200;
      const fields = status === 304 ? answer.notModified : answer.full;
      also[1] = requestId;
      sink.send(status, fields, also, status === 304 || isHead ? [] : answer.body);
      return { status, figures: answer.figures[isHead ? 'HEAD' : 'GET'] };
    },

    join(req, res) {
      const key = keyOf(req);
      const made = making.get(key);
      if (made) {
        made.awaited = true;
        return made.done;
      }
      // What was never kept may be nothing to keep: nobody is to wait for that.
      // How long the reader of this one takes is nobody else's business: it is made when it begins to go out, and kept by then.
      if (kept.has(key)) whenAnswered(res, beginMaking(req, key).end);
      return null;
    },

    isWanted(req) {
      return kept.peek(keyOf(req))?.wanted ?? false;
    },

    keep(req, res, nowMs) {
      // A version that was read a while ago will do: at worst the answer counts as older than it is.
      if (known === null || known.others.stamp !== versions.stamp('others')) return;
      const then = known;
      const assetStamp = versions.stamp('assets');
      const key = keyOf(req);
      const underWay = making.get(key);
      const made = underWay?.by === req ? underWay : null;
      onAnswer(res, (answer) => {
        if (answer.status !== 200 || answer.etag === null || !answer.cacheControl.startsWith('public')) return;
        const route = routeOf(req);
        if (route === null) return;
        const of = toldBy(route);
        if (of === 'assets' && then.assets.stamp !== assetStamp) return;
        const basis = { ...then[of], atMs: nowMs };
        const always = [...headersOf(res), 'Cache-Control', answer.cacheControl, 'ETag', answer.etag];
        const length = String(answer.body.length);
        kept.set(key, {
          ...{ of, basis, etag: answer.etag, body: [answer.body], wanted: made?.awaited ?? false },
          full: prepareFields([...always, 'Content-Type', answer.contentType, 'Content-Length', length]),
          notModified: prepareFields(always),
          figures: { GET: figuresOf('GET', route), HEAD: figuresOf('HEAD', route) },
        });
      });
    },

    get entries() {
      return kept.size;
    },

    get bytes() {
      return kept.calculatedSize;
    },
  };
}

/** What the answers of a route tell of. */
function toldBy(route: string): VersionScope {
  return route === `${READ_API_PREFIX}/assets` ? 'assets' : 'others';
}

/** What decides an answer: the target as it came, and Host, by which the project is found. A blank is in neither. */
function keyOf({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  return `${headers.host ?? ''} ${url}`;
}

/** The route that Express found. */
function routeOf(req: IncomingMessage & { route?: { path?: unknown } }): string | null {
  return typeof req.route?.path === 'string' ? req.route.path : null;
}

/** Headers that were set, as a flat list, without the id of the request that they were set for. */
function headersOf(res: ServerResponse): string[] {
  // Every OutgoingMessage has it (Node 15.4); the types give it to requests alone.
  const { getRawHeaderNames } = res as unknown as { getRawHeaderNames(): string[] };
  return getRawHeaderNames.call(res).flatMap((name) => {
    const value = res.getHeader(name);
    if (name === REQUEST_ID_HEADER || value === undefined) return [];
    return (Array.isArray(value) ? value : [value]).flatMap((each) => [name, String(each)]);
  });
}
