import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Event, Manifest, MediaDetail, MediaExplanation, Problem, ProblemCode } from '@mds/client';

/** The operator's token of every scripted service. */
export const TOKEN = 'operator-token-1';

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** A small stand-in for the service that speaks its contract, on a free port. */
export interface ScriptedService extends AsyncDisposable {
  url: string;
  /** Newest first, as the service lists them. */
  media: MediaDetail[];
  /** Every request, `METHOD /path?query`, in the order of arrival. */
  requests: string[];
  /** Headers of the latest request. */
  headers(): IncomingMessage['headers'];
  /** Answers instead of the script, for requests whose `METHOD /path` starts with the key. */
  on(prefix: string, handler: Handler): void;
  /** The number of polls until a new media object is ready. */
  pollsUntilReady: number;
  /** The answers to `explain`, by id of the media object. */
  explanations: Map<string, MediaExplanation>;
  /** Whether the service has events; older ones have none. */
  hasEvents: boolean;
  /** The open event streams. */
  listeners: Set<ServerResponse>;
  /** Sends an event to all open streams. */
  sendEvent(event: Event): void;
  /** Bytes per second at which uploads are read; 0 for no limit. */
  bytesPerSecond: number;
}

/** A ready media object; `n` determines its id. */
export function mediaObject(n: number, change: Partial<MediaDetail> = {}): MediaDetail {
  const id = `med_01k0c4s6q8y2v4w6x8z0a2${String(n).padStart(4, '0')}`;
  const rendition = (name: string, edge: number) => ({
    name,
    extension: 'webp',
    content_type: 'image/webp',
    revision: '0a1b2c3d',
    state: 'ready' as const,
    reason: null,
    bytes: edge * 10,
    files: 1,
    width: edge,
    height: Math.round((edge * 3) / 4),
    url: `/media/${id}/${name}.webp`,
    immutable_url: `/media/${id}/${name}.0a1b2c3d.webp`,
  });
  return {
    id,
    created_at: new Date(Date.now() - n * 3_600_000).toISOString().replace(/\.\d+Z$/, 'Z'),
    content_type: 'image/jpeg',
    bytes: 2_400_000,
    width: 4032,
    height: 3024,
    status: 'ready',
    filename: `photo-${n}.jpg`,
    sha256: createHash('sha256').update(String(n)).digest('hex'),
    kind: 'image',
    duration: null,
    codecs: ['jpeg'],
    thumbhash: null,
    warnings: [],
    error: null,
    attempts: 1,
    progress: null,
    renditions: [rendition('thumb', 320), rendition('large', 2048)],
    ...change,
  };
}

/** Changes the status of a media object, and sends the event. */
export async function change(
  service: ScriptedService,
  id: string,
  status: 'processing' | 'ready' | 'failed',
  progress: number | null = null,
): Promise<void> {
  const found = service.media.find((it) => it.id === id);
  if (!found) throw new Error(`There is no media object ${id}`);
  const error =
    status === 'failed' ? { code: 'corrupt_media', message: 'The file is damaged.', retryable: false } : null;
  Object.assign(found, { status, progress, error });
  const at = { id: String(Date.now()), created_at: '2026-01-31T08:15:00Z' };
  service.sendEvent({ ...at, type: `media.${status}`, data: { id, status, error } });
  // Serialised and parsed, as over the network.
  await new Promise((resolve) => setTimeout(resolve, 50));
}

/** Answers with JSON. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, {
    'content-type': status >= 400 ? 'application/problem+json' : 'application/json',
  });
  response.end(JSON.stringify(body));
}

/** Answers with a problem document. */
export function sendProblem(
  response: ServerResponse,
  status: number,
  code: ProblemCode,
  detail: string,
  errors?: Problem['errors'],
): void {
  const problem: Problem = {
    type: `https://mds.invalid/problems/${code}`,
    title: code,
    status,
    detail,
    instance: '/',
    code,
    request_id: 'req-1',
    ...(errors && { errors }),
  };
  sendJson(response, status, problem);
}

/** Starts a scripted service; dispose of it to stop it. */
export async function startService(): Promise<ScriptedService> {
  const overrides: [string, Handler][] = [];
  const polls = new Map<string, number>();
  let latestHeaders: IncomingMessage['headers'] = {};

  const server = createServer((request, response) => {
    const line = `${request.method} ${request.url}`;
    service.requests.push(line);
    latestHeaders = request.headers;
    const override = overrides.findLast(([prefix]) => line.startsWith(prefix));
    const handler = override?.[1] ?? script;
    Promise.resolve(handler(request, response)).catch((error: unknown) => response.destroy(error as Error));
  });

  const script: Handler = async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://service');
    const [, id, action] = /^\/(?:control\/v1\/)?media\/([^/]+)\/?(.*)$/.exec(url.pathname) ?? [];
    if (url.pathname.startsWith('/control/') && request.headers.authorization !== `Bearer ${TOKEN}`) {
      return sendProblem(response, 401, 'unauthorized', 'A valid token is needed.');
    }
    if (url.pathname === '/control/v1/events') return listen(response);
    if (url.pathname === '/api/v1/media') return sendJson(response, 200, page(url, publicFields));
    if (url.pathname === '/control/v1/media' && request.method === 'GET')
      return sendJson(
        response,
        200,
        page(url, (it) => it),
      );
    if (url.pathname === '/control/v1/media') return ingest(url, request, response);
    const found = service.media.find((it) => it.id === id);
    if (id === undefined || !found) {
      return sendProblem(response, 404, 'media_not_found', `There is no media object ${id ?? url.pathname}.`);
    }
    if (url.pathname.startsWith('/media/')) return deliver(found, action ?? '', response);
    if (request.method === 'DELETE') {
      service.media.splice(service.media.indexOf(found), 1);
      response.writeHead(204).end();
      return;
    }
    if (action === 'retry') {
      if (found.status !== 'failed') return sendProblem(response, 409, 'state_conflict', `${id} is ${found.status}.`);
      found.status = 'queued';
      return sendJson(response, 202, found);
    }
    if (action === 'explain') return sendJson(response, 200, service.explanations.get(found.id));
    advance(found);
    return sendJson(response, 200, found);
  };

  const listen = (response: ServerResponse) => {
    if (!service.hasEvents) return sendProblem(response, 404, 'not_found', 'There is nothing at this path.');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 50\n\n');
    service.listeners.add(response);
    response.on('close', () => service.listeners.delete(response));
  };

  const advance = (found: MediaDetail) => {
    // With events, the test changes the status, not the polls.
    if (service.hasEvents) return;
    if (found.status !== 'queued' && found.status !== 'processing') return;
    const count = (polls.get(found.id) ?? 0) + 1;
    polls.set(found.id, count);
    found.status = count >= service.pollsUntilReady ? 'ready' : 'processing';
    if (found.status === 'ready' && found.filename?.includes('broken')) {
      found.status = 'failed';
      found.error = { code: 'corrupt_media', message: 'The file is damaged.', retryable: false };
    }
  };

  const page = <T>(url: URL, view: (it: MediaDetail) => T) => {
    const limit = Number(url.searchParams.get('limit') ?? 25);
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const status = url.searchParams.get('status');
    const all = service.media.filter((it) => status === null || it.status === status);
    const next = start + limit < all.length ? String(start + limit) : null;
    return { object: 'list', data: all.slice(start, start + limit).map(view), next_cursor: next };
  };

  const ingest = async (url: URL, request: IncomingMessage, response: ServerResponse) => {
    const filename = url.searchParams.get('filename');
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.byteLength;
      hash.update(chunk);
      if (service.bytesPerSecond > 0) {
        await new Promise((resolve) => setTimeout(resolve, (chunk.byteLength / service.bytesPerSecond) * 1000));
      }
    }
    if (filename?.endsWith('.txt')) {
      return sendProblem(response, 422, 'unsupported_format', 'The file is not of an accepted format.');
    }
    const sha256 = hash.digest('hex');
    const existing = service.media.find((it) => it.sha256 === sha256);
    if (existing && url.searchParams.get('duplicate') !== 'allow') return sendJson(response, 200, existing);
    const made = mediaObject(1000 + service.media.length, {
      filename,
      sha256,
      bytes,
      status: 'queued',
      renditions: [],
    });
    service.media.unshift(made);
    return sendJson(response, 201, made);
  };

  const deliver = (found: MediaDetail, name: string, response: ServerResponse) => {
    if (name === 'manifest.json') return sendJson(response, 200, manifestOf(found));
    const rendition = found.renditions.find((it) => it.url.endsWith(`/${name}`));
    if (!rendition) return sendProblem(response, 404, 'rendition_not_found', 'There is no such rendition.');
    response.writeHead(200, { 'content-type': rendition.content_type, 'content-length': rendition.bytes ?? 0 });
    response.end(Buffer.alloc(rendition.bytes ?? 0, 7));
  };

  const service: ScriptedService = {
    url: '',
    media: [],
    requests: [],
    pollsUntilReady: 2,
    bytesPerSecond: 0,
    explanations: new Map(),
    hasEvents: false,
    listeners: new Set(),
    sendEvent(event) {
      const id = 'id' in event ? `id: ${event.id}\n` : '';
      for (const it of service.listeners) it.write(`${id}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    },
    headers: () => latestHeaders,
    on: (prefix, handler) => {
      overrides.push([prefix, handler]);
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return service;
}

function publicFields({ id, created_at, content_type, bytes, width, height, status }: MediaDetail) {
  return { id, created_at, content_type, bytes, width, height, status };
}

function manifestOf({ id, kind, width, height, duration, thumbhash, renditions }: MediaDetail): Manifest {
  return {
    object: 'manifest',
    id,
    kind,
    width,
    height,
    duration,
    thumbhash,
    poster: null,
    storyboard: null,
    renditions: renditions
      .filter(({ state }) => state === 'ready')
      .map(({ state: _, reason: __, revision: ___, files: ____, bytes, ...rest }) => ({ bytes: bytes ?? 0, ...rest })),
  };
}
