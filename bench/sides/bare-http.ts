import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * The least that Node can do. It fetches the given URL once. Then it answers every request from memory with that body and those
 * header fields, as a flat list that was prepared once. node:http adds Date and Connection itself.
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
const fields = [...answer.headers].filter(([name]) => !ownHeaders.has(name)).flat();
fields.push('content-length', String(body.length));

const server = createServer((_, response) => {
  response.writeHead(200, fields).end(body);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ url: `http://127.0.0.1:${port}` });
});
process.on('disconnect', () => process.exit());
