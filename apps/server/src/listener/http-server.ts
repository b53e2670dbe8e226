import { type IncomingMessage, Server, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PROBLEM_CONTENT_TYPE, type Problem, type ProblemCode } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { problemOf } from '../http/problem.ts';
import { newRequestId, REQUEST_ID_HEADER } from '../http/request-id.ts';
import { pathOf, toOriginForm } from '../http/request-path.ts';
import { markAwaitingContinue } from '../http/unread-body.ts';
import { type HotAnswerer, HotConnection } from './hot-connection.ts';
import { InnerConnection } from './inner-connection.ts';

/** Answers one request. */
export type RequestHandler = (req: IncomingMessage, res: ServerResponse) => void;

/** Time for the head of a request. A body may take any time, as long as bytes arrive. */
const HEADERS_TIMEOUT_MS = 30_000;
const CHECK_EVERY_MS = 10_000;
/** Longer than the idle time of common load balancers, so that they close idle connections, not we. */
const KEEP_ALIVE_MS = 75_000;

/**
 * A server for {@link RequestHandler}. Broken, oversized and slow heads, which never become requests, get a problem document.
 * A sender that waits for `100 Continue` gets it when the handler wants the body.
 * @param parts.answerFromMemory called first, for requests that are simple enough to be read without node:http
 */
export function createHttpServer(
  { handle, answerFromMemory }: { handle: RequestHandler; answerFromMemory: HotAnswerer },
  { headersTimeoutMs = HEADERS_TIMEOUT_MS, checkEveryMs = CHECK_EVERY_MS, keepAliveMs = KEEP_ALIVE_MS } = {},
): Server {
  const answering = new WeakSet<Duplex>();
  const open = new Map<Socket, HotConnection>();
  const state: DrainState = {
    leaving: false,
    open,
    isIdle(socket) {
      const connection = open.get(socket);
      return connection?.isHandedOver ? !answering.has(socket) : (connection?.isIdle ?? true);
    },
  };
  const server = new HotServer(state, {
    // The handler answers a missing Host, with a problem document.
    requireHostHeader: false,
    keepAliveTimeout: keepAliveMs,
    headersTimeout: headersTimeoutMs,
    // An upload of 10 GiB over a slow line takes hours. Only silence ends it.
    requestTimeout: 0,
    connectionsCheckingInterval: checkEveryMs,
  });
  states.set(server, state);
  const attach = takeConnectionsFrom(server);
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => open.delete(socket));
    const isLeaving = () => state.leaving;
    const times = { headTimeoutMs: headersTimeoutMs, keepAliveMs };
    open.set(socket, new HotConnection(socket, { answer: answerFromMemory, attach, isLeaving, ...times }));
  });
  const answer: RequestHandler = (req, res) => {
    const connection: Duplex = req.socket;
    answering.add(connection);
    res.once('close', () => {
      answering.delete(connection);
      if (connection instanceof InnerConnection) connection.answered();
    });
    // Node writes `Connection: close` (RFC 9112, 9.6).
    if (state.leaving) res.shouldKeepAlive = false;
    toOriginForm(req);
    handle(req, res);
  };
  server.on('request', answer);
  server.on('checkContinue', (req, res) => {
    markAwaitingContinue(req);
    answer(req, res);
  });
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || answering.has(socket)) socket.destroy(error);
    else socket.end(clientErrorAnswer(error), () => socket.destroy());
  });
  return server;
}

/** Also closes connections that node:http does not know, or of which it knows only the inner connection. */
class HotServer extends Server {
  readonly #state: DrainState;

  constructor(state: DrainState, options: ServerOptions) {
    super(options);
    this.#state = state;
  }

  override closeAllConnections(): void {
    for (const socket of this.#state.open.keys()) socket.destroy();
    super.closeAllConnections();
  }

  /**
   * Does nothing: {@link drainServer} closes idle connections. `close` calls this, and node:http would cut off connections whose
   * answer is written but not yet taken by their reader.
   */
  override closeIdleConnections(): void {
    // See above.
  }
}

/**
 * Takes new connections away from node:http. The function that is returned gives one to node:http, which accepts any Duplex,
 * as documented for the event `connection`.
 */
function takeConnectionsFrom(server: Server): (connection: Duplex) => void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  return (connection) => {
    for (const listener of listeners) listener.call(server, connection);
  };
}

interface DrainState {
  /** True: each connection ends with its current answer. */
  leaving: boolean;
  open: ReadonlyMap<Socket, HotConnection>;
  /** Whether no request of a connection is being answered. */
  isIdle(socket: Socket): boolean;
}

const states = new WeakMap<Server, DrainState>();
const DRAIN_LOOK_MS = 50;
/** Time for a request on a connection that was just accepted, or whose request is on its way. */
const REST_MS = 250;
/** Answers not complete by then are cut off. Orchestrators wait longer, so there is time to give back leases. */
export const DRAIN_DEADLINE_MS = 18_000;

/**
 * From now on every answer ends its connection. Clients open new ones, which a load balancer sends elsewhere as soon as it sees that
 * this process is not ready. Until then they are accepted and answered.
 */
export function announceLeaving(server: Server): void {
  const state = states.get(server);
  if (state) state.leaving = true;
}

/**
 * Accepts no more connections, completes the answers under way, and ends every other connection. That includes connections on which
 * nothing, or half a head, was ever sent, which Node does not count as idle.
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
    for (const socket of state?.open.keys() ?? []) {
      if (ms >= deadlineMs || (ms >= restMs && state?.isIdle(socket))) socket.destroy();
    }
  }, DRAIN_LOOK_MS);
  await closed.finally(() => clearInterval(look));
}

/** Problems with a detail of their own. Everything else is a broken head. */
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
