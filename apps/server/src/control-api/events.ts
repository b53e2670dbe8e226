import type { api } from '@mds/contract';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../base/app-error.ts';
import type { EventStream } from '../events/event-stream.ts';
import type { PlainHandlers } from '../http/contract-routes.ts';
import { requireScope, tokenOf } from './authenticate.ts';

const Position = z.string().regex(/^\d{1,15}$/);

/** The event stream of the token's project. */
export function createEventHandlers(events: Pick<EventStream, 'serve'>): PlainHandlers<typeof api.streams.events> {
  return {
    stream: (req, res) => {
      requireScope(req, 'ingest');
      serveEvents(events, req, res, tokenOf(req).projectId);
    },
  };
}

/**
 * Answers with the event stream, or with its headers alone to HEAD.
 * @param projectId null: the events of all projects
 */
export function serveEvents(
  events: Pick<EventStream, 'serve'>,
  req: Request,
  res: Response,
  projectId: string | null,
): void {
  const after = eventPosition(req);
  if (req.method === 'HEAD') {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' }).end();
    return;
  }
  events.serve(res, { projectId, after });
}

/** The event after which the stream begins. The header wins: a reader that reconnects sets it, and keeps its original URL. */
function eventPosition(req: Request): number | null {
  const header = req.headers['last-event-id'];
  const inHeader = header !== undefined && header !== '';
  const given = inHeader ? header : req.query['after'];
  if (given === undefined) return null;
  const parsed = Position.safeParse(given);
  if (parsed.success) return Number(parsed.data);
  const path = inHeader ? 'last-event-id' : 'after';
  const message = 'must be the id of an event';
  throw new AppError('invalid_request', `${inHeader ? 'The header' : 'The query parameter'} ${path} ${message}.`, {
    issues: [{ in: inHeader ? 'header' : 'query', path, message }],
  });
}
