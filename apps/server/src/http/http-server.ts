import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { PROBLEM_CONTENT_TYPE, type Problem, type ProblemCode } from '@mds/contract';
import { AppError } from './app-error.ts';
import { problemOf } from './problem.ts';
import { newRequestId, REQUEST_ID_HEADER } from './request-id.ts';
import { pathOf, toOriginForm } from './request-path.ts';
import { markAwaitingContinue } from './unread-body.ts';

/** Answers one request. */
export type RequestHandler = (req: IncomingMessage, res: ServerResponse) => void;

/** A head must be there within this time; bodies may take as long as they keep coming. */
const HEADERS_TIMEOUT_MS = 30_000;
const CHECK_EVERY_MS = 10_000;
/** Longer than the idle time of common load balancers, so that they and not we close a connection that rests. */
const KEEP_ALIVE_MS = 75_000;

/**
 * A server for {@link RequestHandler} that answers what never becomes a request, too: broken, oversized and slow heads get
 * a problem document. A sender that waits for `100 Continue` is left to wait until somebody wants its body.
 */
export function createHttpServer(
  handler: RequestHandler,
  { headersTimeoutMs = HEADERS_TIMEOUT_MS, checkEveryMs = CHECK_EVERY_MS } = {},
): Server {
  const server = createServer({
    // A missing Host is answered by the handler, with a problem document.
    requireHostHeader: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: headersTimeoutMs,
    // An upload of 10 GiB over a slow line takes hours; silence is what ends it.
    requestTimeout: 0,
    connectionsCheckingInterval: checkEveryMs,
  });
  const answering = new WeakSet<Socket>();
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  connections.set(server, () => [...open].filter((socket) => !answering.has(socket)));
  const handle: RequestHandler = (req, res) => {
    answering.add(req.socket);
    res.once('close', () => answering.delete(req.socket));
    toOriginForm(req);
    handler(req, res);
  };
  server.on('request', handle);
  server.on('checkContinue', (req, res) => {
    markAwaitingContinue(req);
    handle(req, res);
  });
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || answering.has(socket as Socket)) socket.destroy(error);
    else socket.end(clientErrorAnswer(error), () => socket.destroy());
  });
  return server;
}

/** The connections of each server that carry no request at the moment. */
const connections = new WeakMap<Server, () => Socket[]>();
const DRAIN_LOOK_MS = 50;

/**
 * Takes no more connections, finishes the requests that are being answered, and ends every connection that carries none:
 * also those on which nothing, or half a head, was ever sent, which Node does not count as idle.
 */
export async function drainServer(server: Server): Promise<void> {
  const endResting = () => {
    for (const socket of connections.get(server)?.() ?? []) socket.destroy();
  };
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // At once for those that rest now, and again for those whose answer ends meanwhile.
  endResting();
  const look = setInterval(endResting, DRAIN_LOOK_MS);
  await closed.finally(() => clearInterval(look));
}

/** What there is to say of each; everything else is a broken head. */
const CLIENT_ERRORS: Record<string, { code: ProblemCode; detail: string }> = {
  HPE_HEADER_OVERFLOW: {
    code: 'headers_too_large',
    detail: 'The URL and the headers of a request may have 16 KiB together. Send fewer or shorter ones.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: 'request_timeout',
    detail: 'The head of the request did not arrive in time. Send it again.',
  },
};
const BROKEN_HEAD: { code: ProblemCode; detail: string } = {
  code: 'invalid_request',
  detail: 'This is not a valid HTTP request. Look at its first line and headers.',
};

function clientErrorAnswer(error: NodeJS.ErrnoException & { rawPacket?: Buffer }): string {
  const requestId = newRequestId();
  const target = /^[A-Z]+ ([\x21-\x7e]+)/.exec(error.rawPacket?.toString('latin1', 0, 1024) ?? '')?.[1] ?? '/';
  const { code, detail } = CLIENT_ERRORS[error.code ?? ''] ?? BROKEN_HEAD;
  const problem: Problem = problemOf(new AppError(code, detail), { instance: pathOf(target), requestId });
  const body = JSON.stringify(problem);
  return [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    'Connection: close',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `${REQUEST_ID_HEADER}: ${requestId}`,
    `Content-Type: ${PROBLEM_CONTENT_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}
