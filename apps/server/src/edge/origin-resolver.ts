import { CONTROL_API_PREFIX, EdgeResource, parseDeliveryPath } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import { AppError } from '../base/app-error.ts';
import { noSuchPath } from '../delivery/absence.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import type { Representation } from '../delivery/representation.ts';
import type { Resolver, Resource } from '../delivery/resolver.ts';
import { asStale, type KnownResource, knownResource, withAge } from './known-resource.ts';
import type { OriginConnection } from './origin-connection.ts';
import { absenceIn, originAway } from './origin-problem.ts';
import type { KnownPath, PathJournal } from './path-journal.ts';

/** Room for what is known of paths. */
const MAX_BYTES = 32 * 1024 * 1024;
/** A missing path is not requested from the origin again for this long. Clients get the same time in Cache-Control. */
const ABSENT_MS = 5_000;
const MAX_ABSENT = 10_000;
/** The journal may note a further confirmation this much later; an entry is used for a day. */
const JOURNAL_MS = 10 * 60_000;
/** The origin has this long to answer if a stale entry can be used instead. */
const STALE_AFTER_MS = 2_000;

/** {@link Resolver} over HTTP. */
export interface OriginResolver extends Resolver {
  /** Every entry must be confirmed before it is used again: events may have been missed. */
  outdateAll(): void;
  /** Entries of a media object must be confirmed before they are used again: it has changed. */
  outdateMedia(mediaId: string): void;
  /** Takes over the entries of an earlier process. They must be confirmed before they are used. */
  restore(known: Iterable<KnownPath>): void;
  /** Every entry, the least recently used first. */
  known(): Iterable<KnownPath>;
}

interface OriginResolverParts {
  origin: OriginConnection;
  region: string;
  publicUrl: () => string;
  /** Whether every event up to now was received. */
  isFollowing: () => boolean;
  /** Notes everything that is learned and forgotten. */
  journal: Pick<PathJournal, 'keep' | 'forget' | 'forgetMedia' | 'forgetAll'>;
  monotonicNow?: () => number;
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
}

/**
 * Resolves a path as the origin does. While the event stream is up to date, an entry is used until an event names it. If its last
 * confirmation is older than the origin's max age, it is confirmed in the background. While the stream is not up to date, an entry is used
 * within its max age, and is confirmed first after that. If the origin does not answer, the entry is used for as long as the origin
 * allowed (RFC 5861, 4).
 */
export function createOriginResolver(parts: OriginResolverParts): OriginResolver {
  const { origin, region, publicUrl, isFollowing, journal } = parts;
  const { monotonicNow = () => performance.now(), now: wallNow = Date.now } = parts;
  const known = new LRUCache<string, KnownResource>({ maxSize: MAX_BYTES, sizeCalculation: ({ bytes }) => bytes });
  const absent = new LRUCache<string, { error: AppError; atMs: number }>({ max: MAX_ABSENT });

  const toJournal = ({ answer, knownAtMs }: KnownResource): KnownPath => ({
    at_ms: Math.round(wallNow() - (monotonicNow() - knownAtMs)),
    base_url: publicUrl(),
    resource: answer,
  });

  const lookups = createLookups({
    ask: (path) => askForResource({ origin, region, publicUrl: publicUrl() }, path),

    onFound(path, answer, isOutdated) {
      const before = known.get(path);
      const now = monotonicNow();
      const entry = knownResource(answer, { region, knownAtMs: now, before });
      if (isOutdated) return entry.resource;
      const isWritten = before?.hash === entry.hash && now - before.writtenAtMs < JOURNAL_MS;
      entry.confirmedAtMs = now;
      if (isWritten) entry.writtenAtMs = before.writtenAtMs;
      absent.delete(path);
      known.set(path, entry);
      if (!isWritten) journal.keep(toJournal(entry));
      return entry.resource;
    },

    onAbsent(path, error) {
      if (known.delete(path)) journal.forget(path);
      absent.set(path, { error, atMs: monotonicNow() });
    },
  });

  const lookUpOrUseStale = async (path: string, entry: KnownResource): Promise<Resource> => {
    const answer = lookups.lookUp(path);
    try {
      return await Promise.race([answer, timeUp(STALE_AFTER_MS)]);
    } catch (error) {
      // The answer may still come, and is stored then.
      answer.catch(() => undefined);
      const isAway = error instanceof OriginUnavailableError;
      const now = monotonicNow();
      if (isAway && now - entry.knownAtMs < entry.maxAgeMs + entry.staleIfErrorMs) return asStale(entry, now);
      throw isAway ? originAway(error) : error;
    }
  };

  /** Keeps the entries: they are used if the origin goes away before they are confirmed. */
  const outdate = (concerns: (path: string) => boolean) => {
    for (const [path, entry] of known.entries()) {
      if (concerns(path)) entry.confirmedAtMs = Number.NEGATIVE_INFINITY;
    }
    for (const path of absent.keys()) if (concerns(path)) absent.delete(path);
    lookups.outdate(concerns);
  };

  return {
    resolve(path) {
      const entry = known.get(path);
      const now = monotonicNow();
      if (entry) {
        const ageMs = now - entry.confirmedAtMs;
        if (ageMs <= entry.maxAgeMs) return isFollowing() ? entry.resource : withAge(entry, now);
        if (ageMs === Number.POSITIVE_INFINITY || !isFollowing()) return lookUpOrUseStale(path, entry);
        // The next answer shows the outcome. A failed lookup is repeated by then.
        if (origin.isUp) lookups.lookUp(path).catch(() => undefined);
        return entry.resource;
      }
      const missing = absent.get(path);
      if (missing && now - missing.atMs < ABSENT_MS) return Promise.reject(missing.error);
      if (parseDeliveryPath(path) === null) return Promise.reject(noSuchPath());
      return lookups.lookUp(path).catch((error: unknown) => {
        throw error instanceof OriginUnavailableError ? originAway(error) : error;
      });
    },

    // The entry itself holds when it was confirmed.
    refresh: () => false,

    peek(path) {
      const entry = known.get(path);
      const now = monotonicNow();
      // `resolve` confirms an older entry in the background.
      if (!entry || now - entry.confirmedAtMs > entry.maxAgeMs) return null;
      return isFollowing() ? entry.resource : withAge(entry, now);
    },

    forget(path) {
      const forgotten = known.peek(path)?.resource.representations ?? [];
      known.delete(path);
      // The journal may hold entries that had no room here any more.
      journal.forget(path);
      absent.delete(path);
      lookups.outdate((other) => other === path);
      return forgotten;
    },

    forgetMedia(mediaId) {
      const concerns = isOfMedia(mediaId);
      const forgotten: Representation[] = [];
      journal.forgetMedia(mediaId);
      for (const [path, { resource }] of known.entries()) {
        if (!concerns(path)) continue;
        known.delete(path);
        forgotten.push(...resource.representations);
      }
      for (const path of absent.keys()) if (concerns(path)) absent.delete(path);
      lookups.outdate(concerns);
      return forgotten;
    },

    forgetAll() {
      known.clear();
      journal.forgetAll();
      absent.clear();
      lookups.outdate(() => true);
    },

    outdateAll: () => outdate(() => true),
    outdateMedia: (mediaId) => outdate(isOfMedia(mediaId)),

    restore(stored) {
      for (const { at_ms: atMs, base_url: baseUrl, resource: answer } of stored) {
        const { path } = answer;
        // Content that was made for another address of this node names that address.
        const isForHere = baseUrl === publicUrl() || answer.representations.every(({ content }) => content === null);
        if (known.has(path) || !isForHere || parseDeliveryPath(path) === null) continue;
        const ageMs = Math.max(0, wallNow() - atMs);
        if (ageMs > (answer.max_age_s + answer.stale_if_error_s) * 1000) continue;
        const entry = knownResource(answer, { region, knownAtMs: monotonicNow() - ageMs });
        // It was cached before the restart, and is now: nothing must be fetched for it.
        entry.resource.used = true;
        known.set(path, entry);
      }
    },

    *known() {
      // The caller may pause, and entries that are used meanwhile move.
      for (const path of [...known.rkeys()]) {
        const entry = known.peek(path);
        if (entry) yield toJournal(entry);
      }
    },

    // A node whose origin is away serves its caches, as it should.
    probe: async () => undefined,
  };
}

const isOfMedia = (mediaId: string) => (path: string) => parseDeliveryPath(path)?.id === mediaId;

/** Lookups in progress, one for each path. */
interface Lookups {
  lookUp(path: string): Promise<Resource>;
  /** An event named their media object: they may answer what was before it, so their answers are not stored. */
  outdate(concerns: (path: string) => boolean): void;
}

function createLookups(parts: {
  ask(path: string): Promise<EdgeResource>;
  onFound(path: string, answer: EdgeResource, isOutdated: boolean): Resource;
  onAbsent(path: string, error: AppError): void;
}): Lookups {
  const lookups = new Map<string, { answer: Promise<Resource>; isOutdated: boolean }>();
  return {
    lookUp(path) {
      const begun = lookups.get(path);
      if (begun && !begun.isOutdated) return begun.answer;
      const lookup = { answer: Promise.resolve(null as never) as Promise<Resource>, isOutdated: false };
      lookup.answer = parts
        .ask(path)
        .then(
          (answer) => parts.onFound(path, answer, lookup.isOutdated),
          (error: unknown) => {
            if (error instanceof AppError && error.status === 404 && !lookup.isOutdated) parts.onAbsent(path, error);
            throw error;
          },
        )
        .finally(() => {
          if (lookups.get(path) === lookup) lookups.delete(path);
        });
      lookups.set(path, lookup);
      return lookup.answer;
    },

    outdate(concerns) {
      for (const [path, lookup] of lookups) if (concerns(path)) lookup.isOutdated = true;
    },
  };
}

/** @throws AppError if the origin has nothing at the path; OriginUnavailableError if it does not answer that */
async function askForResource(
  { origin, region, publicUrl }: { origin: OriginConnection; region: string; publicUrl: string },
  path: string,
): Promise<EdgeResource> {
  const query = new URLSearchParams({ path, base_url: publicUrl });
  const target = `${CONTROL_API_PREFIX}/edges/${region}/resource?${query}`;
  const answer = await origin.fetch({ target });
  const absence = absenceIn(answer, target);
  if (absence !== null) {
    origin.acceptance.noteAccepted();
    throw absence;
  }
  const json = answer.status === 200 ? readJson(answer.body) : undefined;
  if (json === undefined) throw origin.acceptance.noteUnexpected({ ...answer, target });
  const parsed = EdgeResource.safeParse(json);
  // The journal finds an answer by its own path.
  if (!parsed.success || parsed.data.path !== path) {
    throw new OriginUnavailableError('The origin sends an answer that this version does not understand.', {
      cause: parsed.error,
    });
  }
  origin.acceptance.noteAccepted();
  return parsed.data;
}

function timeUp(ms: number): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(() => reject(new OriginUnavailableError(`The origin took longer than ${ms} ms.`)), ms).unref();
  });
}

/** Undefined if it is no JSON document. */
function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
