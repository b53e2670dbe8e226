import { CONTROL_API_PREFIX, UPLOADS_PATH } from '@mds/contract';
import type { NextFunction, Request, Response } from 'express';
import type { WriteGate } from '../migration/write-gate.ts';

const READS = ['GET', 'HEAD', 'OPTIONS'];
/** Always allowed: control of the migration itself, and reports of points of presence, which serve readers. */
const ALWAYS_ALLOWED = ['/migrations', '/edges'].map((path) => CONTROL_API_PREFIX + path);

/** Passes every write of the control API through a gate. Mounted before anything reads a body. */
export function passGate(gate: Pick<WriteGate, 'enter'>) {
  return (req: Request, res: Response, next: NextFunction): void => {
    const path = req.baseUrl + req.path;
    const isFree = ALWAYS_ALLOWED.some((base) => isBelow(base, path));
    // HEAD of a complete upload accepts it, which is a write.
    const accepts = req.method === 'HEAD' && isBelow(UPLOADS_PATH, path);
    const reads = READS.includes(req.method) && !accepts;
    if (!reads && !isFree)
      res.once(
        'close',
        gate.enter(() => req.destroy()),
      );
    next();
  };
}

function isBelow(base: string, path: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}
