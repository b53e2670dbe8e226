import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '../base/logger.ts';
import type { Versions } from '../db/versions.ts';
import type { HotRequest } from '../http/answer-sink.ts';
import { type AnswerSink, sinkOf } from '../http/answer-sink.ts';
import { makeRequestId, REQUEST_ID_HEADER, setRequestId } from '../http/request-id.ts';
import { isAmbiguous } from '../http/request-path.ts';
import { wentOutWhole } from '../http/unread-body.ts';
import { createAccessLog } from './access-log.ts';
import { createDeliveryPlane, type DeliveryPart, isDeliveryPath } from './delivery-plane.ts';
import { createHotAnswers } from './hot-answers.ts';
import type { HotAnswerer } from './hot-connection.ts';
import type { RequestHandler } from './http-server.ts';
import type { Metrics } from './metrics.ts';
import { createOverloadGuard, type OverloadGuard } from './overload.ts';
import type { RouteFigures } from './request-figures.ts';

export interface RequestListenerParts {
  /** Answers everything that is not answered before: the Express app. */
  app: RequestHandler;
  /** Null where this process does not deliver. */
  delivery: DeliveryPart | null;
  /** What kept answers of the read API are checked against; null where none are to be kept. */
  versions: Versions | null;
  metrics: Pick<Metrics, 'requests'>;
  logger: Logger;
  guard?: OverloadGuard;
}

/** The first to see a request. */
export interface RequestListener {
  /** Answers out of memory. */
  answerHot: HotAnswerer;
  /** Answers whatever comes. */
  handle: RequestHandler;
}

/** What becomes of a request that is on its way through the request listener. */
interface Passage {
  began: number;
  requestId: string;
}

const DELIVERY_ROUTE = '/media/*';

/**
 * The first to see a request, plain `node:http` or less. What is still valid in memory is answered here and now: renditions, then
 * kept answers of the read API. Everything else is let in as far as there is room. Every request is counted and logged, whichever
 * way it goes; what is answered from memory counts as ended when the connection has taken it over.
 */
export function createRequestListener(parts: RequestListenerParts): RequestListener {
  const { app, delivery, logger } = parts;
  const { requests } = parts.metrics;
  const log = createAccessLog(logger);
  const guard = parts.guard ?? createOverloadGuard(logger);
  const plane = delivery && createDeliveryPlane(delivery, logger);
  const hot = parts.versions && createHotAnswers({ versions: parts.versions, figuresOf: requests.of });
  const deliveries = { GET: requests.of('GET', DELIVERY_ROUTE), HEAD: requests.of('HEAD', DELIVERY_ROUTE) };
  /** The id is written anew for each request. */
  const also = [REQUEST_ID_HEADER, ''];

  const answered = (req: HotRequest, status: number, { began, requestId }: Passage, figures: RouteFigures): true => {
    const ms = performance.now() - began;
    figures.count(status, ms / 1000);
    log.noteHot(req, requestId, status, ms);
    return true;
  };

  const goTheLongWay = (req: IncomingMessage, res: ServerResponse, passage: Passage) => {
    const { began, requestId } = passage;
    // A connection that has ended does not know it any more.
    const { remoteAddress } = req.socket;
    setRequestId(req, requestId);
    let admitted = true;
    whenClosed(res, () => {
      const ms = performance.now() - began;
      const status = res.headersSent ? res.statusCode : null;
      requests.of(methodLabel(req), routeLabel(req)).count(res.statusCode, ms / 1000);
      // The guard tells of those that it refused, all at once.
      if (admitted) log.note(req, { requestId, remoteAddress, status, complete: wentOutWhole(res), ms });
      else log.noteHot(req, requestId, res.statusCode, ms);
    });
    if (res.closed) return;
    const isKept = hot?.concerns(req) ?? false;
    const nowMs = performance.now();
    // What many ask for is made whatever else waits: that is what lets the many be answered.
    admitted = guard.admit(req, res, nowMs, { forMany: isKept && hot?.isWanted(req) });
    if (!admitted) return;
    if (plane && isDeliveryPath(req.url ?? '')) {
      plane(req, res);
      return;
    }
    res.setHeader(REQUEST_ID_HEADER, requestId);
    if (isKept) hot?.keep(req, res, nowMs);
    app(req, res);
  };

  /** Waits for another who makes the same answer; where nobody does, or what came of it will not do, the long way. */
  const awaitOrMake = async (req: IncomingMessage, res: ServerResponse, passage: Passage): Promise<void> => {
    // Twice: the first may have been begun before something was written that this request must be told of; the next was not.
    for (let turn = 0; turn < 2 && !res.closed; turn += 1) {
      const made = hot?.join(req, res) ?? null;
      if (made === null) break;
      await made;
      if (!res.closed && answerFromKept(req, sinkOf(res), passage)) return;
    }
    goTheLongWay(req, res, passage);
  };

  const deliverHot = (req: HotRequest, sink: AnswerSink, passage: Passage): boolean => {
    also[1] = passage.requestId;
    const status = delivery?.answerHot(req, sink, also) ?? null;
    if (status === null) return false;
    return answered(req, status, passage, deliveries[req.method === 'HEAD' ? 'HEAD' : 'GET']);
  };

  const answerFromKept = (req: HotRequest, sink: AnswerSink, passage: Passage): boolean => {
    const given = hot?.answer(req, sink, passage.requestId, passage.began) ?? null;
    return given !== null && answered(req, given.status, passage, given.figures);
  };

  const brokeOff = (req: HotRequest, error: unknown) =>
    logger.error({ err: error, url: req.url }, 'An answer out of memory broke off; its connection is closed.');

  const answerHot = (req: HotRequest, sink: AnswerSink, passage: Passage): boolean | Promise<boolean> => {
    guard.arrived(passage.began);
    if (req.method !== 'GET' && req.method !== 'HEAD') return false;
    const isDelivery = delivery !== null && isDeliveryPath(req.url ?? '');
    if (!isDelivery && !hot?.concerns(req)) return false;
    const refreshing = isDelivery ? delivery.refresh() : (hot?.refresh(req, passage.began) ?? false);
    const answer = isDelivery ? deliverHot : answerFromKept;
    if (refreshing === false) return answer(req, sink, passage);
    return refreshing
      .then(
        () => answer(req, sink, passage),
        // Whether what is kept still holds is not known; the long way says what is the matter.
        () => false,
      )
      .catch((error: unknown) => {
        brokeOff(req, error);
        throw error;
      });
  };

  const passageOf = (req: HotRequest): Passage => ({ began: performance.now(), requestId: makeRequestId(req) });

  return {
    answerHot: (req, sink) => answerHot(req, sink, passageOf(req)),
    handle(req, res) {
      const passage = passageOf(req);
      // Those are refused.
      if (isAmbiguous(req)) return goTheLongWay(req, res, passage);
      const goOn = () => {
        if (!hot?.concerns(req)) return goTheLongWay(req, res, passage);
        awaitOrMake(req, res, passage).catch((error: unknown) => {
          brokeOff(req, error);
          res.destroy();
        });
      };
      const answering = answerHot(req, sinkOf(res), passage);
      if (answering === false) goOn();
      else if (answering !== true) {
        answering.then(
          (done) => done || goOn(),
          () => res.destroy(),
        );
      }
    },
  };
}

/** Calls `then` when a response is closed, at once where it is. */
function whenClosed(res: ServerResponse, then: () => void): void {
  if (res.closed) then();
  else res.once('close', then);
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** A label is only ever one of ours, or callers could make as many as they like. */
function methodLabel({ method = '' }: IncomingMessage): string {
  return KNOWN_METHODS.has(method) ? method : 'other';
}

function routeLabel(req: IncomingMessage & { route?: { path?: unknown } }): string {
  const path = req.route?.path;
  if (typeof path === 'string') return path;
  return isDeliveryPath(req.url ?? '') ? DELIVERY_ROUTE : 'other';
}
