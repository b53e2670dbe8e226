import type { AppError } from '../base/app-error.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { chooseByAccept } from './accept.ts';
import { type ByteRange, parseByteRanges } from './byte-ranges.ts';
import { notAcceptable, preconditionFailed, rangeNotSatisfiable } from './delivery-problems.ts';
import { evaluatePreconditions, ifRangeHolds } from './preconditions.ts';
import type { Representation } from './representation.ts';
import type { Resource } from './resolver.ts';

/** The answer to a GET or HEAD, decided from its headers before any byte is read. */
export interface AnswerPlan {
  readonly status: 200 | 206 | 304;
  readonly resource: Resource;
  readonly representation: Representation;
  /** False for 304 and HEAD. */
  readonly hasBody: boolean;
  /** Null: the whole representation. */
  readonly ranges: readonly ByteRange[] | null;
  /** From the first byte that the answer needs to the last. */
  readonly span: ByteRange;
}

/** Why a request gets no representation: 406, 412 or 416. */
export interface Refusal {
  readonly refusal: AppError;
}

/** The part of a request that decides its answer. */
type Asked = Pick<RequestHead, 'method' | 'headers'>;

/** The representation of a path; if there are several, the one that Accept prefers. */
export function chooseRepresentation({ representations, negotiated }: Resource, { headers }: Asked) {
  const chosen = negotiated ? chooseByAccept(representations, headers.accept) : representations[0];
  return chosen ?? { refusal: notAcceptable(representations) };
}

/** Preconditions first, then ranges (RFC 9110, 13.2.2). Range has a meaning for GET only (14.2). */
export function planAnswer(
  { method, headers }: Asked,
  resource: Resource,
  representation: Representation,
): AnswerPlan | Refusal {
  const verdict = evaluatePreconditions(headers, representation);
  if (verdict === 'failed') return { refusal: preconditionFailed(representation) };
  if (verdict === 'not-modified') return planWhole(304, resource, representation, false);
  if (method === 'HEAD') return planWhole(200, resource, representation, false);
  const { range } = headers;
  if (range === undefined || !ifRangeHolds(headers['if-range'] as string, representation)) {
    return planWhole(200, resource, representation, true);
  }
  const ranges = parseByteRanges(range, representation.bytes);
  if (ranges === null) return planWhole(200, resource, representation, true);
  if (ranges === 'unsatisfiable') return { refusal: rangeNotSatisfiable(representation) };
  return { status: 206, resource, representation, hasBody: true, ranges, span: spanOf(ranges) };
}

function planWhole(status: 200 | 304, resource: Resource, representation: Representation, hasBody: boolean) {
  const span = { start: 0, end: representation.bytes - 1 };
  return { status, resource, representation, hasBody, ranges: null, span };
}

function spanOf(ranges: readonly ByteRange[]): ByteRange {
  let [start, end] = [Number.POSITIVE_INFINITY, 0];
  for (const range of ranges) {
    start = Math.min(start, range.start);
    end = Math.max(end, range.end);
  }
  return { start, end };
}
