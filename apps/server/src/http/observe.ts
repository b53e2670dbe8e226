import type { NextFunction, Request, Response } from 'express';
import type { Metrics } from './metrics.ts';

/** Counts every answer when it ends. A label is only ever one of ours, or callers could make as many as they like. */
export function observeRequests(metrics: Pick<Metrics, 'observe'>) {
  return (req: Request, res: Response, next: NextFunction): void => {
    const began = performance.now();
    const { method } = req;
    res.once('close', () => {
      metrics.observe({
        method: KNOWN_METHODS.has(method) ? method : 'other',
        route: routeLabel(req),
        status: res.statusCode,
        seconds: (performance.now() - began) / 1000,
      });
    });
    next();
  };
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

function routeLabel(req: Request): string {
  const path: unknown = req.route?.path;
  if (typeof path === 'string') return path;
  return req.path.startsWith('/media/') ? '/media/*' : 'other';
}
