import { type IncomingMessage, Server, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PROBLEM_CONTENT_TYPE, type Problem, type ProblemCode } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { problemOf } from '../http/problem.ts';
import { newRequestId, REQUEST_ID_HEADER } from '../http/request-id.ts';
import { pathOf, toOriginForm } from '../http/request-path.ts';
import { markAwaitingContinue } from '../http/unread-body.ts';
import { type HotAnswerer, type HotConnection, lookAfter } from './hot-connection.ts';
import { InnerConnection } from './inner-connection.ts';

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
 * @param parts.answerHot asked first, for requests that are simple enough to be read without node:http
 */
export function createHttpServer(
  { handle, answerHot }: { handle: RequestHandler; answerHot: HotAnswerer },
  { headersTimeoutMs = HEADERS_TIMEOUT_MS, checkEveryMs = CHECK_EVERY_MS, keepAliveMs = KEEP_ALIVE_MS } = {},
): Server {
  const answering = new WeakSet<Duplex>();
  const open = new Map<Socket, HotConnection>();
  const state: DrainState = {
    leaving: false,
    open,
    isResting(socket) {
      const connection = open.get(socket);
      return connection?.isHandedOver ? !answering.has(socket) : (connection?.isResting() ?? true);
    },
  };
  const server = new FrontServer(state, {
    // A missing Host is answered by the handler, with a problem document.
    requireHostHeader: false,
    keepAliveTimeout: keepAliveMs,
    headersTimeout: headersTimeoutMs,
    // An upload of 10 GiB over a slow line takes hours; silence is what ends it.
    requestTimeout: 0,
    connectionsCheckingInterval: checkEveryMs,
  });
  states.set(server, state);
  const attach = takeConnectionsFrom(server);
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => open.delete(socket));
    const isLeaving = () => state.leaving;
    const times = { headTimeoutMs: headersTimeoutMs, keepAliveMs };
    open.set(socket, lookAfter(socket, { answer: answerHot, attach, isLeaving, ...times }));
  });
  const take: RequestHandler = (req, res) => {
    const connection: Duplex = req.socket;
    answering.add(connection);
    res.once('close', () => {
      answering.delete(connection);
      if (connection instanceof InnerConnection) connection.answered();
    });
    // Node writes `Connection: close` then (RFC 9112, 9.6).
    if (state.leaving) res.shouldKeepAlive = false;
    toOriginForm(req);
    handle(req, res);
  };
  server.on('request', take);
  server.on('checkContinue', (req, res) => {
    markAwaitingContinue(req);
    take(req, res);
  });
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || answering.has(socket)) socket.destroy(error);
    else socket.end(clientErrorAnswer(error), () => socket.destroy());
  });
  return server;
}

/** Closes also the connections of which node:http knows nothing yet, or only what is within them. */
class FrontServer extends Server {
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
   * Nothing: {@link drainServer} closes what rests. `close` calls this, and node:http would take connections for idle whose answer
   * is written but not taken by their reader, and cut it off.
   */
  override closeIdleConnections(): void {
    // See above.
  }
}

/**
 * Has a server's new connections come to us alone. What node:http does with each is done when the function that is returned is
 * called; it takes every Duplex, as the documentation of the event `connection` says.
 */
function takeConnectionsFrom(server: Server): (connection: Duplex) => void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  return (connection) => {
    for (const listener of listeners) listener.call(server, connection);
  };
}

interface DrainState {
  /** True: each connection ends with the answer that it carries. */
  leaving: boolean;
  open: ReadonlyMap<Socket, HotConnection>;
  /** Whether a connection carries no request at the moment. */
  isResting(socket: Socket): boolean;
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
    for (const socket of state?.open.keys() ?? []) {
      if (ms >= deadlineMs || (ms >= restMs && state?.isResting(socket))) socket.destroy();
    }
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
