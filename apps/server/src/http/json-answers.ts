import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { makeAnswer, sendAnswer } from './answer.ts';

/**
 * Replaces `res.json`, through which ts-rest sends documents, so that it serialises once, sets the exact Content-Type, and adds a strong
 * ETag and 304 if the answer may be cached.
 */
export function answerJson(req: IncomingMessage, res: Response, cacheControl: string): void {
  res.json = (body: unknown) => {
    sendAnswer(req, res, makeAnswer({ body: JSON.stringify(body), cacheControl, status: res.statusCode }));
    return res;
  };
}
