import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Answers the n-th request, from 1. */
export type Handler = (request: IncomingMessage, response: ServerResponse, n: number) => void | Promise<void>;

/** A server on a free port whose behavior a test scripts. */
export interface TestServer extends AsyncDisposable {
  url: string;
  /** `METHOD /path?query` of every request. */
  requests: string[];
  /** Headers of every request. */
  headers: IncomingMessage['headers'][];
}

/** Starts a server; disposing of it also closes open connections. */
export async function startServer(handler: Handler): Promise<TestServer> {
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const server = createServer((request, response) => {
    const n = requests.push(`${request.method} ${request.url}`);
    headers.push(request.headers);
    Promise.resolve(handler(request, response, n)).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    headers,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Answers with JSON; a problem document from status 400 up. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    'content-type': status >= 400 ? 'application/problem+json' : 'application/json',
    ...headers,
  });
  response.end(JSON.stringify(body));
}

/** Answers with a problem document. */
export function sendProblem(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
): void {
  const problem = {
    type: 'about:blank',
    title: code,
    status,
    detail: `detail of ${code}`,
    instance: '/',
    code,
    request_id: 'req-7',
  };
  sendJson(response, status, problem, headers);
}

/** Reads the whole body of a request. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** The error of a rejected promise; fails if the promise resolves. */
export async function rejection(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('It was expected to fail, and did not');
}
