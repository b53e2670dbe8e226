import { sha256 } from '../points-of-presence.ts';

/** The bytes that all nodes delivered under each path. */
export interface DeliveredBytes {
  /** @returns what is wrong about a whole body, or null */
  whole(path: string, body: Buffer, etag: string | null): string | null;
  /** The same for the bytes from `start` to `end`, inclusive, of `size`. */
  part(
    path: string,
    part: { start: number; end: number; size: number; body: Buffer; etag: string | null },
  ): string | null;
  /** SHA-256 and length of a path's bytes; null if it was never read whole. */
  of(path: string): { sha256: string; bytes: number } | null;
  readonly counts: { whole: number; parts: number; bytes: number };
}

interface Seen {
  sha256: string | null;
  bytes: number;
  /** SHA-256 by `start-end`. */
  parts: Map<string, string>;
}

/**
 * All responses for one path must be parts of the same bytes, whose SHA-256 is the entity tag. Only hashes are recorded, so earlier parts
 * are compared as soon as the whole arrives.
 */
export function createDeliveredBytes(): DeliveredBytes {
  const paths = new Map<string, Seen>();
  const counts = { whole: 0, parts: 0, bytes: 0 };
  const seenOf = (path: string, bytes: number) => {
    const seen = paths.get(path) ?? { sha256: null, bytes, parts: new Map() };
    paths.set(path, seen);
    return seen;
  };

  return {
    counts,
    whole(path, body, etag) {
      counts.whole += 1;
      counts.bytes += body.length;
      const digest = sha256(body);
      const seen = seenOf(path, body.length);
      if (etag !== `"${digest}"`) return `${path} has SHA-256 ${digest} and the entity tag ${etag}`;
      if (seen.bytes !== body.length) return `${path} had ${seen.bytes} bytes and has ${body.length}`;
      if (seen.sha256 !== null && seen.sha256 !== digest) return `${path} was ${seen.sha256} and is ${digest}`;
      seen.sha256 = digest;
      for (const [range, before] of seen.parts) {
        const [start = 0, end = 0] = range.split('-').map(Number);
        if (sha256(body.subarray(start, end + 1)) !== before) return `${path} had other bytes at ${range}`;
      }
      return null;
    },
    part(path, { start, end, size, body, etag }) {
      counts.parts += 1;
      counts.bytes += body.length;
      const digest = sha256(body);
      const seen = seenOf(path, size);
      const before = seen.parts.get(`${start}-${end}`) ?? digest;
      seen.parts.set(`${start}-${end}`, digest);
      if (body.length !== end - start + 1) return `${path} has ${body.length} bytes at ${start}-${end}`;
      if (seen.bytes !== size) return `${path} had ${seen.bytes} bytes and has ${size}`;
      if (before !== digest) return `${path} had other bytes at ${start}-${end} before`;
      if (seen.sha256 !== null && etag !== `"${seen.sha256}"`) return `${path} has the entity tag ${etag} in part`;
      return null;
    },
    of(path) {
      const seen = paths.get(path);
      return seen === undefined || seen.sha256 === null ? null : { sha256: seen.sha256, bytes: seen.bytes };
    },
  };
}
