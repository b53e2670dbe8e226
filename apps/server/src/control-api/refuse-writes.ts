import { CONTROL_API_PREFIX } from '@mds/contract';
import type { NextFunction, Request, Response } from 'express';
import type { WriteGate } from '../migration/write-gate.ts';

const READS = ['GET', 'HEAD', 'OPTIONS'];
/** What a move itself is seen to by, and what points of presence say of themselves, who serve readers. */
const ALWAYS = ['/migrations', '/edges'].map((path) => CONTROL_API_PREFIX + path);

/** Has everything of the control API that writes pass a gate. Mounted before anything reads a body. */
export function passGate(gate: Pick<WriteGate, 'enter'>) {
  return (req: Request, res: Response, next: NextFunction): void => {
    const path = req.baseUrl + req.path;
    const isFree = ALWAYS.some((always) => path === always || path.startsWith(`${always}/`));
    if (!READS.includes(req.method) && !isFree)
      res.once(
        'close',
        gate.enter(() => req.destroy()),
      );
    next();
  };
}
