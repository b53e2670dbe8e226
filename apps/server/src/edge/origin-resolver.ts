import { createHash } from 'node:crypto';
import { CONTROL_API_PREFIX, EdgeResource, parseDeliveryPath } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import { AppError } from '../base/app-error.ts';
import { noSuchPath } from '../delivery/absence.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { createRepresentation, type Representation } from '../delivery/representation.ts';
import type { Resolver, Resource } from '../delivery/resolver.ts';
import { madeHere } from '../delivery/verified-body.ts';
import type { OriginConnection } from './origin-connection.ts';
import { absenceIn, originAway } from './origin-problem.ts';
import type { KnownPath, PathJournal } from './path-journal.ts';

/** Room for what is known of paths. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Estimate of what a representation takes beside a made body and its digests. */
const REPRESENTATION_BYTES = 3 * 1024;
/** What is not there is not asked for again within this time, as clients are told, too. */
const ABSENT_MS = 5_000;
const MAX_ABSENT = 10_000;
/** How late the file may be that a path was confirmed once more; it is in use for a day. */
const JOURNAL_MS = 10 * 60_000;
/** With something older at hand, the origin has this long to answer. */
const PATIENCE_MS = 2_000;

/** {@link Resolver} over HTTP. */
export interface OriginResolver extends Resolver {
  /** Has everything confirmed before it is used again: events may have been missed. */
  outdateAll(): void;
  /** Has what is known of a media object confirmed before it is used again: it has changed. */
  outdateMedia(mediaId: string): void;
  /** Takes over what an earlier process knew, to be confirmed before it is used. */
  restore(known: Iterable<KnownPath>): void;
  /** Everything that is known, the least recently used first. */
  known(): Iterable<KnownPath>;
}

interface Known {
  resource: Resource;
  /** What the origin said, for the journal, and its hash, to tell whether a later answer says anything new. */
  answer: EdgeResource;
  wire: string;
  /** Of the monotonic clock; -Infinity: has to be confirmed before it is used. */
  confirmedAtMs: number;
  /** When the origin last stood by it, whatever happened since. */
  knownAtMs: number;
  /** `knownAtMs` as the journal has it. */
  writtenAtMs: number;
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
 * @param deps.journal told of everything that is learned and forgotten
 * @param deps.now the wall clock, milliseconds since the epoch
 */
export function createOriginResolver(deps: {
  origin: OriginConnection;
  region: string;
  publicUrl: () => string;
  isFollowing: () => boolean;
  journal: Pick<PathJournal, 'keep' | 'forget' | 'forgetMedia' | 'forgetAll'>;
  monotonicNow?: () => number;
  now?: () => number;
}): OriginResolver {
  const { origin, region, publicUrl, isFollowing, journal } = deps;
  const { monotonicNow = () => performance.now(), now: wallNow = Date.now } = deps;
  const known = new LRUCache<string, Known>({ maxSize: MAX_BYTES, sizeCalculation: ({ bytes }) => bytes });
  const absent = new LRUCache<string, { error: AppError; atMs: number }>({ max: MAX_ABSENT });
  /** Lookups under way; one during which an event spoke of its media object says what was, and is not kept. */
  const lookups = new Map<string, { answer: Promise<Resource>; outdated: boolean }>();

  const ask = async (path: string): Promise<EdgeResource> => {
    const query = new URLSearchParams({ path, base_url: publicUrl() });
    const target = `${CONTROL_API_PREFIX}/edges/${region}/resource?${query}`;
    const answer = await origin.fetch({ target });
    const absence = absenceIn(answer, target);
    if (absence !== null) {
      origin.standing.good();
      throw absence;
    }
    if (answer.status !== 200) throw origin.standing.judge({ ...answer, target });
    const json = readJson(answer.body);
    if (json === undefined) throw origin.standing.judge({ ...answer, target });
    const parsed = EdgeResource.safeParse(json);
    // The file finds it by the path that it names.
    if (!parsed.success || parsed.data.path !== path) {
      throw new OriginUnavailableError('The origin answers with what this version does not understand.', {
        cause: parsed.error,
      });
    }
    origin.standing.good();
    return parsed.data;
  };

  const entryOf = (answer: EdgeResource, wire: string, before: Known | undefined, knownAtMs: number): Known => ({
    ...{ answer, wire, knownAtMs },
    resource: before?.wire === wire ? before.resource : toResource(answer, region),
    confirmedAtMs: Number.NEGATIVE_INFINITY,
    writtenAtMs: knownAtMs,
    maxAgeMs: answer.max_age_s * 1000,
    staleIfErrorMs: answer.stale_if_error_s * 1000,
    // Content and digests twice: as they came, and as they are used.
    bytes: answer.representations.reduce(
      (sum, { content, pieces }) => sum + REPRESENTATION_BYTES + 2 * (content?.length ?? 0) + 2 * (pieces?.length ?? 0),
      0,
    ),
  });

  const toJournal = ({ answer, knownAtMs }: Known): KnownPath => ({
    at_ms: Math.round(wallNow() - (monotonicNow() - knownAtMs)),
    base_url: publicUrl(),
    resource: answer,
  });

  const keep = (path: string, answer: EdgeResource, outdated: boolean): Resource => {
    const before = known.get(path);
    const now = monotonicNow();
    const entry = entryOf(answer, hashOf(answer), before, now);
    if (outdated) return entry.resource;
    const isWritten = before?.wire === entry.wire && now - before.writtenAtMs < JOURNAL_MS;
    entry.confirmedAtMs = now;
    if (isWritten) entry.writtenAtMs = before.writtenAtMs;
    absent.delete(path);
    known.set(path, entry);
    if (!isWritten) journal.keep(toJournal(entry));
    return entry.resource;
  };

  const drop = (path: string) => {
    if (known.delete(path)) journal.forget(path);
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
            drop(path);
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
      const isAway = error instanceof OriginUnavailableError;
      if (isAway && monotonicNow() - entry.knownAtMs < entry.maxAgeMs + entry.staleIfErrorMs) return stale(entry);
      throw isAway ? originAway(error) : error;
    }
  };

  /**
   * As it is used while nobody says that it still holds: it tells its age, so that caches behind this one do not take it for new.
   * A stream of events that is up to date says so, without a word, of everything.
   */
  const aged = ({ resource, knownAtMs }: Known): Resource => ({
    representations: resource.representations,
    negotiated: resource.negotiated,
    get used() {
      return resource.used;
    },
    set used(used) {
      resource.used = used;
    },
    ageS: Math.floor((monotonicNow() - knownAtMs) / 1000),
  });

  /** Says of itself how long it has been out of date as well. */
  const stale = (entry: Known): Resource =>
    Object.assign(aged(entry), {
      staleS: Math.max(0, Math.ceil((monotonicNow() - entry.knownAtMs - entry.maxAgeMs) / 1000)),
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
        if (ageMs <= entry.maxAgeMs) return isFollowing() ? entry.resource : aged(entry);
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
      if (monotonicNow() - entry.confirmedAtMs > entry.maxAgeMs) return null;
      return isFollowing() ? entry.resource : aged(entry);
    },

    forget(path) {
      const forgotten = known.peek(path)?.resource.representations ?? [];
      known.delete(path);
      // The file may know what had no room here any more.
      journal.forget(path);
      absent.delete(path);
      outdateLookups((other) => other === path);
      return forgotten;
    },

    forgetMedia(mediaId) {
      const isOfMedia = (path: string) => parseDeliveryPath(path)?.id === mediaId;
      const forgotten: Representation[] = [];
      journal.forgetMedia(mediaId);
      for (const [path, { resource }] of known.entries()) {
        if (!isOfMedia(path)) continue;
        known.delete(path);
        forgotten.push(...resource.representations);
      }
      for (const path of absent.keys()) if (isOfMedia(path)) absent.delete(path);
      outdateLookups(isOfMedia);
      return forgotten;
    },

    forgetAll() {
      known.clear();
      journal.forgetAll();
      absent.clear();
      outdateLookups(() => true);
    },

    outdateAll: () => outdate(() => true),
    outdateMedia: (mediaId) => outdate((path) => parseDeliveryPath(path)?.id === mediaId),

    restore(kept) {
      for (const { at_ms: atMs, base_url: baseUrl, resource: answer } of kept) {
        const { path } = answer;
        // What was made here for another address of this node names that one.
        const isForHere = baseUrl === publicUrl() || answer.representations.every(({ content }) => content === null);
        if (known.has(path) || !isForHere || parseDeliveryPath(path) === null) continue;
        const ageMs = Math.max(0, wallNow() - atMs);
        if (ageMs > (answer.max_age_s + answer.stale_if_error_s) * 1000) continue;
        const entry = entryOf(answer, hashOf(answer), undefined, monotonicNow() - ageMs);
        // It was held before the restart, and is now: nobody is asked for it.
        entry.resource.used = true;
        known.set(path, entry);
      }
    },

    *known() {
      // Whoever asks takes its time, and what is used meanwhile changes its place.
      for (const path of [...known.rkeys()]) {
        const entry = known.peek(path);
        if (entry) yield toJournal(entry);
      }
    },

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

function hashOf(answer: EdgeResource): string {
  return createHash('sha256').update(JSON.stringify(answer)).digest('base64');
}

function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    // No document at all.
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
