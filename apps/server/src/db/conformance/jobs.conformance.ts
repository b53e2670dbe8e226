import { describe, expect, it } from 'vitest';
import { MAX_LOST_LEASES } from '../job-queue.ts';
import { leaseSilenceConformance } from './lease-silence.conformance.ts';
import { crash, EXISTING, failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** The queue, its leases, and the state of its jobs. */
export function jobsConformance({ repositories, newMedia, accept, claim }: RepositoriesFixture): void {
  describe('jobs', () => {
    it('are handed out once each, by priority and then by age', async () => {
      const low = await repositories.media.accept(newMedia('low'), { ...EXISTING, priority: 200 });
      const first = await accept('first');
      const second = await accept('second');
      const high = await repositories.media.accept(newMedia('high'), { ...EXISTING, priority: 1 });
      const order = [await claim(), await claim(), await claim(), await claim()];
      expect(order.map(({ mediaId }) => mediaId)).toEqual([high.media.id, first.id, second.id, low.media.id]);
      expect(new Set(order.map(({ token }) => token)).size).toBe(4);
      expect(order.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
      expect(await repositories.jobs.claim('worker-2')).toBeNull();
      expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 4, oldestDueMs: 0 });
    });

    it('are handed out in the order of acceptance, even within one millisecond', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 30; i++) ids.push((await accept(`${i}`)).id);
      const order: string[] = [];
      for (const _ of ids) order.push((await claim()).mediaId);
      expect(order).toEqual(ids);
    });

    it('have a lease whose renewals raise its heartbeat count, without any clock', async () => {
      await accept('a');
      const lease = await claim();
      const [before] = await repositories.jobs.held();
      expect(await repositories.jobs.renew(lease)).toBe(true);
      const [after] = await repositories.jobs.held();
      expect(before).toMatchObject({ token: lease.token, worker: 'worker-1', mediaId: lease.mediaId });
      expect(after?.beat).toBeGreaterThan(before?.beat ?? Number.POSITIVE_INFINITY);
    });

    leaseSilenceConformance({
      add: () => accept('a'),
      async claim() {
        const lease = await claim();
        return {
          beat: () => repositories.jobs.renew(lease),
          reclaim: () => repositories.jobs.reclaim(lease.token, { counted: true }),
        };
      },
      held: () => repositories.jobs.held(),
      noteSilence: (...noted) => repositories.jobs.noteSilence(...noted),
    });

    it('accept no write of a late worker whose lease was taken away', async () => {
      const { id } = await accept('a');
      const late = await claim();
      expect(await repositories.jobs.reclaim(late.token, { counted: true })).toBe(true);
      expect(await repositories.jobs.reclaim(late.token, { counted: true })).toBe(false);
      const lease = await claim();
      expect(lease).toMatchObject({ mediaId: id, attempt: 1 });

      expect(await repositories.jobs.renew(late)).toBe(false);
      expect(await repositories.media.start(late, [row()])).toBe(false);
      expect(await repositories.media.publish(late, result(ready()))).toBe(false);
      expect(await repositories.media.fail(late, failure)).toBe(false);
      await repositories.jobs.release(late, { kind: 'released' });
      expect(await repositories.media.renditions(id)).toEqual([]);
      expect((await repositories.media.find(id))?.status).toBe('queued');

      expect(await repositories.jobs.renew(lease)).toBe(true);
      expect(await repositories.media.publish(lease, result(ready()))).toBe(true);
      expect(await repositories.media.publish(lease, result(ready()))).toBe(false);
    });

    it('are due at once, and no attempt is counted, if given back on shutdown', async () => {
      const { id } = await accept('a');
      for (let n = 0; n < 5; n++) {
        const lease = await claim();
        expect(lease.attempt).toBe(1);
        await repositories.media.start(lease, [row()]);
        await repositories.jobs.release(lease, { kind: 'released' });
        expect((await repositories.media.find(id))?.status).toBe('queued');
      }
    });

    it('wait for their retry, and the attempt is counted', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [row()]);
      await repositories.jobs.release(lease, { kind: 'retry', delayMs: 1_000, failure: crash });
      expect(await repositories.media.find(id)).toMatchObject({ status: 'queued', attempts: 1 });
      expect(await repositories.jobs.claim('worker-1')).toBeNull();
      const due = expect.poll(() => repositories.jobs.claim('worker-1'), { interval: 10, timeout: 10_000 });
      await due.toMatchObject({ attempt: 2 });
    });

    it('fail after too many lost workers, but never because of restarts', async () => {
      const { id } = await accept('a');
      for (let n = 0; n < MAX_LOST_LEASES + 2; n++) {
        await repositories.jobs.reclaim((await claim()).token, { counted: false });
      }
      for (let n = 1; n <= MAX_LOST_LEASES; n++) {
        expect((await repositories.media.find(id))?.status, `lost ${n - 1}`).toBe('queued');
        await repositories.jobs.reclaim((await claim()).token, { counted: true });
      }
      expect(await repositories.media.find(id)).toMatchObject({
        status: 'failed',
        failure: { code: 'worker_lost', retryable: true },
      });
      expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
    });

    it('report how long the oldest has been waiting', async () => {
      expect((await repositories.jobs.counts()).oldestDueMs).toBe(0);
      await accept('a');
      await expect.poll(async () => (await repositories.jobs.counts()).oldestDueMs).toBeGreaterThan(0);
    });
  });

  describe('the state of a job', () => {
    const viewOf = async (id: string) => (await repositories.jobs.findJobViews([id]))[0] ?? null;

    it('shows its place, its progress, its retry with the reason, and its end', async () => {
      const { jobs, media } = repositories;
      const first = await accept('a');
      const second = await accept('b');
      const waits = { worker: null, attempt: 1, runs: 0, startedAtMs: null, progress: null, dueInMs: 0, priority: 100 };
      expect(await viewOf(first.id)).toMatchObject(waits);
      expect([await jobs.ahead(first.id), await jobs.ahead(second.id)]).toEqual([0, 1]);

      const lease = await claim();
      expect([await jobs.ahead(first.id), await jobs.ahead(second.id)]).toEqual([null, 0]);
      expect(await jobs.underWay()).toEqual([]);
      expect(await jobs.progress(lease, 0.25)).toBe(true);
      const [run] = await jobs.attempts(first.id);
      const works = { jobId: lease.jobId, worker: 'worker-1', runs: 1, startedAtMs: run?.startedAtMs, progress: 0.25 };
      expect(await viewOf(first.id)).toMatchObject(works);
      expect(await jobs.underWay()).toEqual([{ mediaId: first.id, projectId: 'default', progress: 0.25 }]);

      await jobs.release(lease, { kind: 'retry', delayMs: 60_000, failure: crash });
      const waiting = await viewOf(first.id);
      expect(waiting).toMatchObject({ worker: null, attempt: 2, progress: null, lastReason: 'It crashed.' });
      expect(waiting).toMatchObject({ runs: 1, startedAtMs: null });
      expect(waiting?.dueInMs).toBeGreaterThan(50_000);
      expect(waiting?.dueAtMs).toBeGreaterThan(Date.now() + 50_000);
      expect(await jobs.ahead(second.id)).toBe(0);
      await media.fail(await claim(), failure);
      expect(await viewOf(second.id)).toBeNull();
      expect(await jobs.ahead(second.id)).toBeNull();
    });

    it('is listed by project and state, oldest first, in pages', async () => {
      const { jobs } = repositories;
      const ids: string[] = [];
      for (const name of ['a', 'b', 'c', 'd']) ids.push((await accept(name)).id);
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      const theirs = { ...newMedia('e'), projectId: 'other' };
      await repositories.media.accept(theirs, EXISTING);
      const lease = await claim();
      await jobs.progress(lease, 0.5);
      const page = (more: object = {}) => jobs.page({ projectId: 'default', limit: 10, afterId: null, ...more });
      const idsOf = (found: { mediaId: string }[]) => found.map(({ mediaId }) => mediaId);

      const all = await page();
      expect(idsOf(all)).toEqual(ids);
      expect(all).toEqual([...(await jobs.findJobViews(ids))].sort((a, b) => a.jobId - b.jobId));
      expect(all[0]).toMatchObject({ jobId: lease.jobId, worker: 'worker-1', runs: 1, progress: 0.5 });
      expect(idsOf(await page({ limit: 2 }))).toEqual(ids.slice(0, 2));
      expect(idsOf(await page({ limit: 2, afterId: all[1]?.jobId }))).toEqual(ids.slice(2));
      expect(idsOf(await page({ state: 'running' }))).toEqual(ids.slice(0, 1));
      expect(idsOf(await page({ state: 'queued', limit: 2 }))).toEqual(ids.slice(1, 3));
      expect(idsOf(await page({ projectId: 'other' }))).toEqual([theirs.id]);
      expect(await page({ projectId: 'nobody' })).toEqual([]);
      await repositories.media.delete(ids[1] ?? '');
      expect(idsOf(await page({ limit: 2 }))).toEqual([ids[0], ids[2]]);
    });

    it('shows if its lease is still valid, and takes no progress of a lost one', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      expect(await repositories.jobs.isHeld(lease)).toBe(true);
      await repositories.media.delete(id);
      expect(await repositories.jobs.isHeld(lease)).toBe(false);
      expect(await repositories.jobs.progress(lease, 0.5)).toBe(false);
    });

    it('is never missing for an unfinished media object, so none is stranded', async () => {
      await accept('a');
      await repositories.media.start(await claim(), [row()]);
      await accept('b');
      await accept('c');
      await repositories.media.fail(await claim(), failure);
      expect(await repositories.jobs.adoptStranded()).toBe(0);
    });
  });
}
