import { CONTROL_API_PREFIX, DELIVERY_PREFIX, READ_API_PREFIX } from '@mds/contract';
import type { Logger } from 'pino';
import { reasonOf } from '../base/error-reason.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { outageOf } from '../http/problem.ts';
import { createSummaryLine } from './summary-line.ts';

/** Requested every few seconds by machines. A line for each would bury the rest. */
const QUIET = new Set(['/healthz', '/readyz', '/metrics']);
/** Heartbeats and reads of points of presence: several a second. */
const EDGES_PREFIX = `${CONTROL_API_PREFIX}/edges/`;
/** pino's number for the level `debug`. */
const DEBUG = 20;

/** How a request ended. */
export interface AnsweredRequest {
  requestId: string;
  remoteAddress: string | undefined;
  /** Null: the connection ended before the answer began. */
  status: number | null;
  /** False: the connection ended before the answer did. */
  complete: boolean;
  ms: number;
}

/** One log line for each answer. */
export interface AccessLog {
  note(req: RequestHead & { originalUrl?: string }, answered: AnsweredRequest): void;
  /** Notes an answer from memory. Only `debug` and below show it; otherwise it costs one comparison. */
  noteHot(req: RequestHead, requestId: string, status: number, ms: number): void;
}

/**
 * Makes an {@link AccessLog}: method, URL, status, time and request id. Bodies and headers are not logged, so that no credential
 * reaches the log. The most frequent requests are `debug`: deliveries, successful reads, and those of points of presence.
 * Failures of the service are `warn`. Refusals because of an outage are summed up, one line a second.
 */
export function createAccessLog(logger: Pick<Logger, 'levelVal' | 'debug' | 'info' | 'warn'>): AccessLog {
  const outages = createSummaryLine<{ url: string; reason: string }>((refused, { url, reason }) => {
    logger.warn({ refused, latest: url, reason }, 'unavailable: requests were refused');
  });
  const note: AccessLog['note'] = (req, { requestId, remoteAddress, status, complete, ms }) => {
    const url = req.originalUrl ?? req.url ?? '';
    if (QUIET.has(url)) return;
    const outage = status === 503 ? outageOf(req) : undefined;
    // An outage may cause thousands of equal lines a second.
    if (outage) outages.note({ url: url.slice(0, 1024), reason: reasonOf(outage.cause ?? outage) });
    const level = outage ? 'debug' : levelOf(url, status);
    if (level === 'debug' && logger.levelVal > DEBUG) return;
    const line = {
      req: { method: req.method, url: url.slice(0, 1024), remoteAddress },
      res: { status },
      requestId,
      ms: Math.round(ms * 100) / 100,
    };
    logger[level](line, complete ? 'request completed' : 'request aborted');
  };
  return {
    note,
    noteHot(req, requestId, status, ms) {
      if (logger.levelVal > DEBUG) return;
      note(req, { requestId, remoteAddress: req.socket.remoteAddress, status, complete: true, ms });
    },
  };
}

function levelOf(url: string, status: number | null): 'debug' | 'info' | 'warn' {
  if (status !== null && status >= 500) return 'warn';
  if (url.startsWith(`${DELIVERY_PREFIX}/`)) return 'debug';
  // A point of presence passes on the requests of its readers, including those for missing or deleted content.
  if (url.startsWith(EDGES_PREFIX) && (status === 404 || status === 412)) return 'debug';
  const isRoutine = url.startsWith(READ_API_PREFIX) || url.startsWith(EDGES_PREFIX);
  return isRoutine && status !== null && status < 400 ? 'debug' : 'info';
}
