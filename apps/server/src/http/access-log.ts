import { DELIVERY_PREFIX, READ_API_PREFIX } from '@mds/contract';
import type { Logger } from 'pino';
import type { HotRequest } from './hot-connection.ts';

/** Asked every few seconds by machines: a line for each would bury the rest. */
const QUIET = new Set(['/healthz', '/readyz', '/metrics']);
/** pino's number of the level `debug`. */
const DEBUG = 20;

/** What became of a request. */
export interface AnsweredRequest {
  requestId: string;
  /** Null: the connection ended before there was an answer. */
  status: number | null;
  /** False: the connection ended before the answer did. */
  complete: boolean;
  ms: number;
}

/** One log line for each answer. */
export interface AccessLog {
  note(req: HotRequest & { originalUrl?: string }, answered: AnsweredRequest): void;
  /** Notes an answer out of memory, which only `debug` and below show: otherwise it costs one comparison. */
  noteHot(req: HotRequest, requestId: string, status: number, ms: number): void;
}

/**
 * {@link AccessLog}: method, URL, status, time and request id. Neither bodies nor headers are logged, so that no credential reaches
 * the log. Deliveries, and reads that succeed, are what there is most of: they are `debug`. Failures of the service are `warn`.
 */
export function createAccessLog(logger: Pick<Logger, 'levelVal' | 'debug' | 'info' | 'warn'>): AccessLog {
  const note: AccessLog['note'] = (req, { requestId, status, complete, ms }) => {
    const url = req.originalUrl ?? req.url ?? '';
    if (QUIET.has(url)) return;
    const level = levelOf(url, status);
    if (level === 'debug' && logger.levelVal > DEBUG) return;
    const line = {
      req: { method: req.method, url: url.slice(0, 1024), remoteAddress: req.socket.remoteAddress },
      res: { status },
      requestId,
      ms: Math.round(ms * 100) / 100,
    };
    logger[level](line, complete ? 'request completed' : 'request aborted');
  };
  return {
    note,
    noteHot(req, requestId, status, ms) {
      if (logger.levelVal <= DEBUG) note(req, { requestId, status, complete: true, ms });
    },
  };
}

function levelOf(url: string, status: number | null): 'debug' | 'info' | 'warn' {
  if (status !== null && status >= 500) return 'warn';
  if (url.startsWith(`${DELIVERY_PREFIX}/`)) return 'debug';
  return url.startsWith(READ_API_PREFIX) && status !== null && status < 400 ? 'debug' : 'info';
}
