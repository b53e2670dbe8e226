import type { IncomingHttpHeaders } from 'node:http';
import { type ByteRange, parseByteRanges } from './byte-ranges.ts';
import { evaluatePreconditions, ifRangeHolds, type Validators } from './preconditions.ts';

/** What to answer a GET or HEAD with, decided from its headers before any byte is read. */
export type AnswerPlan =
  | { status: 200 }
  | { status: 206; ranges: ByteRange[] }
  | { status: 304 }
  | { status: 412 }
  | { status: 416 };

const WHOLE: AnswerPlan = { status: 200 };

/** Preconditions first, then ranges (RFC 9110, 13.2.2). Range has a meaning for GET alone (14.2). */
export function planAnswer(
  method: string,
  headers: IncomingHttpHeaders,
  representation: Validators & { bytes: number },
): AnswerPlan {
  const verdict = evaluatePreconditions(headers, representation);
  if (verdict === 'failed') return { status: 412 };
  if (verdict === 'not-modified') return { status: 304 };
  const { range } = headers;
  if (range === undefined || method !== 'GET' || !ifRangeHolds(headers['if-range'] as string, representation)) {
    return WHOLE;
  }
  const ranges = parseByteRanges(range, representation.bytes);
  if (ranges === null) return WHOLE;
  return ranges === 'unsatisfiable' ? { status: 416 } : { status: 206, ranges };
}
