import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { measureWaits } from './worker-waits.ts';

test("a worker's waits for its queue and its writes are counted, even if they fail", async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mds-waiting-'));
  const repositories = openSqliteRepositories(join(folder, 'mds.sqlite'));
  const lease = { jobId: 1, mediaId: 'none', token: 'none', attempt: 1 };
  try {
    const { jobs, media, times } = measureWaits(repositories);
    expect(await jobs.claim('worker')).toBeNull();
    expect([times.claims.calls, times.upkeep.calls]).toEqual([1, 0]);
    expect(times.claims.ms).toBeGreaterThan(0);
    expect(await jobs.renew(lease)).toBe(false);
    expect([times.claims.calls, times.upkeep.calls]).toEqual([1, 1]);
    expect(times.upkeep.ms).toBeGreaterThan(0);
    expect(times.leaseWrites).toEqual({ calls: 0, ms: 0 });

    expect(await media.find('none')).toBeNull();
    expect(times.leaseWrites.calls).toBe(0);
    expect(await media.start(lease, [])).toBe(false);
    expect(times.leaseWrites.calls).toBe(1);
    expect(times.leaseWrites.ms).toBeGreaterThan(0);

    await repositories.close();
    await expect(jobs.claim('worker')).rejects.toThrow();
    expect(times.claims.calls).toBe(2);
  } finally {
    await repositories.close();
    await rm(folder, { recursive: true, force: true });
  }
});
