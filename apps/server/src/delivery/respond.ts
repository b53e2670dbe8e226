import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { ByteRange } from './byte-ranges.ts';
import type { FoundObject } from './object-cache.ts';
import { cacheHeaders, type Representation } from './representation.ts';
import { type BodyPart, giveUpWhenStalled, sendFile } from './send-body.ts';

/** From this size a reader in memory is watched: what it does not take stays pinned for it. */
const WATCHED_BYTES = 256 * 1024;

/** How the cache took part in an answer. */
export type CacheDecision = Pick<FoundObject, 'cacheStatus' | 'stored' | 'collapsed'>;

/** Answers with no content: 304, and every HEAD. */
export function respondWithoutBody(
  response: ServerResponse,
  status: 200 | 304,
  representation: Representation,
  decision: CacheDecision & { region: string },
): void {
  const { always, content } = representation.headers;
  const described = status === 200 ? [...content, 'Content-Length', String(representation.bytes)] : [];
  response.writeHead(status, [...described, ...always, ...cacheHeaders(decision.region, decision)]);
  response.end();
}

/**
 * Answers with the whole representation, or with ranges of it.
 * @returns bytes handed over, once they are (from memory: at once)
 * @throws where a file can't be read to its end
 */
export function respondWithBody(
  response: ServerResponse,
  representation: Representation,
  ranges: readonly ByteRange[] | null,
  found: FoundObject,
  region: string,
): number | Promise<number> {
  const { headers, bytes } = representation;
  if (ranges === null) {
    if (found.cacheStatus === 'HIT') response.writeHead(200, headers.hit as string[]);
    else {
      const size = ['Content-Length', String(bytes)];
      response.writeHead(200, [...headers.content, ...size, ...headers.always, ...cacheHeaders(region, found)]);
    }
    if (Buffer.isBuffer(found.body)) return sendBuffers(response, [found.body]);
    return sendFile(response, found.body, [{ start: 0, end: bytes - 1 }]);
  }

  const partial =
    ranges.length === 1 && ranges[0] ? singleRange(representation, ranges[0]) : multipart(representation, ranges);
  response.writeHead(206, [...partial.headers, ...headers.always, ...cacheHeaders(region, found)]);
  if (!Buffer.isBuffer(found.body)) return sendFile(response, found.body, partial.parts);
  const body = found.body;
  return sendBuffers(
    response,
    partial.parts.map((part) => (Buffer.isBuffer(part) ? part : body.subarray(part.start, part.end + 1))),
  );
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

/** Sends what is in memory. The socket refers to the very bytes of the cache: nothing is copied, however slow the reader. */
function sendBuffers(response: ServerResponse, buffers: readonly Buffer[]): number {
  const last = buffers.length - 1;
  let bytes = 0;
  for (const [index, buffer] of buffers.entries()) {
    bytes += buffer.length;
    if (index < last) response.write(buffer);
    else response.end(buffer);
  }
  if (bytes > WATCHED_BYTES) giveUpWhenStalled(response);
  return bytes;
}
