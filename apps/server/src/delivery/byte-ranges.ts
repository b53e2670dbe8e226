/** Bytes `start` to `end`, both included. */
export interface ByteRange {
  start: number;
  end: number;
}

/** If a request has more ranges, the field is ignored: no player needs more (RFC 9110, 17.15). */
export const MAX_RANGES = 32;

const RANGE_SPEC = /^(\d*)-(\d*)$/;

/**
 * Parses a Range field (RFC 9110, 14.1.2 and 14.2) for a representation of `bytes` bytes.
 * @returns the ranges to send, clipped and in the requested order, with overlapping and adjacent ones joined;
 *   null: the field is ignored (another unit, invalid, too many ranges); `unsatisfiable`: 416
 */
export function parseByteRanges(field: string, bytes: number): ByteRange[] | 'unsatisfiable' | null {
  if (!/^bytes=/i.test(field)) return null;
  const specs = field.slice('bytes='.length).split(',');
  const ranges: ByteRange[] = [];
  let count = 0;
  for (const text of specs) {
    const spec = text.trim();
    // A recipient must accept empty list elements (RFC 9110, 5.6.1.2).
    if (spec === '') continue;
    count += 1;
    const [, first = '', last = ''] = RANGE_SPEC.exec(spec) ?? [];
    if (count > MAX_RANGES || (first === '' && last === '')) return null;
    if (first === '') {
      const length = Number(last);
      if (length === 0) continue;
      // Satisfiable by definition, but no Content-Range can express an empty range. The whole, which is empty, is sent.
      if (bytes === 0) return null;
      ranges.push({ start: Math.max(0, bytes - length), end: bytes - 1 });
      continue;
    }
    const start = Number(first);
    const end = last === '' ? Number.POSITIVE_INFINITY : Number(last);
    if (end < start) return null;
    if (start < bytes) ranges.push({ start, end: Math.min(end, bytes - 1) });
  }
  if (count === 0) return null;
  return ranges.length === 0 ? 'unsatisfiable' : coalesce(ranges);
}

/** Joins overlapping and adjacent ranges, so that no byte is sent twice. */
function coalesce(ranges: ByteRange[]): ByteRange[] {
  if (ranges.length === 1) return ranges;
  const joined: { range: ByteRange; order: number }[] = [];
  const ascending = ranges.map((range, order) => ({ range: { ...range }, order }));
  ascending.sort((a, b) => a.range.start - b.range.start);
  for (const next of ascending) {
    const last = joined.at(-1);
    if (last && next.range.start <= last.range.end + 1) {
      last.range.end = Math.max(last.range.end, next.range.end);
      last.order = Math.min(last.order, next.order);
    } else {
      joined.push(next);
    }
  }
  return joined.sort((a, b) => a.order - b.order).map(({ range }) => range);
}
