import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { PROBLEM_CONTENT_TYPE } from '@mds/contract';
import { reasonOf } from '../base/error-reason.ts';
import type { Logger } from '../base/logger.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { createOriginAcceptance, type OriginAcceptance } from './origin-acceptance.ts';

/** A request to the origin. */
export interface OriginRequest {
  method?: 'GET' | 'POST';
  /** Path and query, percent-encoded. */
  target: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  json?: unknown;
  signal?: AbortSignal | undefined;
  /** For the head of the answer; default {@link ANSWER_MS}. */
  timeoutMs?: number;
  /** Between two pieces of the body; default {@link SILENCE_MS}. */
  silenceMs?: number;
  /** Sends the token. Default true. */
  authorize?: boolean;
  /** Many bytes: goes over connections of its own, so that lookups and reports never wait behind it. */
  bulk?: boolean;
}

/** Sends requests to the service that a point of presence belongs to. */
export interface OriginConnection {
  /**
   * Sends a request, and once more if the connection broke and the origin answers `/readyz`.
   * @returns the answer, whatever its status, with its body unread
   * @throws OriginUnavailableError if no answer comes; at once while the origin is known to be away
   */
  send(request: OriginRequest): Promise<IncomingMessage>;
  /** The same, with the body read to its end. */
  fetch(request: OriginRequest): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }>;
  /** Whether the origin accepts this node. Those who read its answers note it. */
  readonly acceptance: OriginAcceptance;
  /** False from the first failed request that `/readyz` does not contradict, until `/readyz` answers 200. */
  readonly isUp: boolean;
  /** Calls back when the origin is back. */
  onUp(listener: () => void): void;
  /** Calls back when it is away. */
  onDown(listener: () => void): void;
  stop(): void;
}

const ANSWER_MS = 5_000;
const SILENCE_MS = 20_000;
/** Every request of a point of presence may be repeated. */
const MAX_TRIES = 2;
/** Between two checks of an origin that is away. */
const CHECK_MS = 1_000;
/** For `/readyz`, after another request was not answered. */
const READY_MS = 3_000;
/** Largest answer that is read into memory. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** Sends one request over kept connections. */
interface Transmitter {
  transmit(outgoing: OriginRequest): Promise<IncomingMessage>;
  close(): void;
}

function createTransmitter(deps: { originUrl: string; token: string; userAgent: string }): Transmitter {
  const base = new URL(deps.originUrl);
  const isTls = base.protocol === 'https:';
  const pool = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16, scheduling: 'lifo' } as const;
  const makeAgent = () => (isTls ? new HttpsAgent(pool) : new HttpAgent(pool));
  const agents = { short: makeAgent(), bulk: makeAgent() };
  const open = isTls ? httpsRequest : httpRequest;

  const transmit = (outgoing: OriginRequest, isRetry = false): Promise<IncomingMessage> => {
    const { method = 'GET', target, headers, json, signal, timeoutMs = ANSWER_MS, silenceMs = SILENCE_MS } = outgoing;
    const body = json === undefined ? null : Buffer.from(JSON.stringify(json));
    const options: RequestOptions = {
      agent: outgoing.bulk ? agents.bulk : agents.short,
      method,
      signal,
      headers: {
        'user-agent': deps.userAgent,
        ...(outgoing.authorize === false ? {} : { authorization: `Bearer ${deps.token}` }),
        ...(body ? { 'content-type': 'application/json', 'content-length': body.length } : {}),
        ...headers,
      },
    };
    return new Promise((resolve, reject) => {
      const request = open(new URL(base.pathname.replace(/\/$/, '') + target, base), options);
      let deadline: NodeJS.Timeout | undefined;
      // The time counts from the connection on: a wait for our own full pool is not the fault of the origin.
      request.once('socket', () => {
        deadline = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      });
      request.once('response', (answer) => {
        clearTimeout(deadline);
        answer.setTimeout(silenceMs, () => answer.destroy(new Error(`the origin was silent for ${silenceMs} ms`)));
        resolve(answer);
      });
      request.once('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(deadline);
        if (signal?.aborted) reject(signal.reason);
        // The origin closed an idle connection in the moment in which it was used again. It may be well.
        else if (request.reusedSocket && !isRetry && ['ECONNRESET', 'EPIPE'].includes(error.code ?? '')) {
          resolve(transmit(outgoing, true));
        } else reject(error);
      });
      request.end(body ?? undefined);
    });
  };

  return {
    transmit,
    close() {
      agents.short.destroy();
      agents.bulk.destroy();
    },
  };
}

/** @param deps.originUrl base address, without a trailing slash */
export function createOriginConnection(deps: {
  originUrl: string;
  token: string;
  userAgent: string;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  checkMs?: number;
}): OriginConnection {
  const { originUrl, token, userAgent, logger, checkMs = CHECK_MS } = deps;
  const { transmit, close } = createTransmitter({ originUrl, token, userAgent });
  const whenUp = new Set<() => void>();
  const whenDown = new Set<() => void>();
  const acceptance = createOriginAcceptance({ originUrl, logger });
  let isUp = true;
  let checking: Promise<boolean> | null = null;
  let stopped = false;
  let checks: NodeJS.Timeout | undefined;

  const markDown = (error: unknown) => {
    if (!isUp || stopped) return;
    isUp = false;
    const reason = reasonOf(error);
    logger.warn({ reason, origin: originUrl }, 'origin does not answer; cached objects are served');
    checks = setInterval(checkReady, checkMs);
    checks.unref();
    for (const listener of whenDown) listener();
  };

  const markUp = () => {
    if (isUp || stopped) return;
    isUp = true;
    clearInterval(checks);
    logger.info({ origin: originUrl }, 'origin answers again');
    for (const listener of whenUp) listener();
  };

  const checkReady = () => {
    transmit({ target: '/readyz', authorize: false, timeoutMs: checkMs }).then(
      (answer) => {
        answer.resume();
        if (answer.statusCode === 200) markUp();
      },
      // Still away.
      () => undefined,
    );
  };

  /** Whether `/readyz` of the origin answers 200. Requests that fail at the same time share one check. */
  const isReady = (): Promise<boolean> => {
    checking ??= transmit({ target: '/readyz', authorize: false, timeoutMs: READY_MS })
      .then(
        (answer) => {
          answer.resume();
          return answer.statusCode === 200;
        },
        () => false,
      )
      .finally(() => {
        checking = null;
      });
    return checking;
  };

  const attempt = async (outgoing: OriginRequest): Promise<IncomingMessage> => {
    const answer = await transmit(outgoing);
    if (isFromOrigin(answer)) return answer;
    answer.resume();
    throw new Error(`a proxy in front of the origin answers ${answer.statusCode}`);
  };

  const send = async (outgoing: OriginRequest): Promise<IncomingMessage> => {
    for (let tries = 1; ; tries += 1) {
      if (!isUp) throw new OriginUnavailableError('The origin is away.');
      try {
        return await attempt(outgoing);
      } catch (error) {
        if (outgoing.signal?.aborted) throw error;
        // If one of several nodes of the origin has died, another one answers.
        if (!(await isReady())) markDown(error);
        else if (tries < MAX_TRIES) continue;
        throw new OriginUnavailableError('The origin does not answer.', { cause: error });
      }
    }
  };

  const read = async (answer: IncomingMessage): Promise<Buffer> => {
    if (Number(answer.headers['content-length'] ?? 0) <= MAX_BODY_BYTES) return buffer(answer);
    answer.destroy();
    throw new Error('the answer is larger than any that is expected');
  };

  return {
    send,
    acceptance,

    async fetch(outgoing) {
      for (let tries = 1; ; tries += 1) {
        const answer = await send(outgoing);
        try {
          return { status: answer.statusCode ?? 0, headers: answer.headers, body: await read(answer) };
        } catch (error) {
          if (outgoing.signal?.aborted) throw error;
          if (tries < MAX_TRIES) continue;
          throw new OriginUnavailableError('The answer of the origin broke off.', { cause: error });
        }
      }
    },

    get isUp() {
      return isUp;
    },
    onUp: (listener) => void whenUp.add(listener),
    onDown: (listener) => void whenDown.add(listener),

    stop() {
      stopped = true;
      clearInterval(checks);
      close();
    },
  };
}

/** A gateway that cannot reach the origin answers 502 to 504. The service itself sends a problem document with these. */
function isFromOrigin({ statusCode = 0, headers }: IncomingMessage): boolean {
  if (![502, 503, 504].includes(statusCode)) return true;
  return headers['content-type']?.startsWith(PROBLEM_CONTENT_TYPE) ?? false;
}
