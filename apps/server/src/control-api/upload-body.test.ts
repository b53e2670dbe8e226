import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, expect, it } from 'vitest';
import { AppError } from '../base/app-error.ts';
import { uploadBody } from './upload-body.ts';

let server: Server | undefined;
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
});

/** A server that reads its bodies, or refuses them half-way, and answers with the outcome. */
async function serve(work: (body: ReturnType<typeof uploadBody>) => Promise<string>): Promise<number> {
  server = createServer((req, res) => {
    const body = uploadBody(req, res, 100);
    work(body).then(
      (text) => res.end(text),
      (error: unknown) => res.end(error instanceof AppError ? error.code : String(error)),
    );
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const url = (port: number) => `http://127.0.0.1:${port}/`;

it('every byte is passed on in order, however slow the reader is', async () => {
  const sent = Buffer.from(Array.from({ length: 5_000_000 }, (_, i) => i % 251));
  let received = Buffer.alloc(0);
  const port = await serve(async (body) => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    received = await buffer(body);
    return 'ok';
  });
  const response = await fetch(url(port), { method: 'POST', body: sent });
  expect(await response.text()).toBe('ok');
  expect(received.equals(sent)).toBe(true);
});

it('a silent sender is given up, and still receives the error', async () => {
  const port = await serve(async (body) => String((await buffer(body)).length));
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk.toString();
  });
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf');
  await expect.poll(() => answer, { timeout: 2_000 }).toContain('incomplete_body');
  socket.destroy();
});

it('a slow reader is not mistaken for a silent sender', async () => {
  const sent = Buffer.alloc(4_000_000, 7);
  const port = await serve(async (body) => {
    let bytes = 0;
    for await (const chunk of body) {
      bytes += (chunk as Buffer).length;
      if (bytes < 500_000) await new Promise((resolve) => setTimeout(resolve, 150));
    }
    return String(bytes);
  });
  const response = await fetch(url(port), { method: 'POST', body: sent });
  expect(await response.text()).toBe('4000000');
});

it('fault 20: a slow disk does not fill the memory: 256 KiB are held per body', async () => {
  let held = -1;
  server = createServer((req, res) => {
    const body = uploadBody(req, res, 10_000);
    req.once('pause', () => {
      held = body.readableLength;
      body.destroy();
      res.end('paused');
    });
    body.read(0);
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const response = await fetch(url(port), { method: 'POST', body: Buffer.alloc(8_000_000) });
  expect(await response.text()).toBe('paused');
  expect(held).toBeGreaterThanOrEqual(256 * 1024);
  // The last chunk read may exceed the bound.
  expect(held).toBeLessThanOrEqual(256 * 1024 + 64 * 1024);
});

it('a body refused half-way leaves the connection open for the response', async () => {
  const port = await serve(async (body) => {
    for await (const _chunk of body) break;
    return `destroyed: ${body.destroyed}`;
  });
  const response = await fetch(url(port), { method: 'POST', body: Buffer.alloc(200_000) });
  expect(await response.text()).toBe('destroyed: true');
});
