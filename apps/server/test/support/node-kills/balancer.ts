import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** One address for several nodes. */
export interface Balancer {
  url: string;
  /** How often a request was repeated at another node, because the first one died before its response. */
  readonly moved: number;
  stop(): Promise<void>;
}

/**
 * Passes each request on to one node after the other. A read whose node dies before its response is sent to the next one. Other requests
 * get 502 then. A response that breaks off is aborted.
 * @param upstreams addresses of the nodes that accept requests now
 */
export async function startBalancer(upstreams: () => readonly string[]): Promise<Balancer> {
  let turn = 0;
  let moved = 0;

  const pass = (req: IncomingMessage, res: ServerResponse, body: Buffer, tries: number) => {
    const addresses = upstreams();
    const upstream = addresses[turn++ % addresses.length];
    if (upstream === undefined) {
      res.writeHead(503, { 'content-type': 'text/plain' }).end('No node is there\n');
      return;
    }
    const { method, headers } = req;
    const outgoing = request(upstream + req.url, { method, headers });
    outgoing.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
      answer.on('error', () => res.destroy());
    });
    outgoing.on('error', () => {
      if (res.headersSent || res.destroyed) res.destroy();
      else if (['GET', 'HEAD'].includes(method ?? '') && tries > 0) {
        moved += 1;
        pass(req, res, body, tries - 1);
      } else res.writeHead(502, { 'content-type': 'text/plain' }).end('Bad gateway\n');
    });
    res.on('close', () => outgoing.destroy());
    outgoing.end(body);
  };

  const server = createServer((req, res) => {
    buffer(req).then(
      (body) => pass(req, res, body, 2),
      () => res.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get moved() {
      return moved;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
