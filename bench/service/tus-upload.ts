import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** Header fields of every request of tus 1.0.0. */
const protocol = { 'tus-resumable': '1.0.0' };
/** A new connection for each request: the other side may close a kept one just when it is used again. */
const agent = new Agent();

/** The URL for new uploads, and header fields that its requests need besides those of the protocol. */
export interface TusEndpoint {
  readonly url: string;
  readonly headers: OutgoingHttpHeaders;
}

/** Creates an upload of `bytes` bytes. @returns its URL @throws if the answer is not 201 */
export async function createUpload(endpoint: TusEndpoint, bytes: number): Promise<string> {
  const headers = { ...protocol, ...endpoint.headers, 'upload-length': bytes };
  const response = await ask(request(endpoint.url, { method: 'POST', agent, headers }));
  const { location } = response.headers;
  if (response.statusCode !== 201 || location === undefined) {
    throw new Error(`The creation of an upload was answered ${response.statusCode}.`);
  }
  return new URL(location, endpoint.url).href;
}

/** Starts a PATCH with the rest of an upload from `offset` on; the caller writes its body. */
export function openPatch(endpoint: TusEndpoint, upload: string, offset: number, bytes: number): ClientRequest {
  const headers = {
    ...{ ...protocol, ...endpoint.headers, 'upload-offset': offset, 'content-length': bytes },
    'content-type': 'application/offset+octet-stream',
  };
  return request(upload, { method: 'PATCH', agent, headers });
}

/** The current offset of an upload. */
export async function offsetOf(endpoint: TusEndpoint, upload: string): Promise<number> {
  const response = await ask(request(upload, { method: 'HEAD', agent, headers: { ...protocol, ...endpoint.headers } }));
  if (response.statusCode !== 200) throw new Error(`The question for an offset was answered ${response.statusCode}.`);
  return Number(response.headers['upload-offset']);
}

/**
 * Uploads a file of these pieces with one PATCH.
 * @returns milliseconds from the first request to the answer that finished it, and the headers of that answer
 * @throws if that answer is not 204
 */
export async function uploadOverTus(
  endpoint: TusEndpoint,
  pieces: readonly Buffer[],
): Promise<{ ms: number; headers: IncomingMessage['headers'] }> {
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  const start = performance.now();
  const upload = await createUpload(endpoint, bytes);
  const patch = openPatch(endpoint, upload, 0, bytes);
  const answered = once(patch, 'response') as Promise<[IncomingMessage]>;
  await pipeline(Readable.from(pieces, { objectMode: false, highWaterMark: 1 }), patch);
  const [response] = await answered;
  const ms = performance.now() - start;
  let body = '';
  for await (const chunk of response) body += chunk;
  if (response.statusCode !== 204) throw new Error(`The upload was answered with ${response.statusCode}: ${body}`);
  return { ms, headers: response.headers };
}

async function ask(asking: ClientRequest): Promise<IncomingMessage> {
  const answered = once(asking, 'response') as Promise<[IncomingMessage]>;
  asking.end();
  const [response] = await answered;
  response.resume();
  await once(response, 'end');
  return response;
}
