import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sinkOf } from '../http/answer-sink.ts';
import { type DeliveryFixture, pattern, startDelivery } from './delivery.fixture.ts';

const thumb = { name: 'thumb', extension: 'webp', contentType: 'image/webp', content: pattern(10_000, 4) };

/** A delivery and a server of hot answers only, which answers 599 if there was none and nothing was sent. */
async function start(): Promise<{ house: DeliveryFixture; hot: string }> {
  const house = await startDelivery();
  const server = createServer((request, response) => {
    // Each request follows a version check, so the cached state is valid.
    if (house.delivery.answerFromMemory(request, sinkOf(response), ['X-Request-Id', 'id-1']) !== null) return;
    response.writeHead(response.headersSent ? 500 : 599, { 'Content-Length': 0 }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await house.close();
  });
  return { house, hot: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Requests right after the resolver has read the version, and again if that was too long ago. */
async function askHot({ house, hot }: { house: DeliveryFixture; hot: string }, path: string, init: RequestInit = {}) {
  for (let tries = 1; ; tries += 1) {
    await house.get(path, {}, 'HEAD');
    const answer = await fetch(hot + path, init);
    const body = Buffer.from(await answer.arrayBuffer());
    if (answer.status !== 599 || tries === 50) return { status: answer.status, headers: answer.headers, body };
  }
}

describe('a hot answer', () => {
  it.each<[string, RequestInit]>([
    ['all of it', {}],
    ['HEAD', { method: 'HEAD' }],
    ['a range', { headers: { range: 'bytes=5-99' } }],
    ['an entity-tag that matches', { headers: { 'if-none-match': '*' } }],
    ['a date that matches', { headers: { 'if-modified-since': new Date(Date.now() + 1000).toUTCString() } }],
  ])('is identical to the regular answer: %s', async (_what, init) => {
    const place = await start();
    const id = await place.house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await place.house.get(path);
    const hot = await askHot(place, path, init);
    const slow = await place.house.get(path, init.headers as Record<string, string>, init.method);
    expect([hot.status, hot.body.equals(slow.body)]).toEqual([slow.status, true]);
    const { 'x-request-id': requestId, ...rest } = Object.fromEntries(hot.headers);
    expect(requestId).toBe('id-1');
    const transport = (headers: object) =>
      Object.entries(headers).filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name));
    expect(new Map(transport(rest))).toEqual(new Map(transport(slow.headers)));
  });

  it('is counted and logged like any other', async () => {
    const place = await start();
    const id = await place.house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await place.house.get(path);
    const before = place.house.delivery.stats;
    await askHot(place, path, { headers: { range: 'bytes=0-0' } });
    const after = place.house.delivery.stats;
    expect(after.hits).toBeGreaterThan(before.hits);
    expect(after.bytesSent - before.bytesSent).toBe(1);
    expect(await place.house.assets()).toMatchObject([{ path, bytes: 10_000, cacheStatus: 'HIT' }]);
  });

  it.each<[string, string, RequestInit]>([
    ['what is not in memory', 'other.webp', {}],
    ['what is not there', 'none.webp', {}],
    ['a method that changes things', 'thumb.webp', { method: 'POST' }],
    ['a condition that fails', 'thumb.webp', { headers: { 'if-match': '"other"' } }],
    ['a range outside', 'thumb.webp', { headers: { range: 'bytes=99999-' } }],
  ])('is not sent for %s', async (_what, file, init) => {
    const place = await start();
    const id = await place.house.addMedia([thumb, { ...thumb, name: 'other', content: pattern(20_000, 9) }]);
    await place.house.get(`/media/${id}/thumb.webp`);
    for (let tries = 0; tries < 5; tries += 1) {
      await place.house.get(`/media/${id}/thumb.webp`);
      expect((await fetch(`${place.hot}/media/${id}/${file}`, init)).status).toBe(599);
    }
  });

  it('reflects a delete and a purge at once', async () => {
    const place = await start();
    const { house, hot } = place;
    const id = await house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await house.get(path);
    expect((await askHot(place, path)).status).toBe(200);
    house.delivery.purge({ path });
    expect((await fetch(hot + path)).status).toBe(599);
    expect((await house.get(path)).headers['x-cache']).toBe('MISS');
    await house.repositories.media.delete(id);
    await rm(await house.objectFile(id, thumb));
    house.delivery.purge({ mediaId: id });
    expect((await fetch(hot + path)).status).toBe(599);
    expect((await house.get(path)).status).toBe(404);
  });
});
