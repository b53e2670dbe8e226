import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type AnswerSink, type Fields, type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import type { ByteRange } from './byte-ranges.ts';
import type { PinnedMemory } from './cache/memory/pinned-memory.ts';
import type { FoundObject } from './cache/object-cache.ts';
import type { ObjectReader } from './cache/object-reader.ts';
import type { Representation } from './representation.ts';
import { type BodyPart, STALL_MS, sendObject } from './send-body.ts';
import type { VerifiedBuffer } from './verified-body.ts';

/** From this size a reader is given up who takes nothing for long: what it does not take stays in memory. */
const WATCHED_BYTES = 64 * 1024;

/** How the cache took part in an answer. */
export type CacheDecision = Pick<FoundObject, 'cacheStatus' | 'stored' | 'collapsed'>;

/** What every body needs to go out. */
export interface BodyAnswer {
  representation: Representation;
  /** Null: all of it. */
  ranges: readonly ByteRange[] | null;
  /** Cache-Status and X-Cache, as headers. */
  cacheStatus: Fields;
  /** Fields of this answer alone. */
  extra: Fields;
}

const NOTHING: readonly Buffer[] = [];

/** Answers with no content: 304, and every HEAD. */
export function respondWithoutBody(
  sink: AnswerSink,
  status: 200 | 304,
  representation: Representation,
  cacheStatus: Fields,
  extra: Fields,
): void {
  const { headers } = representation;
  const isHit = cacheStatus === headers.hitStatus;
  const fields =
    status === 200
      ? fieldsOfWhole(representation, cacheStatus)
      : isHit
        ? headers.notModified
        : prepareFields([...headers.always, ...cacheStatus]);
  sink.send(status, fields, extra, NOTHING);
}

/** Answers with bytes that are in memory: the socket refers to those of the cache, nothing is copied. @returns bytes handed over */
export function respondFromMemory(
  sink: AnswerSink,
  { representation, ranges, cacheStatus, extra }: BodyAnswer,
  body: VerifiedBuffer,
  pinned: PinnedMemory,
): number {
  let sent = body.length;
  if (ranges === null) sink.send(200, fieldsOfWhole(representation, cacheStatus), extra, [body]);
  else {
    const content = partsOf(representation, ranges);
    const buffers = content.parts.map((part) =>
      Buffer.isBuffer(part) ? part : body.subarray(part.start, part.end + 1),
    );
    sent = buffers.reduce((sum, { length }) => sum + length, 0);
    sink.send(206, fieldsOfPart(representation, content, cacheStatus), extra, buffers);
  }
  // Most bodies fit into the buffers of the system and are gone by now.
  if (sink.unsentBytes > 0) {
    if (sent > WATCHED_BYTES) sink.giveUpAfter(STALL_MS);
    if (representation.source.kind === 'object') pinned.watch(sink, body);
  }
  return sent;
}

/**
 * Answers with bytes out of a file, or that are still on their way.
 * @param onBegin called when the head is written
 * @returns bytes handed over, once they are
 * @throws where they can't be read; nothing is sent then unless `onBegin` was called
 */
export function respondFromReader(
  response: ServerResponse,
  { representation, ranges, cacheStatus, extra }: BodyAnswer,
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

/** 206 with several ranges: multipart/byteranges, its exact length told beforehand (RFC 9110, 15.3.7.2 and 14.6). */
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
