import { ulid } from 'ulid';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLogger } from '../base/logger.ts';
import type { Lease } from '../db/job-queue.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createLeaseMonitor, type LeaseMonitor, recoverLeases } from './lease-monitor.ts';

const WORKER = { id: 'w1', host: 'vm', pid: 4711, region: 'fra1', concurrency: 1, sinceMs: 0 };

let repositories: Repositories;
let lease: Lease;
let monitor: LeaseMonitor | null;
beforeEach(async () => {
  monitor = null;
  repositories = openSqliteRepositories(':memory:');
  lease = await leaseOf('a');
});
afterEach(async () => {
  await monitor?.stop();
  await repositories.close();
});

/** Accepts a media object and claims its job. */
async function leaseOf(letter: string): Promise<Lease> {
  const mediaObject = {
    id: `med_${ulid().toLowerCase()}`,
    projectId: 'default',
    createdAtMs: 0,
    contentType: 'image/png',
    bytes: 1,
    width: 1,
    height: 1,
    filename: null,
    sha256: letter.repeat(64),
    kind: 'image' as const,
    format: 'png',
    durationMs: null,
    codecs: [],
    warnings: [],
    identified: {},
  };
  await repositories.media.accept(mediaObject, { duplicate: 'allow', idempotencyKey: null });
  const claimed = await repositories.jobs.claim(WORKER.id);
  if (!claimed) throw new Error('There is nothing to claim.');
  await repositories.media.start(claimed, []);
  return claimed;
}

const watch = (overrides: Partial<Parameters<typeof createLeaseMonitor>[0]> = {}) => {
  const logger = createLogger('silent');
  monitor = createLeaseMonitor({ jobs: repositories.jobs, logger, leaseMs: 100, intervalMs: 10, ...overrides });
  monitor.start();
};
const held = async () => (await repositories.jobs.held()).map(({ token }) => token);
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('the lease monitor', () => {
  it('makes a job of a silent worker due again, and counts the lost lease', async () => {
    watch();
    await expect.poll(held).toEqual([]);
    expect((await repositories.media.find(lease.mediaId))?.status).toBe('queued');
    expect(await repositories.jobs.renew(lease)).toBe(false);
    expect(await repositories.jobs.claim('w2')).toMatchObject({ mediaId: lease.mediaId });
  });

  it('leaves a job with a worker that renews its lease, however long it runs', async () => {
    watch();
    const renewing = setInterval(() => void repositories.jobs.renew(lease), 20);
    await sleep(500);
    clearInterval(renewing);
    expect(await held()).toEqual([lease.token]);
  });

  it('takes away silent leases only', async () => {
    const other = await leaseOf('b');
    watch();
    const renewing = setInterval(() => void repositories.jobs.renew(other), 20);
    await expect.poll(held).toEqual([other.token]);
    clearInterval(renewing);
  });

  it('removes a worker without heartbeats, so that the status does not count it', async () => {
    await repositories.jobs.announceWorker(WORKER);
    await repositories.jobs.announceWorker({ ...WORKER, id: 'w2' });
    watch();
    const beating = setInterval(() => void repositories.jobs.announceWorker({ ...WORKER, id: 'w2' }), 20);
    await expect.poll(async () => (await repositories.jobs.workers()).map(({ id }) => id)).toEqual(['w2']);
    clearInterval(beating);
  });

  it('fault 23: neither ends nor extends a lease if the wall clock jumps by days', async () => {
    const now = Date.now;
    let shiftMs = 0;
    Date.now = () => now() + shiftMs;
    try {
      watch();
      const renewing = setInterval(() => void repositories.jobs.renew(lease), 20);
      for (const days of [30, -30, 3650]) {
        shiftMs = days * 24 * 60 * 60 * 1000;
        await sleep(60);
        expect(await held(), `${days} days`).toEqual([lease.token]);
      }
      clearInterval(renewing);
      shiftMs = -30 * 24 * 60 * 60 * 1000;
      await expect.poll(held).toEqual([]);
    } finally {
      Date.now = now;
    }
  });

  it('fault 23: gives workers a full lease again after a halt of the machine', async () => {
    let nowMs = 0;
    watch({ monotonicNow: () => nowMs, leaseMs: 100, intervalMs: 10 });
    await sleep(40);
    nowMs += 3_600_000;
    await sleep(40);
    expect(await held()).toEqual([lease.token]);
    const passing = setInterval(() => {
      nowMs += 10;
    }, 10);
    await expect.poll(held).toEqual([]);
    clearInterval(passing);
  });

  it('continues after temporary failures of the database', async () => {
    let failures = 3;
    const jobs = {
      ...repositories.jobs,
      held: () => (failures-- > 0 ? Promise.reject(new Error('busy')) : repositories.jobs.held()),
    };
    watch({ jobs });
    await expect.poll(held).toEqual([]);
  });
});

describe('lease monitors with their default timing', () => {
  const monitors: LeaseMonitor[] = [];
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
  afterEach(async () => {
    await Promise.all(monitors.splice(0).map((one) => one.stop()));
    vi.useRealTimers();
  });
  const begin = () => {
    const begun = createLeaseMonitor({ jobs: repositories.jobs, logger: createLogger('silent') });
    monitors.push(begun);
    begun.start();
    return begun;
  };
  const pass = (seconds: number) => vi.advanceTimersByTimeAsync(seconds * 1000);

  it('take a lease away after 15 s of silence, and not before', async () => {
    begin();
    await pass(14.9);
    expect(await held()).toEqual([lease.token]);
    await pass(0.2);
    expect(await held()).toEqual([]);
  });

  it('count no time twice if several of them run', async () => {
    begin();
    await pass(1);
    begin();
    await pass(1);
    begin();
    await pass(12.9);
    expect(await held()).toEqual([lease.token]);
    await pass(5);
    expect(await held()).toEqual([]);
  });

  it('continue the silence that dead nodes recorded, so that each lease ends', async () => {
    for (let life = 1; life <= 3; life++) {
      expect(await held(), `life ${life}`).toEqual([lease.token]);
      const mortal = begin();
      await pass(6.1);
      await mortal.stop();
    }
    expect(await held()).toEqual([]);
  });

  it('write nothing for a lease that is renewed in time', async () => {
    let notes = 0;
    const jobs = {
      ...repositories.jobs,
      noteSilence: async () => {
        notes += 1;
        return true;
      },
    };
    const begun = createLeaseMonitor({ jobs, logger: createLogger('silent') });
    monitors.push(begun);
    begun.start();
    for (let beat = 0; beat < 40; beat++) {
      await pass(3.1);
      await repositories.jobs.renew(lease);
    }
    expect(notes).toBe(0);
    expect(await held()).toEqual([lease.token]);
  });
});

describe('the start of the service', () => {
  it('ends all leases and workers of the last run, and counts no lost lease', async () => {
    await repositories.jobs.announceWorker(WORKER);
    for (let restart = 0; restart < 15; restart++) {
      expect(await recoverLeases(repositories.jobs)).toBe(1);
      expect(await repositories.jobs.workers()).toEqual([]);
      expect((await repositories.media.find(lease.mediaId))?.status).toBe('queued');
      expect(await repositories.jobs.claim('w2')).toMatchObject({ mediaId: lease.mediaId, attempt: 1 });
    }
    expect(await repositories.jobs.renew(lease)).toBe(false);
  });
});
