import { afterAll, beforeAll, expect, it } from 'vitest';
import { noisePng, png } from './support/pictures.ts';
import { findRedis, REDIS_PASSWORD, type RedisServer, startRedisServer } from './support/redis-server.ts';
import type { ServiceProcess } from './support/service-process.ts';
import { describeNodes, type SeveralNodes, startSeveralNodes, type WorkerProcess } from './support/several-nodes.ts';
import { describeWith } from './support/system-program.ts';

const program = findRedis();

describeWith(program, 'Redis')('nodes with BullMQ on Redis', () => {
  describeNodes('over PostgreSQL and S3', (bin) => {
    let redis: RedisServer;
    let all: SeveralNodes;
    let api: ServiceProcess;
    let worker: WorkerProcess;
    beforeAll(async () => {
      redis = await startRedisServer(program ?? '');
      all = await startSeveralNodes(bin, { env: { MDS_QUEUE: 'bullmq', MDS_QUEUE_URL: redis.url } });
      [api, worker] = await Promise.all([all.startApi('api'), all.startWorker('worker')]);
    }, 120_000);
    afterAll(async () => {
      await all?.stop();
      await redis?.stop();
    });
    const ready = async (id: string, timeoutMs = 60_000) =>
      (await all.clientOf(api).control.media.waitUntilReady(id, { timeoutMs })).status;

    it('process a picture without any BullMQ table in PostgreSQL', async () => {
      const { media } = await all.clientOf(api).control.media.ingest(noisePng('redis', 600, 600));
      expect(await ready(media.id)).toBe('ready');
      expect(await redis.command('KEYS', 'bull:mds-media-dep_*:meta')).toContain(':meta');
      expect(await redis.command('KEYS', '*:job-*')).toBe('*0');
    });

    it('fault 13: the job of a killed worker goes to a node that started without Redis', async () => {
      const { media } = await all.clientOf(api).control.media.ingest(noisePng('killed', 1400, 1400));
      const statusOf = async () => (await all.clientOf(api).control.media.get(media.id)).status;
      await expect.poll(statusOf, { timeout: 30_000, interval: 10 }).toBe('processing');
      await worker.end('SIGKILL');
      await redis.kill9();
      const other = await all.startWorker('worker-2');
      const taken = await all.clientOf(api).control.media.ingest(png(3));
      expect(taken.media.status).toBe('queued');
      await expect.poll(other.stderr, { timeout: 30_000 }).toContain('Redis does not answer');
      await redis.restart();
      expect(await ready(taken.media.id)).toBe('ready');
      expect(await ready(media.id)).toBe('ready');
      await redis.kill9();
      expect(await other.end('SIGTERM')).toEqual({ code: 0, signal: null });
      for (const log of [api.stderr(), worker.stderr(), other.stderr()]) expect(log).not.toContain(REDIS_PASSWORD);
      // One line for an outage, and not one for each second of it.
      expect(other.stderr().split('Redis does not answer').length - 1).toBeLessThanOrEqual(2);
    }, 120_000);
  });
});
