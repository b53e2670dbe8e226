import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { ByteRange } from './byte-ranges.ts';
import type { FoundObject } from './cache/object-cache.ts';
import type { ObjectReader } from './cache/object-reader.ts';
import type { PinnedMemory } from './cache/pinned-memory.ts';
import type { Representation } from './representation.ts';
import { type BodyPart, giveUpWhenStalled, sendObject } from './send-body.ts';
import type { VerifiedBuffer } from './verified-body.ts';

/** From this size a reader is given up who takes nothing for long: what it does not take stays in memory. */
const WATCHED_BYTES = 64 * 1024;

/** How the cache took part in an answer. */
export type CacheDecision = Pick<FoundObject, 'cacheStatus' | 'stored' | 'collapsed'>;

/** Headers that belong to this request alone, as `writeHead` takes them. */
export type ExtraHeaders = readonly string[];

/** What every body needs to go out. */
export interface BodyAnswer {
  response: ServerResponse;
  representation: Representation;
  /** Null: all of it. */
  ranges: readonly ByteRange[] | null;
  /** Cache-Status and X-Cache, as headers. */
  cacheStatus: readonly string[];
  extra: ExtraHeaders;
}

/** Answers with no content: 304, and every HEAD. */
export function respondWithoutBody(
  response: ServerResponse,
  status: 200 | 304,
  { headers, bytes }: Representation,
  cacheStatus: readonly string[],
  extra: ExtraHeaders,
): void {
  const described = status === 200 ? [...headers.content, 'Content-Length', String(bytes)] : [];
  response.writeHead(status, [...described, ...headers.always, ...cacheStatus, ...extra]);
  response.end();
}

/** Answers with bytes that are in memory: the socket refers to those of the cache, nothing is copied. @returns bytes handed over */
export function respondFromMemory(answer: BodyAnswer, body: VerifiedBuffer, pinned: PinnedMemory): number {
  const { response } = answer;
  let sent = body.length;
  if (answer.ranges === null) {
    writeHeadOfWhole(answer);
    response.end(body);
  } else {
    const content = partsOf(answer.representation, answer.ranges);
    writeHeadOfPart(answer, content);
    const buffers = content.parts.map((part) =>
      Buffer.isBuffer(part) ? part : body.subarray(part.start, part.end + 1),
    );
    sent = buffers.reduce((sum, { length }) => sum + length, 0);
    const last = buffers.pop();
    for (const buffer of buffers) response.write(buffer);
    response.end(last);
  }
  // Most bodies fit into the buffers of the system and are gone by now.
  if (response.writableLength > 0) {
    if (sent > WATCHED_BYTES) giveUpWhenStalled(response);
    if (answer.representation.source.kind === 'object') pinned.watch(response, body);
  }
  return sent;
}

/**
 * Answers with bytes out of a file, or that are still on their way.
 * @param onBegin called when the head is written
 * @returns bytes handed over, once they are
 * @throws where they can't be read; nothing is sent then unless `onBegin` was called
 */
export function respondFromReader(answer: BodyAnswer, body: ObjectReader, onBegin: () => void): Promise<number> {
  const { response, representation, ranges } = answer;
  if (ranges !== null) {
    const content = partsOf(representation, ranges);
    return sendObject(response, body, content.parts, () => {
      writeHeadOfPart(answer, content);
      onBegin();
    });
  }
  const parts = representation.bytes === 0 ? [] : [{ start: 0, end: representation.bytes - 1 }];
  return sendObject(response, body, parts, () => {
    writeHeadOfWhole(answer);
    onBegin();
  });
}

function writeHeadOfWhole({ response, representation, cacheStatus, extra }: BodyAnswer): void {
  const { content, always, hit, hitStatus } = representation.headers;
  if (cacheStatus === hitStatus) {
    response.writeHead(200, extra.length === 0 ? (hit as string[]) : [...hit, ...extra]);
    return;
  }
  const size = ['Content-Length', String(representation.bytes)];
  response.writeHead(200, [...content, ...size, ...always, ...cacheStatus, ...extra]);
}

function writeHeadOfPart(
  { response, representation, cacheStatus, extra }: BodyAnswer,
  { headers }: PartialContent,
): void {
  response.writeHead(206, [...headers, ...representation.headers.always, ...cacheStatus, ...extra]);
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
