import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A source whose behavior a test scripts; it ends with the test. */
export interface ScriptedSource {
  port: number;
  /** The URL of a path on this server. */
  url(path: string): string;
  /** The received requests: `GET /path`, followed by ` bytes=…` if a range was requested. */
  requests: string[];
  headers: IncomingMessage['headers'][];
  responses: ServerResponse[];
}

type Handler = (request: IncomingMessage, response: ServerResponse, n: number) => void;

export interface SourceOptions {
  host?: string;
  port?: number;
  /** Serves HTTPS. */
  tls?: { key: string; cert: string };
}

/** Starts an HTTP server; `handler` answers the n-th request, from 1. */
export async function startSource(handler: Handler, options: SourceOptions = {}): Promise<ScriptedSource> {
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const responses: ServerResponse[] = [];
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    const { range } = request.headers;
    headers.push(request.headers);
    responses.push(response);
    response.on('error', () => undefined);
    handler(request, response, requests.push(`${request.method} ${request.url}${range ? ` ${range}` : ''}`));
  };
  const server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
  const { host = '127.0.0.1' } = options;
  const port = await listenOn(server, options);
  const scheme = options.tls ? 'https' : 'http';
  return { port, url: (path) => `${scheme}://${host}:${port}${path}`, requests, headers, responses };
}

/** Starts a raw TCP server, for responses that a proper HTTP server would never send. */
export async function startRawSource(speak: (socket: Socket, n: number) => void): Promise<ScriptedSource> {
  const requests: string[] = [];
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (head: Buffer) => {
      const text = head.toString('latin1');
      const range = /^range: (.*)$/im.exec(text)?.[1];
      speak(socket, requests.push(`${text.split(' ', 2).join(' ')}${range ? ` ${range}` : ''}`));
    });
  });
  const port = await listenOn(server, {});
  return { port, url: (path) => `http://127.0.0.1:${port}${path}`, requests, headers: [], responses: [] };
}

async function listenOn(server: Server, { host = '127.0.0.1', port = 0 }: SourceOptions): Promise<number> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };
  server.on('connection', keep);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** Sends a file as a good server would: with ranges, validator and length. */
export function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  { bytes, etag, cutAfter }: { bytes: Buffer; etag?: string; cutAfter?: number },
): void {
  const { range, 'if-range': ifRange } = request.headers;
  const from = range !== undefined && ifRange === etag ? Number(/^bytes=(\d+)-$/.exec(range)?.[1]) : 0;
  const rest = bytes.subarray(from);
  response.writeHead(from > 0 ? 206 : 200, {
    ...(etag === undefined ? {} : { etag }),
    'content-length': rest.length,
    ...(from > 0 ? { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : {}),
  });
  if (cutAfter === undefined) response.end(rest);
  // The last write leaves before the connection is cut.
  else response.write(rest.subarray(0, cutAfter), () => response.socket?.end());
}
