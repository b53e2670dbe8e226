import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * The least that Node can do: fetches the address given once, then answers every request with that very body and those
 * headers from memory. What node:http writes itself (Date, Connection) is left to it.
 */
const [address = ''] = process.argv.slice(2);
const answer = await fetch(address);
const body = Buffer.from(await answer.arrayBuffer());
const ownHeaders: ReadonlySet<string> = new Set([
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
]);
const headers = Object.fromEntries([...answer.headers].filter(([name]) => !ownHeaders.has(name)));

const server = createServer((_, response) => {
  response.writeHead(200, { ...headers, 'content-length': body.length }).end(body);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ url: `http://127.0.0.1:${port}` });
});
process.on('disconnect', () => process.exit());
