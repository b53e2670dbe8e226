import { createHash, timingSafeEqual } from 'node:crypto';
import { CONTROL_API_PREFIX } from '@mds/contract';
import type { Express } from 'express';
import { AppError } from '../base/app-error.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest();

/**
 * Refuses requests of the control API, which a point of presence does not have. Only a request with this node's own token learns where
 * the origin is: its address may be internal.
 */
export function mountControlRefusal(app: Express, { originUrl, token }: { originUrl: string; token: string }): void {
  const own = sha256(token);
  app.use('/control', (req) => {
    const given = /^bearer +(\S+)\s*$/i.exec(req.headers.authorization ?? '')?.[1];
    const isOwn = given !== undefined && timingSafeEqual(sha256(given), own);
    throw new AppError(
      'misdirected_request',
      `This is a point of presence, which only delivers. The control API is at its origin${isOwn ? `: ${originUrl}${CONTROL_API_PREFIX}` : ''}.`,
    );
  });
}
