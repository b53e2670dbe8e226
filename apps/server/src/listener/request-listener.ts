import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Logger } from '../base/logger.ts';
import type { Versions } from '../db/versions.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { type AnswerSink, sinkOf } from '../http/answer-sink.ts';
import { makeRequestId, REQUEST_ID_HEADER, setRequestId } from '../http/request-id.ts';
import { isAmbiguous } from '../http/request-path.ts';
import { wentOutWhole } from '../http/unread-body.ts';
import { createAccessLog } from './access-log.ts';
import { createDeliveryPlane, type DeliveryPart, isDeliveryPath } from './delivery-plane.ts';
import { createHotAnswers } from './hot-answers.ts';
import type { HotAnswerer } from './hot-connection.ts';
import type { RequestHandler } from './http-server.ts';
import { InnerConnection } from './inner-connection.ts';
import type { Metrics } from './metrics.ts';
import { createOverloadGuard, type OverloadGuard } from './overload.ts';
import type { RouteFigures } from './request-figures.ts';

export interface RequestListenerParts {
  /** The Express app, which answers every request that is not answered before. */
  app: RequestHandler;
  /** Null if this process does not deliver. */
  delivery: DeliveryPart | null;
  /** The versions that stored answers of the read API are checked against; null if none are to be stored. */
  versions: Versions | null;
  metrics: Pick<Metrics, 'requests'>;
  logger: Logger;
  guard?: OverloadGuard;
}

/** The first to see a request. */
export interface RequestListener {
  /** Answers from memory. */
  answerFromMemory: HotAnswerer;
  /** Answers every request. */
  handle: RequestHandler;
}

/** When a request began, and its id. */
interface RequestStart {
  beganMs: number;
  requestId: string;
}

const DELIVERY_ROUTE = '/media/*';

/**
 * The first to see a request, on plain `node:http` or below it. Renditions and stored answers of the read API that are in memory and
 * still valid are sent at once. All other requests are admitted as far as there is room. Every request is counted and logged; an
 * answer from memory counts as complete when the connection has taken it over.
 */
export function createRequestListener(parts: RequestListenerParts): RequestListener {
  const { app, delivery, logger } = parts;
  const { requests } = parts.metrics;
  const log = createAccessLog(logger);
  const guard = parts.guard ?? createOverloadGuard(logger);
  const plane = delivery && createDeliveryPlane(delivery, logger);
  const hot = parts.versions && createHotAnswers({ versions: parts.versions, figuresOf: requests.of });
  const deliveries = { GET: requests.of('GET', DELIVERY_ROUTE), HEAD: requests.of('HEAD', DELIVERY_ROUTE) };
  /** Requests that were read from their connection and not answered from memory. They keep their ids on the way through node:http. */
  const missed = new WeakMap<RequestHead, RequestStart>();
  /** Reused for each request: only the id changes. */
  const also = [REQUEST_ID_HEADER, ''];

  const count = (
    req: RequestHead,
    status: number,
    { beganMs, requestId }: RequestStart,
    figures: RouteFigures,
  ): true => {
    const ms = performance.now() - beganMs;
    figures.count(status, ms / 1000);
    log.noteHot(req, requestId, status, ms);
    return true;
  };

  /** Has the app or the delivery make an answer, if the request is admitted. */
  const makeAnswer = (req: IncomingMessage, res: ServerResponse, start: RequestStart) => {
    const { beganMs, requestId } = start;
    // A connection that has ended no longer knows its address.
    const { remoteAddress } = req.socket;
    setRequestId(req, requestId);
    let isAdmitted = true;
    whenClosed(res, () => {
      const ms = performance.now() - beganMs;
      const status = res.headersSent ? res.statusCode : null;
      requests.of(methodLabel(req), routeLabel(req)).count(res.statusCode, ms / 1000);
      // The guard logs refused requests, all of them in one line.
      if (isAdmitted) log.note(req, { requestId, remoteAddress, status, complete: wentOutWhole(res), ms });
      else log.noteHot(req, requestId, res.statusCode, ms);
    });
    if (res.closed) return;
    const isStorable = hot?.concerns(req) ?? false;
    const nowMs = performance.now();
    // An answer that many wait for is always made, because it lets the many be answered.
    isAdmitted = guard.admit(req, res, nowMs, { forMany: isStorable && hot?.isWanted(req) });
    if (!isAdmitted) return;
    if (plane && isDeliveryPath(req.url ?? '')) {
      plane(req, res);
      return;
    }
    res.setHeader(REQUEST_ID_HEADER, requestId);
    if (isStorable) hot?.keep(req, res, nowMs);
    app(req, res);
  };

  /** Waits for another request that makes the same answer. Makes it if there is none, or if its answer is not usable. */
  const awaitOrMake = async (req: IncomingMessage, res: ServerResponse, start: RequestStart): Promise<void> => {
    // Retry once: the first shared answer may predate a write that this request must see.
    for (let turn = 0; turn < 2 && !res.closed; turn += 1) {
      const made = hot?.join(req, res) ?? null;
      if (made === null) break;
      await made;
      if (!res.closed && answerFromStored(req, sinkOf(res), start)) return;
    }
    makeAnswer(req, res, start);
  };

  const deliverHot = (req: RequestHead, sink: AnswerSink, start: RequestStart): boolean => {
    also[1] = start.requestId;
    const status = delivery?.answerFromMemory(req, sink, also) ?? null;
    if (status === null) return false;
    return count(req, status, start, deliveries[req.method === 'HEAD' ? 'HEAD' : 'GET']);
  };

  const answerFromStored = (req: RequestHead, sink: AnswerSink, start: RequestStart): boolean => {
    const answered = hot?.answer(req, sink, start.requestId, start.beganMs) ?? null;
    return answered !== null && count(req, answered.status, start, answered.figures);
  };

  const logBroken = (req: RequestHead, error: unknown) =>
    logger.error({ err: error, url: req.url }, 'an answer from memory broke off, its connection is closed');

  const answerFromMemory = (req: RequestHead, sink: AnswerSink, start: RequestStart): boolean | Promise<boolean> => {
    guard.arrived(start.beganMs);
    if (req.method !== 'GET' && req.method !== 'HEAD') return false;
    const isDelivery = delivery !== null && isDeliveryPath(req.url ?? '');
    if (!isDelivery && !hot?.concerns(req)) return false;
    const refreshing = isDelivery ? delivery.refresh() : (hot?.refresh(req, start.beganMs) ?? false);
    const answer = isDelivery ? deliverHot : answerFromStored;
    if (refreshing === false) return answer(req, sink, start);
    return refreshing
      .then(
        () => answer(req, sink, start),
        // Nobody knows whether the content in memory is still valid. Making the answer will report the failure.
        () => false,
      )
      .catch((error: unknown) => {
        logBroken(req, error);
        throw error;
      });
  };

  const startOf = (req: RequestHead): RequestStart => ({ beganMs: performance.now(), requestId: makeRequestId(req) });

  /** Makes an answer, or shares one that is being made. */
  const share = (req: IncomingMessage, res: ServerResponse, start: RequestStart) => {
    if (!hot?.concerns(req)) {
      makeAnswer(req, res, start);
      return;
    }
    awaitOrMake(req, res, start).catch((error: unknown) => {
      logBroken(req, error);
      res.destroy();
    });
  };

  return {
    answerFromMemory(req, sink) {
      const start = startOf(req);
      const answering = answerFromMemory(req, sink, start);
      if (answering !== true) missed.set(req, start);
      return answering;
    },

    handle(req, res) {
      const connection: Duplex = req.socket;
      const read = connection instanceof InnerConnection ? connection.request : null;
      const missedStart = read && missed.get(read);
      const start = missedStart ?? startOf(req);
      // An ambiguous request is refused.
      if (isAmbiguous(req)) return makeAnswer(req, res, start);
      if (missedStart) return share(req, res, start);
      const answering = answerFromMemory(req, sinkOf(res), start);
      if (answering === false) share(req, res, start);
      else if (answering !== true) {
        answering.then(
          (isAnswered) => isAnswered || share(req, res, start),
          () => res.destroy(),
        );
      }
    },
  };
}

/** Calls `then` when a response is closed; at once if it is closed already. */
function whenClosed(res: ServerResponse, then: () => void): void {
  if (res.closed) then();
  else res.once('close', then);
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Labels come from a fixed set, so that callers cannot make as many as they like. */
function methodLabel({ method = '' }: IncomingMessage): string {
  return KNOWN_METHODS.has(method) ? method : 'other';
}

function routeLabel(req: IncomingMessage & { route?: { path?: unknown } }): string {
  const path = req.route?.path;
  if (typeof path === 'string') return path;
  return isDeliveryPath(req.url ?? '') ? DELIVERY_ROUTE : 'other';
}
