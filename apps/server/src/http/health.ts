import type { Express } from 'express';
import { AppError } from '../base/app-error.ts';
import { answerJson } from './json-answers.ts';
import { refuseOtherMethods } from './methods.ts';

/** Mounts `/healthz` (the process is alive) and `/readyz` (200 if it should get traffic, else 503 with the reason). */
export function mountHealth(app: Express, parts: { notReady(): Promise<string | null> }): void {
  app.get('/healthz', (req, res) => {
    answerJson(req, res, 'no-store');
    res.json({ status: 'ok' });
  });
  app.get('/readyz', async (req, res) => {
    const reason = await parts.notReady();
    if (reason !== null) {
      throw new AppError('unavailable', `${reason} Send requests elsewhere, or try again in a few seconds.`, {
        headers: { 'Retry-After': '5' },
      });
    }
    answerJson(req, res, 'no-store');
    res.json({ status: 'ready' });
  });
  app.all(['/healthz', '/readyz'], refuseOtherMethods(['GET']));
}
