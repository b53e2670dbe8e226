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
  const state: DrainState = {
    leaving: false,
    open,
    resting: () => [...open].filter((socket) => !answering.has(socket)),
  };
  states.set(server, state);
  const handle: RequestHandler = (req, res) => {
    answering.add(req.socket);
    res.once('close', () => answering.delete(req.socket));
    // Node writes `Connection: close` then (RFC 9112, 9.6).
    if (state.leaving) res.shouldKeepAlive = false;
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

interface DrainState {
  /** True: each connection ends with the answer that it carries. */
  leaving: boolean;
  open: ReadonlySet<Socket>;
  /** Those that carry no request at the moment. */
  resting(): Socket[];
}

const states = new WeakMap<Server, DrainState>();
const DRAIN_LOOK_MS = 50;
/** A connection that was just taken, or whose request is on its way, gets this long to say what it wants. */
const REST_MS = 250;
/** What is not finished by then is cut off: less than orchestrators wait, so that there is time to give back what is left. */
export const DRAIN_DEADLINE_MS = 18_000;

/**
 * From now on every answer ends its connection. Clients come back on new ones, which whoever balances the load sends elsewhere as
 * soon as it has seen that this process is not ready any more; until then they are taken and answered.
 */
export function announceLeaving(server: Server): void {
  const state = states.get(server);
  if (state) state.leaving = true;
}

/**
 * Takes no more connections, finishes the requests that are being answered, and ends every connection that carries none:
 * also those on which nothing, or half a head, was ever sent, which Node does not count as idle.
 */
export async function drainServer(
  server: Server,
  { deadlineMs = DRAIN_DEADLINE_MS, restMs = REST_MS } = {},
): Promise<void> {
  const state = states.get(server);
  announceLeaving(server);
  const began = performance.now();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const look = setInterval(() => {
    const ms = performance.now() - began;
    if (ms >= restMs) for (const socket of state?.resting() ?? []) socket.destroy();
    if (ms >= deadlineMs) for (const socket of state?.open ?? []) socket.destroy();
  }, DRAIN_LOOK_MS);
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
