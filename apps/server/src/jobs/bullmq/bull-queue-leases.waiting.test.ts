import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'bullmq';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../base/logger.ts';
import type { Lease } from '../../db/job-queue.ts';
import { createLeaseMonitor, type LeaseMonitorParts } from '../lease-monitor.ts';
import { accept, bullQueues, claim, describeWithPostgres, NOTHING_MADE, openRows } from './bull-queue.fixture.ts';
import type { NodeRole } from './queue-node.fixture.ts';

const logger = createLogger('silent');
/** The default duration of BullMQ's lock on a job. */
const BULLMQ_LOCK_MS = 30_000;

/** Starts a node in its own process. */
function startNode(url: string, role: NodeRole): ChildProcess {
  const child = fork(new URL('./queue-node.fixture.ts', import.meta.url), [url, role], {
    execArgv: ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** Waits for the end of a node, also of one that kills itself. @returns its signal */
async function ended(child: ChildProcess): Promise<unknown> {
  const [, signal] = await once(child, 'exit');
  return signal;
}

/** Runs it on a machine whose clock is an hour behind. */
async function anHourAgo<T>(run: () => Promise<T>): Promise<T> {
  const now = Date.now;
  Date.now = () => now() - 3_600_000;
  return run().finally(() => {
    Date.now = now;
  });
}

describeWithPostgres('leases of jobs that BullMQ hands out', (postgres) => {
  const { open, database, bullJobs } = bullQueues({ postgres, redis: null });

  function monitor(parts: Pick<LeaseMonitorParts, 'jobs' | 'leaseMs' | 'intervalMs'>): void {
    const leases = createLeaseMonitor({ ...parts, logger });
    leases.start();
    onTestFinished(() => leases.stop());
  }

  describe('a node that is killed', () => {
    it('fault 1: loses its job to another worker within a minute', async () => {
      const url = await database();
      const node = await open(url);
      const id = await accept(node);
      const holder = startNode(url, 'hold');
      const [lease] = (await once(holder, 'message')) as [Lease];
      expect(lease.mediaId).toBe(id);
      // The monitor runs with the timing of the service.
      monitor({ jobs: node.jobs });
      await sleep(4_000);
      expect(await node.jobs.claim('worker-2')).toBeNull();
      holder.kill('SIGKILL');
      await ended(holder);
      const killedAt = performance.now();
      const taken = expect.poll(() => node.jobs.claim('worker-2'), { interval: 1_000, timeout: 60_000 });
      await taken.toMatchObject({ mediaId: id, attempt: 1 });
      expect(performance.now() - killedAt).toBeLessThan(60_000);
      expect(await node.jobs.isHeld(lease)).toBe(false);
      expect(await node.media.publish(lease, NOTHING_MADE)).toBe(false);
    });

    it('fault 1: loses no media object between its commit and BullMQ', async () => {
      const url = await database();
      const dying = startNode(url, 'accept-and-die');
      expect(await ended(dying)).toBe('SIGKILL');
      const rows = await openRows(url);
      const [waiting] = await rows.jobs.records({ afterId: 0, limit: 10 });
      await rows.close();
      expect(waiting?.token).toBeNull();
      expect(await bullJobs(url)).toEqual([]);
      const node = await open(url, { timing: { intervalMs: 100 } });
      const taken = expect.poll(() => node.jobs.claim('worker-1'), { timeout: 30_000 });
      await taken.toMatchObject({ mediaId: waiting?.mediaId });
    });

    it('fault 1: loses no job between BullMQ and the claim of its row', async () => {
      const url = await database();
      const node = await open(url, { timing: { intervalMs: 100, suspectMs: 500 } });
      const id = await accept(node);
      const dying = startNode(url, 'take-and-die');
      expect(await ended(dying)).toBe('SIGKILL');
      const taken = expect.poll(() => node.jobs.claim('worker-1'), { timeout: 30_000 });
      await taken.toMatchObject({ mediaId: id });
    });

    it('fault 1: loses and repeats no job among other working nodes', async () => {
      const url = await database();
      const node = await open(url, { timing: { intervalMs: 200, suspectMs: 1_000 } });
      monitor({ jobs: node.jobs, leaseMs: 1_000, intervalMs: 100 });
      const ids: string[] = [];
      for (let n = 0; n < 60; n++) ids.push(await accept(node));
      const nodes = Array.from({ length: 4 }, () => startNode(url, 'work'));
      for (const victim of nodes.slice(0, 3)) {
        // It has claimed a job and will work on it for a while.
        await once(victim, 'message');
        victim.kill('SIGKILL');
        await ended(victim);
      }
      const left = async () => {
        const { queued, running } = await node.jobs.counts();
        return queued + running;
      };
      await expect.poll(left, { interval: 100, timeout: 120_000 }).toBe(0);
      let lost = 0;
      for (const id of ids) {
        expect((await node.media.find(id))?.status).toBe('ready');
        const outcomes = (await node.jobs.attempts(id)).map(({ outcome }) => outcome);
        expect(outcomes.filter((outcome) => outcome === 'ready')).toHaveLength(1);
        expect(outcomes.filter((outcome) => !['ready', 'lost'].includes(outcome))).toEqual([]);
        lost += outcomes.filter((outcome) => outcome === 'lost').length;
      }
      expect(lost).toBeGreaterThan(0);
      await expect.poll(() => bullJobs(url), { timeout: 20_000 }).toEqual([]);
    }, 180_000);
  });

  it('stay with a slow worker that renews for many times the lease time', async () => {
    const url = await database();
    const [slow, other] = [await open(url), await open(url)];
    monitor({ jobs: other.jobs, leaseMs: 500, intervalMs: 50 });
    await accept(slow);
    const lease = await claim(slow);
    for (let beat = 0; beat < 50; beat++) {
      expect(await slow.jobs.renew(lease)).toBe(true);
      expect(await other.jobs.claim('worker-2')).toBeNull();
      await sleep(100);
    }
    expect(await slow.media.publish(lease, NOTHING_MADE)).toBe(true);
  });

  it('fault 23: give no second worker to a job that looks stalled by a slow clock', async () => {
    const url = await database();
    const [slow, other] = [await open(url, { lockMs: BULLMQ_LOCK_MS }), await open(url)];
    const id = await accept(other);
    const lease = await anHourAgo(() => claim(slow));
    const stalled: string[] = [];
    await lookForStalled(url, (jobId) => stalled.push(jobId));
    const states = async () => (await bullJobs(url)).map(({ state }) => state);
    await expect.poll(states, { timeout: 20_000 }).toEqual(['waiting']);
    expect(stalled).toEqual([`job-${lease.jobId}`]);

    expect(await other.jobs.claim('worker-2')).toBeNull();
    expect(await slow.jobs.renew(lease)).toBe(true);
    expect(await slow.jobs.attempts(id)).toHaveLength(1);
    // The job is not lost: the node that frees it adds it again.
    await slow.jobs.release(lease, { kind: 'released' });
    expect(await claim(other)).toMatchObject({ mediaId: id });
  });

  it('fault 23: stay with a worker whose clock is an hour behind', async () => {
    const url = await database();
    const [behind, other] = [await open(url), await open(url)];
    monitor({ jobs: other.jobs, leaseMs: 500, intervalMs: 50 });
    const id = await accept(other);
    const lease = await anHourAgo(() => claim(behind));
    for (let beat = 0; beat < 20; beat++) {
      expect(await anHourAgo(() => behind.jobs.renew(lease))).toBe(true);
      expect(await other.jobs.claim('worker-2')).toBeNull();
      await sleep(100);
    }
    expect(await behind.media.publish(lease, NOTHING_MADE)).toBe(true);
    expect(await other.jobs.attempts(id)).toHaveLength(1);
  });

  /** Runs BullMQ's own search for stalled jobs, which the service does not use. */
  async function lookForStalled(url: string, onStalled: (jobId: string) => void): Promise<void> {
    const { createPostgresBackend } = await import('bullmq');
    const options = { connection: url, autorun: false, stalledInterval: 100 };
    const worker = new Worker('mds-media', null, options, createPostgresBackend);
    worker.on('error', () => undefined);
    worker.on('stalled', onStalled);
    onTestFinished(() => worker.close());
    await worker.startStalledCheckTimer();
  }
});
