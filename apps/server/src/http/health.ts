import type { Express } from 'express';
import { AppError } from './app-error.ts';
import { answerJson } from './json-answers.ts';
import { refuseOtherMethods } from './methods.ts';

/** Mounts `/healthz` (the process lives) and `/readyz` (it should get traffic: 200, else 503 with the reason). */
export function mountHealth(app: Express, parts: { isReady(): boolean; probe(): Promise<void> }): void {
  app.get('/healthz', (req, res) => {
    answerJson(req, res, 'no-store');
    res.json({ status: 'ok' });
  });
  app.get('/readyz', async (req, res) => {
    if (!parts.isReady()) throw notReady('The service is stopping.');
    await parts.probe().catch((cause: unknown) => {
      throw notReady('The database does not answer.', cause);
    });
    answerJson(req, res, 'no-store');
    res.json({ status: 'ready' });
  });
  app.all(['/healthz', '/readyz'], refuseOtherMethods(['GET']));
}

function notReady(detail: string, cause?: unknown): AppError {
  return new AppError('unavailable', `${detail} Send requests elsewhere, or try again in a few seconds.`, {
    cause,
    headers: { 'Retry-After': '5' },
  });
}
