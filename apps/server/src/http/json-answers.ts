import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { makeAnswer, sendAnswer } from './answer.ts';

/**
 * Makes `res.json`, which is how ts-rest and everybody else sends a document, answer our way: one serialisation, the
 * exact Content-Type, a strong ETag and 304 where the answer may be kept.
 */
export function answerJson(req: IncomingMessage, res: Response, cacheControl: string): void {
  res.json = (body: unknown) => {
    sendAnswer(req, res, makeAnswer({ body: JSON.stringify(body), cacheControl, status: res.statusCode }));
    return res;
  };
}
