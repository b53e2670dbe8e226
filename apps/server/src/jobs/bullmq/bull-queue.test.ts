import { expect, it } from 'vitest';
import { createLogger } from '../../base/logger.ts';
import { ConfigError } from '../../base/settings.ts';
import { MAX_LOST_LEASES } from '../../db/job-queue.ts';
import { accept, bullQueues, claim, describeWithEither, NOTHING_MADE, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const failure = { code: 'corrupt_media', message: 'It is damaged.', retryable: false };
const crash = { code: 'engine_crashed', message: 'It crashed.', retryable: true };

describeWithEither('jobs that BullMQ hands out', (servers) => {
  const { open, database, bullJobs, bullEvents } = bullQueues(servers);

  it('go to one node each, by priority and age', async () => {
    const url = await database();
    const api = await open(url);
    const workers = [await open(url), await open(url), await open(url)];
    const late: string[] = [];
    const soon: string[] = [];
    for (let n = 0; n < 30; n++) {
      late.push(await accept(api, 200));
      soon.push(await accept(api, 1));
    }
    const places = new Map([...soon, ...late].map((id, place) => [id, place]));
    const claimed = await Promise.all(
      workers.map(async (node, index) => {
        const order: number[] = [];
        for (;;) {
          const lease = await node.jobs.claim(`worker-${index}`);
          if (lease === null) return order;
          order.push(places.get(lease.mediaId) ?? Number.NaN);
          expect(await node.media.publish(lease, NOTHING_MADE)).toBe(true);
        }
      }),
    );
    expect(claimed.flat().sort((a, b) => a - b)).toEqual([...places.values()]);
    // How far one node is ahead of another depends on the machine. The order of each node does not, but for the claims of the others.
    for (const order of claimed) {
      const early = order.filter((place, at) => order.slice(0, at).some((before) => before > place + workers.length));
      expect(early).toEqual([]);
    }
    expect(await bullJobs(url)).toEqual([]);
  });

  it('keep their place before later ones if they are given back', async () => {
    const url = await database();
    const node = await open(url);
    const ids = [await accept(node), await accept(node), await accept(node)];
    const [first, second] = [await claim(node), await claim(node)];
    await node.jobs.release(second, { kind: 'released' });
    await node.jobs.release(first, { kind: 'released' });
    const order = [await claim(node), await claim(node), await claim(node)];
    expect(order.map(({ mediaId }) => mediaId)).toEqual(ids);
  });

  it('wait in BullMQ for their retry, and then go to any node', async () => {
    const url = await database();
    const [one, other] = [await open(url), await open(url)];
    const id = await accept(one);
    await one.jobs.release(await claim(one), { kind: 'retry', delayMs: 1_500, failure: crash });
    expect(await bullJobs(url)).toMatchObject([{ state: 'delayed', lock_token: null }]);
    expect(await other.jobs.claim('worker-2')).toBeNull();
    const due = expect.poll(() => other.jobs.claim('worker-2'), { interval: 50, timeout: 20_000 });
    await due.toMatchObject({ mediaId: id, attempt: 2 });
  });

  it('are removed with their media object', async () => {
    const url = await database();
    const node = await open(url);
    const running = await accept(node);
    const lease = await claim(node);
    const waiting = await accept(node);
    await node.media.delete(waiting);
    await node.media.delete(running);
    expect(await bullJobs(url)).toEqual([]);
    expect(await node.jobs.isHeld(lease)).toBe(false);
    expect(await node.media.publish(lease, NOTHING_MADE)).toBe(false);
    expect(await node.jobs.claim('worker-2')).toBeNull();
  });

  it('are not handed out if a node without BullMQ deleted the media object', async () => {
    const url = await database();
    const node = await open(url);
    const gone = await accept(node);
    const remaining = await accept(node);
    const rows = await openRows(url);
    await rows.media.delete(gone);
    await rows.close();
    expect(await claim(node)).toMatchObject({ mediaId: remaining });
    expect(await bullJobs(url)).toMatchObject([{ state: 'active' }]);
  });

  it('stay in the dead letters with the reason if they fail for good', async () => {
    const url = await database();
    const node = await open(url);
    await accept(node);
    await node.media.fail(await claim(node), { ...failure, message: 'It is\0damaged.' });
    const lost = await accept(node);
    for (let n = 0; n < MAX_LOST_LEASES; n++) {
      await node.jobs.reclaim((await claim(node)).token, { counted: true });
    }
    expect(await node.media.find(lost)).toMatchObject({ status: 'failed', failure: { code: 'worker_lost' } });
    expect(await bullJobs(url)).toMatchObject([
      { state: 'failed', lock_token: null, failed_reason: 'corrupt_media: It is\uFFFDdamaged.' },
      { state: 'failed', lock_token: null, failed_reason: expect.stringMatching(/^worker_lost: Processing was begun/) },
    ]);
    // A retry makes another job.
    expect(await node.media.retry(lost)).toBe(true);
    expect(await claim(node)).toMatchObject({ mediaId: lost, attempt: 1 });
  });

  it('leave no growing number of finished jobs, events, or locks', async () => {
    const url = await database();
    const node = await open(url);
    for (let n = 0; n < 350; n++) {
      await accept(node);
      await node.media.publish(await claim(node), NOTHING_MADE);
    }
    expect(await bullJobs(url)).toEqual([]);
    // There were 1,750 events. BullMQ trims them every 256.
    expect(await bullEvents(url)).toBeLessThanOrEqual(1_000 + 256);
  });

  it('are refused at the start, with the fix, if BullMQ is not installed', async () => {
    const rows = await openRows(await database());
    const load = () =>
      Promise.reject(Object.assign(new Error("Cannot find package 'bullmq'"), { code: 'ERR_MODULE_NOT_FOUND' }));
    const opening = openBullQueue({
      repositories: rows,
      url: 'postgres://127.0.0.1/x',
      logger: createLogger('silent'),
      load,
    });
    await expect(opening).rejects.toThrow(ConfigError);
    await expect(opening).rejects.toThrow(/MDS_QUEUE: bullmq .* not installed\. Install it/);
    await rows.close();
  });
});
