import type { IncomingMessage, ServerResponse } from 'node:http';
import { DELIVERY_CACHE_CONTROL, DELIVERY_PREFIX } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { AnswerSink, Fields, RequestHead } from '../http/answer-sink.ts';
import { allowEveryOrigin, openToAll } from '../http/cors.ts';
import { methodNotAllowed } from '../http/methods.ts';
import { sendProblem } from '../http/problem.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../http/request-id.ts';
import { refuseBadTarget } from '../http/request-path.ts';

/** Answers requests under `/media`. */
export interface DeliveryPart {
  /**
   * Answers a GET or HEAD at once, if its content is known, valid and in memory.
   * @param also additional fields
   * @returns the status; null: nothing was sent
   */
  answerFromMemory(req: RequestHead, sink: AnswerSink, also: Fields): number | null;
  /** Finds out whether the known paths are still valid. False: that is known already. */
  refresh(): Promise<void> | false;
  /**
   * Answers GET and HEAD. Rejects with an AppError before anything is sent.
   * @param also as of {@link answerFromMemory}
   */
  handle(req: IncomingMessage, res: ServerResponse, also: Fields): Promise<void>;
}

/** Whether a request target belongs to delivery. The raw path decides, so that an encoded path is never a rendition. */
export function isDeliveryPath(url: string): boolean {
  return url.startsWith(`${DELIVERY_PREFIX}/`);
}

/**
 * Answers requests under `/media` that are not in memory, without Express. Delivery has its own paths, ranges and preconditions, and
 * sets every header field itself. Setting fields beforehand would cost more than all of that.
 */
export function createDeliveryPlane(delivery: DeliveryPart, logger: Logger) {
  const refuse = (req: IncomingMessage, res: ServerResponse, error: unknown) => {
    if (!res.headersSent) openToAll(res);
    sendProblem(req, res, shortLived(error), logger);
  };
  return (req: IncomingMessage, res: ServerResponse): void => {
    try {
      refuseBadTarget(req);
      if (req.method === 'GET' || req.method === 'HEAD') {
        delivery
          .handle(req, res, [REQUEST_ID_HEADER, requestIdOf(req)])
          .catch((error: unknown) => refuse(req, res, error));
      } else {
        res.setHeader(REQUEST_ID_HEADER, requestIdOf(req));
        // A preflight ends here (WHATWG Fetch, 3.3.5).
        allowEveryOrigin(req, res, () => refuse(req, res, methodNotAllowed({ method: req.method ?? '' }, 'GET, HEAD')));
      }
    } catch (error) {
      refuse(req, res, error);
    }
  };
}

/** A missing rendition may be there soon. Until then, caches answer repeated requests for a moment. */
function shortLived(error: unknown): unknown {
  if (!(error instanceof AppError) || error.status !== 404) return error;
  return new AppError(error.code, error.message, {
    cause: error,
    headers: { 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound, ...error.headers },
    ...(error.issues ? { issues: error.issues } : {}),
  });
}
