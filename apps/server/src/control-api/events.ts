import { eventsApi } from '@mds/contract';
import type { Express, Request } from 'express';
import { z } from 'zod';
import { AppError } from '../base/app-error.ts';
import type { EventStream } from '../events/event-stream.ts';
import { requireScope, tokenOf } from './authenticate.ts';

const Position = z.string().regex(/^\d{1,15}$/);

/** Mounts the stream of events; its requests passed the token check already. */
export function mountEvents(app: Express, events: Pick<EventStream, 'serve'>): void {
  app.get(eventsApi.stream.path, (req, res) => {
    requireScope(req, 'ingest');
    const { projectId } = tokenOf(req);
    const after = eventPosition(req);
    if (req.method === 'HEAD') {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' }).end();
      return;
    }
    events.serve(res, { projectId, after });
  });
}

/** Where to go on: the header, which a reader that reconnects sets by itself, says it better than the address it began with. */
export function eventPosition(req: Request): number | null {
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
