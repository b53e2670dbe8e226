import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type DeliveryFixture, pattern, startDelivery } from './delivery.fixture.ts';

const MIB = 1024 * 1024;

async function start(options: Parameters<typeof startDelivery>[0]): Promise<DeliveryFixture> {
  const house = await startDelivery(options);
  onTestFinished(() => house.close());
  return house;
}

/** Sends `times` requests and then reads nothing. */
function stall(house: DeliveryFixture, path: string, times = 1) {
  const socket = connect(house.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(times));
  onTestFinished(() => void socket.destroy());
  return socket;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes of all buffers that are still referenced. */
function heldBytes(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

/** The most bytes that were held beyond `before` during `work`. */
async function peakDuring(before: number, work: Promise<unknown>): Promise<number> {
  let peak = 0;
  const look = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers - before);
  }, 5);
  await work.finally(() => clearInterval(look));
  return peak;
}

describe('memory stays bounded, so that readers cannot bring the service down', () => {
  it('with 200 clients that request a large object and read nothing', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    // Referenced until the end, so that it does not become garbage between the two measurements.
    const content = pattern(64 * MIB);
    const id = await house.addMedia([{ name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content }]);
    const path = `/media/${id}/mp4.mp4`;
    await house.get(path, { range: 'bytes=0-0' });
    const before = heldBytes();
    for (let n = 0; n < 200; n += 1) stall(house, path);
    const held = () => new Promise<number>((resolve) => house.server.getConnections((_, count) => resolve(count)));
    await expect.poll(held, { timeout: 10_000 }).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    // The budget, and the smallest chunks beyond it.
    expect(heldBytes() - before).toBeLessThan(50 * MIB);
    expect(content).toHaveLength(64 * MIB);
    // New readers are still served.
    expect((await house.get(path, { range: `bytes=${40 * MIB}-${40 * MIB + 9}` })).status).toBe(206);
  });

  it('if nobody reads: beyond the budget, bodies are sent from disk, not from memory', async () => {
    const house = await start({ memoryCacheBytes: 16 * MIB, pinnedBytes: 4 * MIB });
    const many = Array.from({ length: 40 }, (_, n) => ({
      ...{ name: `large${n}`, extension: 'webp', contentType: 'image/webp' },
      content: pattern(MIB, n),
    }));
    const id = await house.addMedia(many);
    const socket = stall(house, `/media/${id}/large0.webp`);
    // Many requests on one connection fill the buffers of the system.
    for (let n = 0; n < 8; n += 1) stall(house, `/media/${id}/large${n}.webp`);
    for (const { name } of many) stall(house, `/media/${id}/${name}.webp`, 16);
    await expect.poll(() => house.delivery.stats.pinnedBytes, { timeout: 10_000 }).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(house.delivery.stats.pinnedBytes).toBeLessThanOrEqual(4 * MIB);
    const again = await house.get(`/media/${id}/large39.webp`);
    expect(again.body.equals(pattern(MIB, 39))).toBe(true);
    socket.destroy();
  });

  it('if nobody reads and objects arrive at once, all of which saw an empty budget', async () => {
    const house = await start({
      remote: true,
      ...{ memoryCacheBytes: 64 * MIB, pinnedBytes: 4 * MIB, diskCacheBytes: 64 * MIB },
    });
    const many = Array.from({ length: 12 }, (_, n) => ({
      ...{ name: `large${n}`, extension: 'webp', contentType: 'image/webp' },
      content: pattern(MIB, n),
    }));
    const id = await house.addMedia(many);
    let arrive: () => void = () => undefined;
    const together = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    house.remote.transport = async (bytes) => {
      await together;
      return bytes;
    };
    // So many requests that they fill the buffers of the system.
    for (const { name } of many) stall(house, `/media/${id}/${name}.webp`, 16);
    await expect.poll(() => house.remote.mostAtOnce, { timeout: 10_000 }).toBe(many.length);
    expect(house.delivery.stats.pinnedBytes).toBe(0);
    arrive();
    let most = 0;
    const settled = async () => {
      most = Math.max(most, house.delivery.stats.pinnedBytes);
      return house.delivery.stats.memoryEntries;
    };
    await expect.poll(settled, { timeout: 10_000, interval: 5 }).toBe(many.length);
    await expect.poll(() => house.delivery.stats.pinnedBytes, { timeout: 10_000 }).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(Math.max(most, house.delivery.stats.pinnedBytes)).toBeLessThanOrEqual(4 * MIB);
    expect((await house.get(`/media/${id}/large11.webp`)).body.equals(pattern(MIB, 11))).toBe(true);
  });

  it.each([
    ['the same object', 1],
    ['as many objects', 1000],
  ])('with 1,000 simultaneous misses of %s at a remote origin', async (_what, count) => {
    const house = await start({ remote: true, memoryCacheBytes: 32 * MIB, diskCacheBytes: 512 * MIB });
    const content = (n: number) => Buffer.concat([Buffer.from(String(n).padStart(4)), randomBytes(100_000)]);
    const renditions = Array.from({ length: count }, (_, n) => ({
      ...{ name: `o${n}`, extension: 'webp', contentType: 'image/webp' },
      content: content(n),
    }));
    const id = await house.addMedia(renditions);
    const expected = renditions.map((one) => one.content);
    const before = heldBytes();
    let right = 0;
    // A slow origin: without a bound, all requests would be in progress at the same time.
    house.remote.transport = async (bytes) => {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return bytes;
    };
    const asking = Promise.all(
      Array.from({ length: 1000 }, async (_, n) => {
        const { body } = await house.get(`/media/${id}/o${n % count}.webp`);
        if (body.equals(expected[n % count] ?? Buffer.alloc(0))) right += 1;
      }),
    );
    // This includes the 100 MB of answers that the clients hold, as they run in this process.
    expect(await peakDuring(before, asking)).toBeLessThan(400 * MIB);
    expect(right).toBe(1000);
    expect(house.remote.asked).toHaveLength(count);
    // The bytes in progress that are not yet verified.
    expect(house.remote.mostAtOnce * 100_004).toBeLessThanOrEqual(32 * MIB);
    expect(house.delivery.stats.memoryBytes).toBeLessThanOrEqual(32 * MIB);
  });
});
