import { type Agent, type IncomingHttpHeaders, request } from 'node:http';

/** A request as it goes to one of the sides. */
export interface PlainRequest {
  method: string;
  path: string;
  headers: Readonly<Record<string, string>>;
  /** Bytes of the body after which the reader leaves; null: it reads to the end. */
  leavesAfter: number | null;
}

/** A response. */
export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  /** The body, as far as it was read. */
  body: Buffer;
}

/** Sends a request and reads its response. Rejects if the connection breaks before the end. */
export function exchange(
  url: string,
  agent: Agent,
  { method, path, headers, leavesAfter }: PlainRequest,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const broken = (cause: Error) =>
      reject(new Error(`${cause.message}: ${method} ${url}${path} ${JSON.stringify(headers)}`, { cause }));
    // A reader that leaves closes the connection, so it must not be shared.
    const connection = leavesAfter === null ? agent : false;
    const outgoing = request(new URL(path, url), { method, headers, agent: connection }, (incoming) => {
      const chunks: Buffer[] = [];
      let length = 0;
      const answered = () =>
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) });
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        if (leavesAfter === null || length < leavesAfter) return;
        answered();
        incoming.destroy();
      });
      incoming.on('error', broken);
      incoming.on('end', answered);
    });
    outgoing.on('error', broken);
    outgoing.end();
  });
}

/** A range of a representation. */
export interface Part {
  contentType: string | null;
  contentRange: string;
  bytes: Buffer;
}

/**
 * The parts of a 206: the one that it is, or those of its multipart/byteranges (RFC 9110, 14.6).
 * @throws if the body contradicts its header fields
 */
export function partsOf({ headers, body }: Answer): Part[] {
  const contentType = headers['content-type'] ?? null;
  const boundary = /^multipart\/byteranges; boundary="?([^"]+)"?$/.exec(contentType ?? '')?.[1];
  if (boundary === undefined) return [{ contentType, contentRange: headers['content-range'] ?? 'none', bytes: body }];
  const parts: Part[] = [];
  const delimiter = `--${boundary}`;
  let at = body.indexOf(delimiter, 0, 'latin1');
  while (at >= 0 && body.toString('latin1', at + delimiter.length, at + delimiter.length + 2) !== '--') {
    const headAt = at + delimiter.length + 2;
    const headEnd = body.indexOf('\r\n\r\n', headAt, 'latin1');
    const head = body.toString('latin1', headAt, headEnd);
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim();
    const contentRange = field('Content-Range') ?? 'none';
    const length = lengthOf(contentRange);
    const bytes = body.subarray(headEnd + 4, headEnd + 4 + length);
    parts.push({ contentType: field('Content-Type') ?? null, contentRange, bytes });
    at = headEnd + 4 + length + 2;
    if (body.toString('latin1', at, at + delimiter.length) !== delimiter)
      throw new Error('A part is not followed by a delimiter.');
  }
  if (parts.length === 0) throw new Error('The body of a multipart/byteranges has no part.');
  return parts;
}

function lengthOf(contentRange: string): number {
  const { start, end } = stretchOf(contentRange);
  return end - start + 1;
}

/** @throws if it is no Content-Range of a 206 */
export function stretchOf(contentRange: string): { start: number; end: number; total: number } {
  const [, start, end, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(contentRange) ?? [];
  if (start === undefined || Number(end) < Number(start)) throw new Error(`"${contentRange}" says nothing of a part.`);
  return { start: Number(start), end: Number(end), total: Number(total) };
}
