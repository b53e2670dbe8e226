import { UploadId } from '@mds/contract';
import type { ObjectStore } from '../storage/object-store.ts';

const PREFIX = 'uploads/';
const KEY = /^uploads\/([^/]+)\/(\d{20})-(\d+)-([0-9a-f]{64})$/;

/** A stretch of an upload that is stored as an object. */
export interface UploadSegment {
  id: string;
  /** Position of its first byte in the upload. */
  offset: number;
  bytes: number;
  sha256: string;
}

/**
 * Key of a segment. It contains all that identifies the segment: a late put of a process that was taken for dead never replaces another
 * segment, and a damaged segment is recognized.
 */
export function segmentKey({ id, offset, bytes, sha256 }: UploadSegment): string {
  return `${PREFIX}${UploadId.parse(id)}/${String(offset).padStart(20, '0')}-${bytes}-${sha256}`;
}

/** The segments of an upload, or of all, in no promised order. */
export async function* listSegments(
  store: Pick<ObjectStore, 'list'>,
  id: string | null,
): AsyncGenerator<UploadSegment & { key: string }> {
  for await (const { key, bytes } of store.list(id === null ? PREFIX : `${PREFIX}${UploadId.parse(id)}/`)) {
    const [, of = '', offset, length, sha256 = ''] = KEY.exec(key) ?? [];
    if (Number(length) !== bytes || !UploadId.safeParse(of).success) continue;
    yield { key, id: of, offset: Number(offset), bytes, sha256 };
  }
}

/**
 * Selects the segments that together are the beginning of the upload, in order and without a gap; each ends after the one before. They
 * overlap if two processes have put the same bytes.
 */
export function chainOf<Segment extends UploadSegment>(segments: Iterable<Segment>): Segment[] {
  const sorted = [...segments].sort(
    (a, b) => a.offset - b.offset || b.bytes - a.bytes || (a.sha256 < b.sha256 ? -1 : 1),
  );
  const chain: Segment[] = [];
  let end = 0;
  let furthest: Segment | null = null;
  for (const segment of sorted) {
    if (furthest !== null && segment.offset > end) {
      chain.push(furthest);
      end = endOf(furthest);
      furthest = null;
    }
    if (segment.offset > end) break;
    if (endOf(segment) > (furthest === null ? end : endOf(furthest))) furthest = segment;
  }
  if (furthest !== null) chain.push(furthest);
  return chain;
}

/** The number of bytes from the beginning of the upload to the end of the chain. */
export function bytesOf(chain: readonly UploadSegment[]): number {
  const last = chain.at(-1);
  return last === undefined ? 0 : endOf(last);
}

function endOf({ offset, bytes }: UploadSegment): number {
  return offset + bytes;
}
