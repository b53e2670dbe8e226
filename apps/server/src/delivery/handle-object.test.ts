import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../base/logger.ts';
import { sendProblem } from '../http/problem.ts';
import { type DeliveryFixture, pattern, sha256, startDelivery } from './delivery.fixture.ts';

const MIB = 1024 * 1024;
const logger = createLogger('silent');
const thumb = { name: 'thumb', extension: 'webp', contentType: 'image/webp', content: pattern(10_000, 4) };
const large = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content: pattern(3 * MIB + 77, 5) };

/** A delivery, and a server that sends its objects by `?path=`. */
async function start(): Promise<{
  house: DeliveryFixture;
  ask: (path: string, init?: RequestInit) => Promise<Response>;
}> {
  const house = await startDelivery({ memoryCacheBytes: MIB });
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://a').searchParams.get('path') ?? '';
    house.delivery
      .handleObject(request, response, path)
      .catch((error) => sendProblem(request, response, error, logger));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await house.close();
  });
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/?path=`;
  return { house, ask: (path, init) => fetch(base + encodeURIComponent(path), init) };
}

describe('bytes for another point of presence', () => {
  it('are sent whole or by range, and do not count as a delivery', async () => {
    const { house, ask } = await start();
    const id = await house.addMedia([thumb, large]);
    for (const { name, extension, content } of [thumb, large]) {
      const path = `/media/${id}/${name}.${extension}`;
      const whole = await ask(path, { headers: { 'if-match': `"${sha256(content)}"` } });
      expect([whole.status, Buffer.from(await whole.arrayBuffer()).equals(content)]).toEqual([200, true]);
      expect(whole.headers.get('content-type')).toBe('application/octet-stream');
      const from = content.length - 5000;
      const part = await ask(path, { headers: { range: `bytes=${from}-` } });
      expect(part.headers.get('content-range')).toBe(`bytes ${from}-${content.length - 1}/${content.length}`);
      expect([part.status, Buffer.from(await part.arrayBuffer()).equals(content.subarray(from))]).toEqual([206, true]);
    }
    expect(await house.assets()).toEqual([]);
    expect(house.delivery.stats).toMatchObject({ hits: 0, misses: 0 });
  });

  it('are refused if the path has a new version, so that no file mixes two versions', async () => {
    const { house, ask } = await start();
    const id = await house.addMedia([thumb]);
    const answer = await ask(`/media/${id}/thumb.webp`, { headers: { 'if-match': `"${'0'.repeat(64)}"` } });
    expect(answer.status).toBe(412);
    expect(await answer.json()).toMatchObject({ code: 'precondition_failed' });
  });

  it.each(['thumb', '../thumb.webp', '%2e%2e/x', 'none.webp'])('are not sent for %j', async (file) => {
    const { house, ask } = await start();
    const id = await house.addMedia([thumb]);
    expect((await ask(`/media/${id}/${file}`)).status).toBe(404);
  });
});

describe('ranges of a large object', () => {
  it('are assembled from any of its pieces', async () => {
    const { house } = await start();
    const id = await house.addMedia([large]);
    const path = `/media/${id}/mp4.mp4`;
    const ranges = [
      [MIB - 3, MIB + 3],
      [3 * MIB, 3 * MIB + 76],
      [0, 0],
      [5, 2 * MIB + 5],
    ] as const;
    for (const [start, end] of ranges) {
      const { status, body } = await house.get(path, { range: `bytes=${start}-${end}` });
      expect([status, body.equals(large.content.subarray(start, end + 1))]).toEqual([206, true]);
    }
    const { body, headers } = await house.get(path, { range: 'bytes=1048570-1048580,2097150-2097155,-2' });
    const [, boundary = ''] = /boundary=(.+)$/.exec(headers['content-type'] ?? '') ?? [];
    const parts = body.toString('latin1').split(`--${boundary}`).slice(1, -1);
    expect(parts.map((part) => part.slice(part.indexOf('\r\n\r\n') + 4, -2))).toEqual(
      [
        large.content.subarray(1048570, 1048581),
        large.content.subarray(2097150, 2097156),
        large.content.subarray(-2),
      ].map((bytes) => bytes.toString('latin1')),
    );
    expect(Number(headers['content-length'])).toBe(body.length);
  });
});
