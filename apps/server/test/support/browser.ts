import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium } from 'playwright-core';
import { findSystemProgram } from './system-program.ts';

/** The path of this system's Chromium; null if it has none. */
export const browserPath = findSystemProgram('chromium', 'chromium-browser', 'google-chrome');

/** Chromium without a window, that asks nobody but the pages' own servers for anything. @param flags more of its switches */
export function launchBrowser(path: string, ...flags: readonly string[]): Promise<Browser> {
  return chromium.launch({
    executablePath: path,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
      ...['--disable-component-update', '--disable-sync'],
      ...flags,
    ],
  });
}

/** Pages of an origin other than the service's; without a trailing slash. */
export interface PageServer {
  url: string;
  close(): void;
}

/** Answers each path of `files` (asked at each request) with its type and bytes, and any other path with `page`. */
export async function servePages(
  page: string,
  files: () => Readonly<Record<string, readonly [type: string, body: Uint8Array | string]>>,
): Promise<PageServer> {
  const server = createServer((req, res) => {
    const [type, body] = files()[req.url ?? '/'] ?? ['text/html', page];
    res.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' });
    res.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  };
}
