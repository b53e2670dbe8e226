import type { IncomingMessage, ServerResponse } from 'node:http';
import { DELIVERY_PREFIX } from '@mds/contract';
import type { Logger } from 'pino';
import { type HttpLogger, pinoHttp } from 'pino-http';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';

/** Asked every few seconds by machines: a line for each would bury the rest. */
const QUIET = new Set(['/healthz', '/readyz', '/metrics']);

/**
 * One log line for each answer: method, URL, status, time and request id. Neither bodies nor headers are logged, so that
 * no credential reaches the log. Gives each request its id and tells the caller.
 */
export function createAccessLog(logger: Logger): HttpLogger {
  return pinoHttp({
    logger,
    quietReqLogger: true,
    genReqId: (req: IncomingMessage, res: ServerResponse) => {
      const id = requestIdOf(req);
      res.setHeader(REQUEST_ID_HEADER, id);
      return id;
    },
    autoLogging: { ignore: (req) => QUIET.has(req.url ?? '') },
    customAttributeKeys: { reqId: 'requestId', responseTime: 'ms' },
    customLogLevel: (req, res, error) => {
      if (error !== undefined || res.statusCode >= 500) return 'warn';
      return req.url?.startsWith(`${DELIVERY_PREFIX}/`) ? 'debug' : 'info';
    },
    serializers: {
      req: (req: { method: string; url: string; remoteAddress?: string }) => ({
        method: req.method,
        url: req.url.slice(0, 1024),
        remoteAddress: req.remoteAddress,
      }),
      res: (res: { statusCode: number | null }) => ({ status: res.statusCode }),
    },
    // The error of an answer with 5xx was logged where it was caught, with its stack.
    customErrorObject: (_req, _res, _error, line: Record<string, unknown>) => ({ ...line, err: undefined }),
  });
}
