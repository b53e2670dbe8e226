import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLogger } from '../../base/logger.ts';
import { accept, bullQueues, claim, describeWithEither, NOTHING_MADE, openRows } from './bull-queue.fixture.ts';
import { openBullEngine } from './open-bull-engine.ts';
import { EngineAwayError, type QueueEngine } from './queue-engine.ts';
import { createReconciler } from './reconciler.ts';

const crash = { code: 'engine_crashed', message: 'It crashed.', retryable: true };
const logger = createLogger('silent');
const SUSPECT_MS = 60_000;
const PAGE_SIZE = 5;

it('compares again after the usual pause if the engine did not answer', async () => {
  let asked = 0;
  const alone = async () => {
    asked += 1;
    await sleep(500);
    throw new EngineAwayError('There is no answer.');
  };
  const engine = { alone } as Partial<QueueEngine> as QueueEngine;
  const reconciler = createReconciler({ rows: { records: async () => [] }, engine, logger, intervalMs: 10 });
  reconciler.start();
  await expect.poll(() => asked, { timeout: 9_000 }).toBeGreaterThanOrEqual(3);
  await reconciler.stop();
});

describeWithEither('the comparison of rows and BullMQ', (servers) => {
  const { open, closeLater, database, cutBull, bullJobs, emptyBull, inRedis } = bullQueues(servers);

  /** Another node with its own clock, which compares on demand. */
  async function comparing(url: string) {
    const rows = await openRows(url);
    const where = inRedis();
    const redis = where && { ...where, deploymentId: rows.deployment.id };
    const engine = await openBullEngine({ url, redis, logger });
    closeLater(async () => {
      await engine.close();
      await rows.close();
    });
    let nowMs = 0;
    const monotonicNow = () => nowMs;
    const parts = { rows: rows.jobs, engine, logger, suspectMs: SUSPECT_MS, pageSize: PAGE_SIZE, monotonicNow };
    const reconciler = createReconciler(parts);
    return {
      rows,
      engine,
      reconcile: reconciler.reconcile,
      pass: (ms: number) => {
        nowMs += ms;
      },
    };
  }

  it('adds jobs whose node died between commit and BullMQ, in order', async () => {
    const url = await database();
    const node = await open(url);
    const { rows, reconcile } = await comparing(url);
    const ids = [await accept(rows), await accept(rows), await accept(rows)];
    expect(await node.jobs.claim('worker-1')).toBeNull();
    expect(await reconcile()).toEqual({ added: 3, removed: 0, freed: 0 });
    expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 0 });
    const order = [await claim(node), await claim(node), await claim(node)];
    expect(order.map(({ mediaId }) => mediaId)).toEqual(ids);
  });

  it('repairs more jobs than one page holds', async () => {
    const url = await database();
    const { rows, reconcile } = await comparing(url);
    for (let n = 0; n < 3 * PAGE_SIZE + 2; n++) await accept(rows);
    expect(await reconcile()).toEqual({ added: 17, removed: 0, freed: 0 });
    expect(await bullJobs(url)).toHaveLength(17);
    const media = await rows.jobs.records({ afterId: 0, limit: 100 });
    for (const { mediaId } of media.slice(2)) await rows.media.delete(mediaId);
    expect(await reconcile()).toEqual({ added: 0, removed: 15, freed: 0 });
    expect(await bullJobs(url)).toHaveLength(2);
    expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 0 });
  });

  it('restores every job, for one worker each, after BullMQ was emptied', async () => {
    const url = await database();
    const node = await open(url);
    const { reconcile } = await comparing(url);
    const running = await accept(node);
    const lease = await claim(node);
    const later = await accept(node);
    await node.jobs.release(await claim(node), { kind: 'retry', delayMs: 120_000, failure: crash });
    const waiting = await accept(node);
    await emptyBull(url);

    expect(await reconcile()).toEqual({ added: 2, removed: 0, freed: 0 });
    expect(await claim(node)).toMatchObject({ mediaId: waiting });
    expect(await node.jobs.claim('worker-2')).toBeNull();
    expect((await bullJobs(url)).map(({ state }) => state)).toEqual(['delayed', 'active']);
    expect((await node.jobs.findJobViews([later]))[0]?.dueInMs).toBeGreaterThan(0);
    // The node that frees a job adds it again.
    await node.jobs.release(lease, { kind: 'released' });
    expect(await claim(node)).toMatchObject({ mediaId: running });
  });

  it('removes jobs of BullMQ without a row, and active ones after a delay', async () => {
    const url = await database();
    const node = await open(url);
    const { rows, reconcile, pass } = await comparing(url);
    const running = await accept(node);
    await claim(node);
    const waiting = await accept(node);
    await rows.media.delete(running);
    await rows.media.delete(waiting);
    expect(await reconcile()).toEqual({ added: 0, removed: 1, freed: 0 });
    pass(SUSPECT_MS - 1);
    expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 0 });
    pass(1);
    expect(await reconcile()).toEqual({ added: 0, removed: 1, freed: 0 });
    expect(await bullJobs(url)).toEqual([]);
  });

  it('hands out an active job with a free row again, but not a held one', async () => {
    const url = await database();
    const node = await open(url);
    const { engine, reconcile, pass } = await comparing(url);
    const held = await accept(node);
    const lease = await claim(node);
    const dropped = await accept(node);
    await engine.take({ worker: 'worker-2', token: 'of a worker that died before it claimed' });
    for (const ms of [0, SUSPECT_MS - 1]) {
      pass(ms);
      expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 0 });
    }
    expect(await node.jobs.claim('worker-3')).toBeNull();
    pass(1);
    expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 1 });
    expect(await claim(node)).toMatchObject({ mediaId: dropped });
    expect(await node.media.publish(lease, NOTHING_MADE)).toBe(true);
    expect((await node.media.find(held))?.status).toBe('ready');
  });

  it('fault 23: ends a delay that a clock set back by an hour would extend', async () => {
    const url = await database();
    const node = await open(url);
    const { reconcile } = await comparing(url);
    const id = await accept(node);
    const lease = await claim(node);
    const now = Date.now;
    try {
      Date.now = () => now() + 3_600_000;
      await node.jobs.release(lease, { kind: 'retry', delayMs: 1, failure: crash });
    } finally {
      Date.now = now;
    }
    expect(await node.jobs.claim('worker-1')).toBeNull();
    expect(await reconcile()).toEqual({ added: 0, removed: 0, freed: 1 });
    expect(await claim(node)).toMatchObject({ mediaId: id });
  });

  it('runs in one process at a time', async () => {
    const url = await database();
    const [one, other] = [await comparing(url), await comparing(url)];
    const whileOneCompares = await one.engine.alone(() => other.reconcile());
    expect(whileOneCompares).toBeNull();
    expect(await other.reconcile()).toEqual({ added: 0, removed: 0, freed: 0 });
  });

  it('continues, as claims do, after all connections were cut', async () => {
    const url = await database();
    const node = await open(url, { timing: { intervalMs: 50 } });
    const rows = await openRows(url);
    for (let cuts = 0; cuts < 3; cuts++) {
      const id = await accept(rows);
      const taken = expect.poll(() => node.jobs.claim('worker-1').catch(() => null), { timeout: 40_000 });
      await taken.toMatchObject({ mediaId: id });
      expect(await cutBull(url)).toBeGreaterThan(1);
    }
    await rows.close();
  });
});
