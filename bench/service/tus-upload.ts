import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** What every request of tus 1.0.0 carries. */
const protocol = { 'tus-resumable': '1.0.0' };
/** A connection for each request: one that was kept may be closed by the other side just when it is used again. */
const agent = new Agent();

/** Where uploads are made, and what its requests need beside the protocol's own headers. */
export interface TusEndpoint {
  readonly url: string;
  readonly headers: OutgoingHttpHeaders;
}

/** Makes an upload of so many bytes. @returns its address @throws where the answer is no 201 */
export async function createUpload(endpoint: TusEndpoint, bytes: number): Promise<string> {
  const headers = { ...protocol, ...endpoint.headers, 'upload-length': bytes };
  const response = await ask(request(endpoint.url, { method: 'POST', agent, headers }));
  const { location } = response.headers;
  if (response.statusCode !== 201 || location === undefined) {
    throw new Error(`The creation of an upload was answered ${response.statusCode}.`);
  }
  return new URL(location, endpoint.url).href;
}

/** Begins to send the rest of an upload from `offset` on; its body is written by the caller. */
export function openPatch(endpoint: TusEndpoint, upload: string, offset: number, bytes: number): ClientRequest {
  const headers = {
    ...{ ...protocol, ...endpoint.headers, 'upload-offset': offset, 'content-length': bytes },
    'content-type': 'application/offset+octet-stream',
  };
  return request(upload, { method: 'PATCH', agent, headers });
}

/** What has arrived of an upload. */
export async function offsetOf(endpoint: TusEndpoint, upload: string): Promise<number> {
  const response = await ask(request(upload, { method: 'HEAD', agent, headers: { ...protocol, ...endpoint.headers } }));
  if (response.statusCode !== 200) throw new Error(`The question for an offset was answered ${response.statusCode}.`);
  return Number(response.headers['upload-offset']);
}

/**
 * Uploads a file of these pieces with one PATCH. @returns milliseconds from the first request to the answer that finished it, and that
 * answer's headers @throws where it is no 204
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
  let said = '';
  for await (const chunk of response) said += chunk;
  if (response.statusCode !== 204) throw new Error(`The upload was answered ${response.statusCode}: ${said}`);
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
