import type { FileFacts, MixedRequest } from './mixed-requests.ts';

/**
 * A kind of request that nginx reads differently from RFC 9110, or for which the RFC leaves the choice. `plainly` returns a request of the
 * same meaning that both read alike: our response to the request must be that of nginx to the plain one.
 * docs/nginx-differences.md lists them, too.
 */
export interface Difference {
  name: string;
  clause: string;
  /** Null: the request is not of this kind. */
  plainly(request: MixedRequest, file: FileFacts): MixedRequest | null;
}

const without = (request: MixedRequest, name: string): MixedRequest => {
  const { [name]: _, ...headers } = request.headers;
  return { ...request, headers };
};

const withRange = (request: MixedRequest, range: string): MixedRequest => ({
  ...request,
  headers: { ...request.headers, range },
});

/** The elements of a Range in bytes, or null if there are none. */
function elements({ headers }: MixedRequest): string[] | null {
  const set = /^bytes=(.*)$/i.exec(headers['range'] ?? '')?.[1];
  return set === undefined ? null : set.split(',').map((element) => element.trim());
}

const isEmpty = (element: string) => element === '';

/** RFC 9110, 14.1.1: an int-range whose last position comes before its first is not valid either. */
function isValid(element: string): boolean {
  const [, first, last] = /^(\d+)-(\d*)$/.exec(element) ?? [];
  if (first === undefined) return /^-\d+$/.test(element);
  return last === '' || BigInt(last ?? '') >= BigInt(first);
}

/** First and last position of a valid element; null where none of it lies within the file. */
function positions(element: string, bytes: number): [first: number, last: number] | null {
  const [first = '', last = ''] = element.split('-');
  if (first === '') return last === '0' || bytes === 0 ? null : [Math.max(0, bytes - Number(last)), bytes - 1];
  return Number(first) >= bytes ? null : [Number(first), last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1)];
}

/** Joins what overlaps or touches until nothing does, each where the first of them stood. */
function joined(stretches: readonly [number, number][]): [number, number][] {
  for (const [index, [first, last]] of stretches.entries()) {
    const other = stretches.findIndex(([from, to], at) => at > index && from <= last + 1 && first <= to + 1);
    const [from, to] = stretches[other] ?? [first, last];
    if (other < 0) continue;
    const both: [number, number] = [Math.min(first, from), Math.max(last, to)];
    return joined(stretches.with(index, both).filter((_, at) => at !== other));
  }
  return [...stretches];
}

/** The most ranges that we accept in one request; see `docs/delivery.md`. */
const MOST_RANGES = 32;
/** Larger than any file, and small enough for any machine word. */
const LARGE = '999999999999';

export const differences: readonly Difference[] = [
  {
    name: 'HEAD with Range',
    clause:
      '14.2: Range has a meaning for GET alone, and must be ignored with any other method. nginx answers HEAD with 206 or 416.',
    plainly: (request) => (request.method === 'HEAD' && request.headers['range'] ? without(request, 'range') : null),
  },
  {
    name: 'If-Modified-Since beside If-None-Match',
    clause: '13.1.3: is to be ignored there. nginx sends 304 only where both say so.',
    plainly: (request) =>
      'if-none-match' in request.headers && 'if-modified-since' in request.headers
        ? without(request, 'if-modified-since')
        : null,
  },
  {
    name: 'If-Unmodified-Since beside If-Match',
    clause: '13.1.4: is to be ignored there. nginx sends 412 where either fails.',
    plainly: (request) =>
      'if-match' in request.headers && 'if-unmodified-since' in request.headers
        ? without(request, 'if-unmodified-since')
        : null,
  },
  {
    name: 'If-Unmodified-Since that is no date',
    clause: '13.1.4: is to be ignored. nginx takes it for a date long past, and sends 412.',
    plainly: (request) => {
      const value = request.headers['if-unmodified-since'];
      return value !== undefined && !isHttpDate(value) ? without(request, 'if-unmodified-since') : null;
    },
  },
  {
    name: 'empty elements in the list of ranges',
    clause: '5.6.1.2: a recipient must parse and ignore a reasonable number of them. nginx sends 416.',
    plainly: (request) => {
      const all = elements(request);
      const some = all?.filter((element) => !isEmpty(element)) ?? [];
      return all && some.length > 0 && some.length < all.length ? withRange(request, `bytes=${some.join(',')}`) : null;
    },
  },
  {
    name: 'Range that is not valid',
    clause:
      '14.2: may be ignored or rejected. We ignore it and send 200; nginx sends 416, or the part of it that it understands.',
    plainly: (request) => {
      const some = elements(request)?.filter((element) => !isEmpty(element));
      return some && (some.length === 0 || !some.every(isValid)) ? without(request, 'range') : null;
    },
  },
  {
    name: 'more than 32 ranges',
    clause: '14.2 and 17.15: many small ranges may be ignored. We send 200; nginx has no limit by default.',
    plainly: (request) => ((elements(request)?.length ?? 0) > MOST_RANGES ? without(request, 'range') : null),
  },
  {
    name: 'positions beyond 63 bits',
    clause:
      '14.1.2: a last position or suffix beyond the end means the rest or the whole. nginx sends 416 where a number overflows.',
    plainly: (request) =>
      elements(request) && /\d{19,}/.test(request.headers['range'] ?? '')
        ? withRange(request, (request.headers['range'] ?? '').replace(/\d{19,}/g, LARGE))
        : null,
  },
  {
    name: 'ranges that overlap or touch',
    clause:
      '15.3.7.2: may be sent as one. We do; nginx sends each, or 200 where together they are longer than the file.',
    plainly: (request, { bytes }) => {
      const stretches = elements(request)?.map((element) => positions(element, bytes));
      const within = stretches?.filter((stretch) => stretch !== null) ?? [];
      const fewer = joined(within);
      return fewer.length < within.length
        ? withRange(request, `bytes=${fewer.map(([first, last]) => `${first}-${last}`).join(',')}`)
        : null;
    },
  },
];

const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d';
const HTTP_DATE = new RegExp(
  `^(?:\\w{3}, (?:[0-2]\\d|3[01]) \\w{3} \\d{4} ${TIME} GMT|\\w+day, \\d\\d-\\w{3}-\\d\\d ${TIME} GMT|\\w{3} \\w{3} [ \\d]\\d ${TIME} \\d{4})$`,
);

/** RFC 9110, 5.6.7: the form that is to be written, and the two obsolete ones. */
function isHttpDate(text: string): boolean {
  return HTTP_DATE.test(text);
}
