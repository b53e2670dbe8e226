import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type AnswerSink, type Fields, type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import type { AnswerPlan } from './answer-plan.ts';
import type { ByteRange } from './byte-ranges.ts';
import type { PinnedMemory } from './cache/memory/pinned-memory.ts';
import type { ObjectReader } from './cache/object-reader.ts';
import type { Representation } from './representation.ts';
import { type BodyPart, STALL_MS, sendObject } from './send-body.ts';
import { cutRun, type VerifiedRun } from './verified-body.ts';

/** A reader of a body of this size is given up if it takes nothing for long, because the body stays in memory. */
const WATCHED_BYTES = 64 * 1024;

/** A planned answer with all that is needed to send it. */
export interface PreparedAnswer {
  plan: Pick<AnswerPlan, 'status' | 'representation' | 'ranges'>;
  /** Cache-Status and X-Cache, as fields. */
  cacheStatus: Fields;
  /** Fields of this answer only. */
  extra: Fields;
}

const NO_BODY: readonly Buffer[] = [];

/** Sends an answer without content: 304, and every HEAD. */
export function respondWithoutBody(
  sink: AnswerSink,
  { plan: { status, representation }, cacheStatus, extra }: PreparedAnswer,
): void {
  const { headers } = representation;
  const notModified = () =>
    cacheStatus === headers.hitStatus ? headers.notModified : prepareFields([...headers.always, ...cacheStatus]);
  sink.send(status, status === 304 ? notModified() : fieldsOfWhole(representation, cacheStatus), extra, NO_BODY);
}

/** Sends bytes that are in memory. The socket refers to those of the cache, nothing is copied. @returns bytes handed over */
export function respondFromMemory(
  sink: AnswerSink,
  { plan: { representation, ranges }, cacheStatus, extra }: PreparedAnswer,
  body: VerifiedRun,
  pinned: PinnedMemory,
): number {
  let buffers: readonly Buffer[] = body.pieces;
  if (ranges === null) sink.send(200, fieldsOfWhole(representation, cacheStatus), extra, buffers);
  else {
    const content = partsOf(representation, ranges);
    buffers = content.parts.flatMap((part) => (Buffer.isBuffer(part) ? [part] : cutRun(body, part)));
    sink.send(206, fieldsOfPart(representation, content, cacheStatus), extra, buffers);
  }
  let sent = 0;
  for (const { length } of buffers) sent += length;
  // Most bodies fit into the buffers of the system, which has taken them by now.
  if (sink.unsentBytes > 0) {
    if (sent > WATCHED_BYTES) sink.giveUpAfter(STALL_MS);
    if (representation.source.kind === 'object') pinned.watch(sink, body.pieces);
  }
  return sent;
}

/**
 * Sends bytes from a file, or bytes that are still being fetched.
 * @param onBegin called when the head is written
 * @returns bytes handed over, when all of them are
 * @throws if they cannot be read; nothing is sent then unless `onBegin` was called
 */
export function respondFromReader(
  response: ServerResponse,
  { plan: { representation, ranges }, cacheStatus, extra }: PreparedAnswer,
  body: ObjectReader,
  onBegin: () => void,
): Promise<number> {
  const { bytes } = representation;
  const content = ranges === null ? null : partsOf(representation, ranges);
  const parts = content?.parts ?? (bytes === 0 ? [] : [{ start: 0, end: bytes - 1 }]);
  return sendObject(response, body, parts, () => {
    const fields = content
      ? fieldsOfPart(representation, content, cacheStatus)
      : fieldsOfWhole(representation, cacheStatus);
    response.writeHead(content ? 206 : 200, [...fields.list, ...extra]);
    onBegin();
  });
}

function fieldsOfWhole({ headers, bytes }: Representation, cacheStatus: Fields): PreparedFields {
  if (cacheStatus === headers.hitStatus) return headers.hit;
  return prepareFields([...headers.content, 'Content-Length', String(bytes), ...headers.always, ...cacheStatus]);
}

function fieldsOfPart({ headers }: Representation, content: PartialContent, cacheStatus: Fields): PreparedFields {
  return prepareFields([...content.headers, ...headers.always, ...cacheStatus]);
}

function partsOf(representation: Representation, ranges: readonly ByteRange[]): PartialContent {
  const [only] = ranges;
  return ranges.length === 1 && only ? singleRange(representation, only) : multipart(representation, ranges);
}

interface PartialContent {
  headers: string[];
  parts: BodyPart[];
}

/** 206 with one range: the part itself (RFC 9110, 15.3.7.1). */
function singleRange({ headers, bytes }: Representation, range: ByteRange): PartialContent {
  const length = range.end - range.start + 1;
  return {
    headers: [
      ...headers.content,
      'Content-Length',
      String(length),
      'Content-Range',
      `bytes ${range.start}-${range.end}/${bytes}`,
    ],
    parts: [range],
  };
}

/** 206 with several ranges: multipart/byteranges with its exact length (RFC 9110, 15.3.7.2 and 14.6). */
function multipart({ contentType, bytes }: Representation, ranges: readonly ByteRange[]): PartialContent {
  const boundary = randomUUID();
  const parts: BodyPart[] = ranges.flatMap((range, index) => [
    Buffer.from(
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${contentType}\r\n` +
        `Content-Range: bytes ${range.start}-${range.end}/${bytes}\r\n\r\n`,
    ),
    range,
  ]);
  parts.push(Buffer.from(`\r\n--${boundary}--\r\n`));
  const length = parts.reduce(
    (sum, part) => sum + (Buffer.isBuffer(part) ? part.length : part.end - part.start + 1),
    0,
  );
  return {
    headers: [
      'Content-Type',
      `multipart/byteranges; boundary=${boundary}`,
      'Accept-Ranges',
      'bytes',
      'Content-Length',
      String(length),
    ],
    parts,
  };
}
