import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { PROBLEM_CONTENT_TYPE } from '@mds/contract';
import { reasonOf } from '../base/error-reason.ts';
import type { Logger } from '../base/logger.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { createOriginStanding, type OriginStanding } from './origin-standing.ts';

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

/** A way to the service that a point of presence belongs to. */
export interface OriginConnection {
  /**
   * Sends a request. The answer as it comes, whatever its status, its body unread.
   * Asked for once more where the connection broke and the origin says that it is there.
   * @throws OriginUnavailableError where no answer comes, at once while the origin is known to be away
   */
  send(request: OriginRequest): Promise<IncomingMessage>;
  /** The same, read to its end. */
  fetch(request: OriginRequest): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }>;
  /** What its answers say of this node: told by those who read them. */
  readonly standing: OriginStanding;
  /** False from the first request that finds nobody, and nobody who says that he is ready, until somebody is. */
  readonly isUp: boolean;
  /** Calls back when the origin is back. */
  onUp(listener: () => void): void;
  /** Calls back when it is away. */
  onDown(listener: () => void): void;
  stop(): void;
}

const ANSWER_MS = 5_000;
const SILENCE_MS = 20_000;
/** Times that something is asked for: all that a point of presence asks and reports may be repeated. */
const TRIES = 2;
/** Between two looks whether an origin that is away is back. */
const LOOK_MS = 1_000;
/** For an origin to say that it is there, when something else was not answered. */
const DOUBT_MS = 3_000;
/** The most that an answer may have that is read whole. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** @param deps.originUrl base address, without a trailing slash */
export function createOriginConnection(deps: {
  originUrl: string;
  token: string;
  userAgent: string;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  lookMs?: number;
}): OriginConnection {
  const { originUrl, token, userAgent, logger, lookMs = LOOK_MS } = deps;
  const base = new URL(originUrl);
  const isTls = base.protocol === 'https:';
  const pool = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16, scheduling: 'lifo' } as const;
  const makeAgent = () => (isTls ? new HttpsAgent(pool) : new HttpAgent(pool));
  const agents = { short: makeAgent(), bulk: makeAgent() };
  const open = isTls ? httpsRequest : httpRequest;
  const whenUp = new Set<() => void>();
  const whenDown = new Set<() => void>();
  const standing = createOriginStanding({ originUrl, logger });
  let isUp = true;
  let doubting: Promise<boolean> | null = null;
  let stopped = false;
  let looking: NodeJS.Timeout | undefined;

  const markDown = (error: unknown) => {
    if (!isUp || stopped) return;
    isUp = false;
    const reason = reasonOf(error);
    logger.warn({ reason, origin: originUrl }, 'the origin does not answer; what is held is served meanwhile');
    looking = setInterval(look, lookMs);
    looking.unref();
    for (const listener of whenDown) listener();
  };

  const markUp = () => {
    if (isUp || stopped) return;
    isUp = true;
    clearInterval(looking);
    logger.info({ origin: originUrl }, 'the origin answers again');
    for (const listener of whenUp) listener();
  };

  const look = () => {
    transmit({ target: '/readyz', authorize: false, timeoutMs: lookMs }).then(
      (answer) => {
        answer.resume();
        if (answer.statusCode === 200) markUp();
      },
      // Still away.
      () => undefined,
    );
  };

  const transmit = (outgoing: OriginRequest, isRetry = false): Promise<IncomingMessage> => {
    const { method = 'GET', target, headers, json, signal, timeoutMs = ANSWER_MS, silenceMs = SILENCE_MS } = outgoing;
    const body = json === undefined ? null : Buffer.from(JSON.stringify(json));
    const options: RequestOptions = {
      agent: outgoing.bulk ? agents.bulk : agents.short,
      method,
      signal,
      headers: {
        'user-agent': userAgent,
        ...(outgoing.authorize === false ? {} : { authorization: `Bearer ${token}` }),
        ...(body ? { 'content-type': 'application/json', 'content-length': body.length } : {}),
        ...headers,
      },
    };
    return new Promise((resolve, reject) => {
      const request = open(new URL(base.pathname.replace(/\/$/, '') + target, base), options);
      let deadline: NodeJS.Timeout | undefined;
      // From when it has a connection: waiting for one of ours says nothing of the origin.
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
        // The origin closed a connection that rested in the same moment in which it was used again: that says nothing of the origin.
        else if (request.reusedSocket && !isRetry && ['ECONNRESET', 'EPIPE'].includes(error.code ?? '')) {
          resolve(transmit(outgoing, true));
        } else reject(error);
      });
      request.end(body ?? undefined);
    });
  };

  /** Whether the origin says that it is there: asked once for all who doubt it at the same time. */
  const isThere = (): Promise<boolean> => {
    doubting ??= transmit({ target: '/readyz', authorize: false, timeoutMs: DOUBT_MS })
      .then(
        (answer) => {
          answer.resume();
          return answer.statusCode === 200;
        },
        () => false,
      )
      .finally(() => {
        doubting = null;
      });
    return doubting;
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
        // An origin of several nodes is not away because the one that was asked has died: another one answers.
        if (!(await isThere())) markDown(error);
        else if (tries < TRIES) continue;
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
    standing,

    async fetch(outgoing) {
      for (let tries = 1; ; tries += 1) {
        const answer = await send(outgoing);
        try {
          return { status: answer.statusCode ?? 0, headers: answer.headers, body: await read(answer) };
        } catch (error) {
          if (outgoing.signal?.aborted) throw error;
          if (tries < TRIES) continue;
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
      clearInterval(looking);
      agents.short.destroy();
      agents.bulk.destroy();
    },
  };
}

/** Gateways answer in the name of an origin that they do not reach; the service itself says it with a problem document. */
function isFromOrigin({ statusCode = 0, headers }: IncomingMessage): boolean {
  if (![502, 503, 504].includes(statusCode)) return true;
  return headers['content-type']?.startsWith(PROBLEM_CONTENT_TYPE) ?? false;
}
