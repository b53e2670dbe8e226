import { CONTROL_API_PREFIX, UPLOADS_PATH } from '@mds/contract';
import type { NextFunction, Request, Response } from 'express';
import type { WriteGate } from '../migration/write-gate.ts';

const READS = ['GET', 'HEAD', 'OPTIONS'];
/** What a move itself is seen to by, and what points of presence say of themselves, who serve readers. */
const ALWAYS = ['/migrations', '/edges'].map((path) => CONTROL_API_PREFIX + path);

/** Has everything of the control API that writes pass a gate. Mounted before anything reads a body. */
export function passGate(gate: Pick<WriteGate, 'enter'>) {
  return (req: Request, res: Response, next: NextFunction): void => {
    const path = req.baseUrl + req.path;
    const isFree = ALWAYS.some((always) => isBelow(always, path));
    // The question for the offset of an upload that is whole accepts it.
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
