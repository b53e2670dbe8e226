import { createHash } from 'node:crypto';
import type { EdgeResource } from '@mds/contract';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { createRepresentation } from '../delivery/representation.ts';
import type { Resource } from '../delivery/resolver.ts';
import { madeHere } from '../delivery/verified-body.ts';

/** Estimated size of a representation without its body and its digests. */
const REPRESENTATION_BYTES = 3 * 1024;

/** The answer of the origin for a path. Times are of the monotonic clock, in milliseconds. */
export interface KnownResource {
  resource: Resource;
  /** The answer of the origin, for the journal, and its hash, which shows whether a later answer differs. */
  answer: EdgeResource;
  hash: string;
  /** -Infinity: it must be confirmed before it is used. */
  confirmedAtMs: number;
  /** When the origin last gave this answer, whatever happened since. */
  knownAtMs: number;
  /** `knownAtMs` in the journal. */
  writtenAtMs: number;
  maxAgeMs: number;
  staleIfErrorMs: number;
  /** Estimated size in memory. */
  bytes: number;
}

/**
 * An unconfirmed entry for an answer.
 * @param before the earlier entry of the path; its resource is used again if the answer is the same
 * @throws OriginUnavailableError if a content does not match its hash
 */
export function knownResource(
  answer: EdgeResource,
  { region, knownAtMs, before }: { region: string; knownAtMs: number; before?: KnownResource | undefined },
): KnownResource {
  const hash = createHash('sha256').update(JSON.stringify(answer)).digest('base64');
  return {
    ...{ answer, hash, knownAtMs },
    resource: before?.hash === hash ? before.resource : toResource(answer, region),
    confirmedAtMs: Number.NEGATIVE_INFINITY,
    writtenAtMs: knownAtMs,
    maxAgeMs: answer.max_age_s * 1000,
    staleIfErrorMs: answer.stale_if_error_s * 1000,
    // Content and digests are held twice: as received, and decoded.
    bytes: answer.representations.reduce(
      (sum, { content, pieces }) => sum + REPRESENTATION_BYTES + 2 * (content?.length ?? 0) + 2 * (pieces?.length ?? 0),
      0,
    ),
  };
}

/**
 * The resource with its age, so that caches behind this node do not take it for new. It is used while nothing confirms the entry; an
 * event stream that is up to date confirms every entry.
 */
export function withAge({ resource, knownAtMs }: KnownResource, nowMs: number): Resource {
  return {
    representations: resource.representations,
    negotiated: resource.negotiated,
    get used() {
      return resource.used;
    },
    set used(used) {
      resource.used = used;
    },
    ageS: Math.floor((nowMs - knownAtMs) / 1000),
  };
}

/** {@link withAge} that also reports for how long it has been out of date. */
export function asStale(entry: KnownResource, nowMs: number): Resource {
  const staleMs = nowMs - entry.knownAtMs - entry.maxAgeMs;
  return Object.assign(withAge(entry, nowMs), { staleS: Math.max(0, Math.ceil(staleMs / 1000)) });
}

/** @throws OriginUnavailableError if a content does not match its hash */
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
  throw new OriginUnavailableError('Content from the origin does not match its hash.');
}
