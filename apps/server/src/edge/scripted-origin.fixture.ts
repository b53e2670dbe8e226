import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { EdgeResource } from '@mds/contract';
import { pino } from 'pino';
import { createOriginConnection, type OriginConnection } from './origin-connection.ts';

/** An origin that sends the answers of a test, over real sockets. */
export interface ScriptedOrigin {
  connection: OriginConnection;
  /** Answers the requests. A test may replace it at any time. */
  answer: (req: IncomingMessage, res: ServerResponse) => void;
  /** Requested targets, without the checks of `/readyz`. */
  asked: string[];
  /** Refuses new connections and cuts open ones until `goUp`. The address stays the same. */
  goDown(): Promise<void>;
  goUp(): Promise<void>;
  stop(): Promise<void>;
}

export async function startScriptedOrigin(): Promise<ScriptedOrigin> {
  const server = createServer((req, res) => {
    if (req.url === '/readyz') res.end();
    else {
      fixture.asked.push(req.url ?? '');
      fixture.answer(req, res);
    }
  });
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  const connection = createOriginConnection({
    originUrl: `http://127.0.0.1:${port}`,
    token: 'a-token-of-the-origin',
    userAgent: 'test',
    logger: pino({ level: 'silent' }),
    checkMs: 20,
  });
  const fixture: ScriptedOrigin = {
    connection,
    answer: (_req, res) => void res.writeHead(500).end(),
    asked: [],
    goDown: close,
    goUp: () => listen(port),
    async stop() {
      connection.stop();
      if (server.listening) await close();
    },
  };
  return fixture;
}

/** The answer for a path with content of its own, such as a manifest. */
export function resourceOf(path: string, content: string, changes: Partial<EdgeResource> = {}): EdgeResource {
  const body = Buffer.from(content);
  return {
    path,
    negotiated: false,
    max_age_s: 30,
    stale_if_error_s: 3_600,
    representations: [
      {
        media_id: path.slice(7, 37),
        content_type: 'application/json',
        bytes: body.length,
        sha256: createHash('sha256').update(body).digest('hex'),
        last_modified_ms: 0,
        immutable: false,
        content_location: null,
        pieces: null,
        content: body.toString('base64'),
      },
    ],
    ...changes,
  };
}
