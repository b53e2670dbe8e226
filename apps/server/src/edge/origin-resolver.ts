import { createHash } from 'node:crypto';
import { CONTROL_API_PREFIX, EdgeResource, parseDeliveryPath } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import { noSuchPath } from '../delivery/absence.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { createRepresentation, type Representation } from '../delivery/representation.ts';
import type { Resolver, Resource } from '../delivery/resolver.ts';
import { madeHere } from '../delivery/verified-body.ts';
import { AppError } from '../http/app-error.ts';
import type { OriginConnection } from './origin-connection.ts';
import { errorFromOrigin, originAway } from './origin-problem.ts';

/** Room for what is known of paths. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Estimate of what a representation takes beside a made body and its digests. */
const REPRESENTATION_BYTES = 3 * 1024;
/** What is not there is not asked for again within this time, as clients are told, too. */
const ABSENT_MS = 5_000;
const MAX_ABSENT = 10_000;
/** With something older at hand, the origin has this long to answer. */
const PATIENCE_MS = 2_000;

/** {@link Resolver} over HTTP. */
export interface OriginResolver extends Resolver {
  /** Has everything confirmed before it is used again: events may have been missed. */
  outdateAll(): void;
  /** Has what is known of a medium confirmed before it is used again: it has changed. */
  outdateMedium(mediaId: string): void;
}

interface Known {
  resource: Resource;
  /** The origin's answer, to tell whether a later one says anything new. */
  wire: string;
  /** Of the monotonic clock; -Infinity: has to be confirmed before it is used. */
  confirmedAtMs: number;
  /** When the origin last stood by it, whatever happened since. */
  knownAtMs: number;
  maxAgeMs: number;
  staleIfErrorMs: number;
  bytes: number;
}

/**
 * What a path stands for, as the origin says. The rule, in one place: while the stream of events is up to date, what is known is used
 * until an event speaks of it, and confirmed behind the answer where that is longer ago than the origin wishes. While it is not, what
 * was confirmed within that time is used, and everything else is confirmed first; where the origin does not answer, what was known
 * stands in for as long as the origin allowed (RFC 5861, 4).
 * @param deps.isFollowing whether every event up to now was heard
 */
export function createOriginResolver(deps: {
  origin: OriginConnection;
  region: string;
  publicUrl: () => string;
  isFollowing: () => boolean;
  monotonicNow?: () => number;
}): OriginResolver {
  const { origin, region, publicUrl, isFollowing, monotonicNow = () => performance.now() } = deps;
  const known = new LRUCache<string, Known>({ maxSize: MAX_BYTES, sizeCalculation: ({ bytes }) => bytes });
  const absent = new LRUCache<string, { error: AppError; atMs: number }>({ max: MAX_ABSENT });
  /** Lookups under way; one during which an event spoke of its medium says what was, and is not kept. */
  const lookups = new Map<string, { answer: Promise<Resource>; outdated: boolean }>();

  const ask = async (path: string): Promise<EdgeResource> => {
    const query = new URLSearchParams({ path, base_url: publicUrl() });
    const answer = await origin.fetch({ target: `${CONTROL_API_PREFIX}/edges/${region}/resource?${query}` });
    if (answer.status !== 200) throw errorFromOrigin(answer);
    const parsed = EdgeResource.safeParse(readJson(answer.body));
    if (parsed.success) return parsed.data;
    throw new OriginUnavailableError('The origin answers with what this version does not understand.', {
      cause: parsed.error,
    });
  };

  const keep = (path: string, answer: EdgeResource, outdated: boolean): Resource => {
    const wire = createHash('sha256').update(JSON.stringify(answer)).digest('base64');
    const before = known.get(path);
    const resource = before?.wire === wire ? before.resource : toResource(answer, region);
    const now = monotonicNow();
    const bytes = answer.representations.reduce(
      (sum, { content, pieces }) => sum + REPRESENTATION_BYTES + (content?.length ?? 0) + (pieces?.length ?? 0),
      0,
    );
    if (!outdated) {
      absent.delete(path);
      known.set(path, {
        ...{ resource, wire, bytes, confirmedAtMs: now, knownAtMs: now },
        maxAgeMs: answer.max_age_s * 1000,
        staleIfErrorMs: answer.stale_if_error_s * 1000,
      });
    }
    return resource;
  };

  const lookUp = (path: string): Promise<Resource> => {
    const begun = lookups.get(path);
    if (begun && !begun.outdated) return begun.answer;
    const mine: { answer: Promise<Resource>; outdated: boolean } = {
      answer: Promise.resolve(null as never),
      outdated: false,
    };
    mine.answer = ask(path)
      .then(
        (answer) => keep(path, answer, mine.outdated),
        (error: unknown) => {
          if (error instanceof AppError && error.status === 404 && !mine.outdated) {
            known.delete(path);
            absent.set(path, { error, atMs: monotonicNow() });
          }
          throw error;
        },
      )
      .finally(() => {
        if (lookups.get(path) === mine) lookups.delete(path);
      });
    lookups.set(path, mine);
    return mine.answer;
  };

  const lookUpOrStale = async (path: string, entry: Known): Promise<Resource> => {
    const answer = lookUp(path);
    try {
      return await Promise.race([answer, patience()]);
    } catch (error) {
      // It may still come, and be kept then.
      answer.catch(() => undefined);
      const isAway = error instanceof OriginUnavailableError || (error instanceof AppError && error.status >= 500);
      if (isAway && monotonicNow() - entry.knownAtMs < entry.maxAgeMs + entry.staleIfErrorMs) return stale(entry);
      throw error instanceof OriginUnavailableError ? originAway(error) : error;
    }
  };

  /** Says of itself how long it has been out of date, and stays the same otherwise: what is prepared with it is used. */
  const stale = ({ resource, knownAtMs, maxAgeMs }: Known): Resource => ({
    ...resource,
    staleS: Math.max(0, Math.ceil((monotonicNow() - knownAtMs - maxAgeMs) / 1000)),
  });

  const outdateLookups = (concerns: (path: string) => boolean) => {
    for (const [path, lookup] of lookups) if (concerns(path)) lookup.outdated = true;
  };

  /** Not forgotten: it stands in where the origin goes away before it could be asked. */
  const outdate = (concerns: (path: string) => boolean) => {
    for (const [path, entry] of known.entries()) {
      if (concerns(path)) entry.confirmedAtMs = Number.NEGATIVE_INFINITY;
    }
    for (const path of absent.keys()) if (concerns(path)) absent.delete(path);
    outdateLookups(concerns);
  };

  return {
    resolve(path) {
      const entry = known.get(path);
      const now = monotonicNow();
      if (entry) {
        const ageMs = now - entry.confirmedAtMs;
        if (ageMs <= entry.maxAgeMs) return entry.resource;
        if (ageMs === Number.POSITIVE_INFINITY || !isFollowing()) return lookUpOrStale(path, entry);
        // What it finds shows in the next answer; what it fails with is tried again by then.
        if (origin.isUp) lookUp(path).catch(() => undefined);
        return entry.resource;
      }
      const missing = absent.get(path);
      if (missing && now - missing.atMs < ABSENT_MS) return Promise.reject(missing.error);
      if (parseDeliveryPath(path) === null) return Promise.reject(noSuchPath());
      return lookUp(path).catch((error: unknown) => {
        throw error instanceof OriginUnavailableError ? originAway(error) : error;
      });
    },

    // When an entry was confirmed stands in the entry.
    refresh: () => false,

    peek(path) {
      const entry = known.get(path);
      if (!entry) return null;
      // What would be confirmed behind the answer takes the other way, which does so.
      return monotonicNow() - entry.confirmedAtMs <= entry.maxAgeMs ? entry.resource : null;
    },

    forget(path) {
      known.delete(path);
      absent.delete(path);
      outdateLookups((other) => other === path);
    },

    forgetMedium(mediaId) {
      const isOfMedium = (path: string) => parseDeliveryPath(path)?.id === mediaId;
      const forgotten: Representation[] = [];
      for (const [path, { resource }] of known.entries()) {
        if (!isOfMedium(path)) continue;
        known.delete(path);
        forgotten.push(...resource.representations);
      }
      for (const path of absent.keys()) if (isOfMedium(path)) absent.delete(path);
      outdateLookups(isOfMedium);
      return forgotten;
    },

    forgetAll() {
      known.clear();
      absent.clear();
      outdateLookups(() => true);
    },

    outdateAll: () => outdate(() => true),
    outdateMedium: (mediaId) => outdate((path) => parseDeliveryPath(path)?.id === mediaId),

    async probe() {
      // A node whose origin is away serves what it holds: that is what it is for.
    },
  };
}

function patience(): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(
      () => reject(new OriginUnavailableError(`The origin took longer than ${PATIENCE_MS} ms.`)),
      PATIENCE_MS,
    ).unref();
  });
}

function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    // The schema says what is wrong with it.
    return undefined;
  }
}

/** @throws OriginUnavailableError where content and hash do not belong together */
function toResource({ path, negotiated, representations }: EdgeResource, region: string): Resource {
  return {
    negotiated,
    used: false,
    representations: representations.map((one) => {
      const { sha256, bytes, content, pieces } = one;
      return createRepresentation({
        mediaId: one.media_id,
        contentType: one.content_type,
        updatedAtMs: one.last_modified_ms,
        caching: one.immutable ? 'immutable' : 'current',
        contentLocation: one.content_location,
        ...{ sha256, bytes, region, nowMs: Date.now() },
        source:
          content === null
            ? {
                kind: 'object',
                object: {
                  key: one.content_location ?? path,
                  pieces: pieces === null ? null : Buffer.from(pieces, 'base64'),
                  ...{ sha256, bytes },
                },
              }
            : { kind: 'made', body: madeHere(checked(Buffer.from(content, 'base64'), sha256)) },
      });
    }),
  };
}

function checked(body: Buffer, sha256: string): Buffer {
  if (createHash('sha256').update(body).digest('hex') === sha256) return body;
  throw new OriginUnavailableError('Content from the origin is not what its hash says.');
}
