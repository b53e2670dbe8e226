import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import { whenAnswered } from '../http/answer.ts';
import { openToAll } from '../http/cors.ts';
import { sendProblem } from '../http/problem.ts';
import { type Admission, createAdmission, kindOfWork, RETRY_AFTER_S, type TakeOptions } from './admission.ts';
import { createSummaryLine } from './summary-line.ts';

/** Admits work as far as there is room for it. */
export interface OverloadGuard {
  /** Notes that a request has arrived. @param nowMs monotonic time */
  arrived(nowMs: number): void;
  /** True: admitted, until the head of the answer goes out. False: the request was answered with 503. */
  admit(req: IncomingMessage, res: ServerResponse, nowMs: number, options?: TakeOptions): boolean;
}

/** Makes an {@link OverloadGuard}. Refused requests get `overloaded` and `Retry-After` at once. */
export function createOverloadGuard(logger: Logger, admission: Admission = createAdmission()): OverloadGuard {
  const refusals = createSummaryLine<true>((refused) => {
    logger.warn({ refused, unanswered: { ...admission.unanswered } }, 'overloaded: requests were refused');
  });

  return {
    arrived: admission.arrived,

    admit(req, res, nowMs, options) {
      const kind = kindOfWork(req);
      if (kind === null) return true;
      const slot = admission.take(kind, nowMs, options);
      if (slot !== null) {
        whenAnswered(res, slot.done);
        return true;
      }
      refusals.note(true);
      if (kind === 'read' || kind === 'delivery') openToAll(res);
      sendProblem(req, res, OVERLOADED, logger);
      return false;
    },
  };
}

/** Made once, because it may be sent thousands of times a second. */
const OVERLOADED = new AppError(
  'overloaded',
  'The service has more to do than it can. Ask again in a second; do not ask faster.',
  { headers: { 'Retry-After': String(RETRY_AFTER_S) } },
);
