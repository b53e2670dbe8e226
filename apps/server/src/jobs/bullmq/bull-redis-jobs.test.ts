import { expect, it } from 'vitest';
import { createLogger } from '../../base/logger.ts';
import type { JobRecord } from '../../db/job-queue.ts';
import { bullQueues, describeWithRedis, openRows } from './bull-queue.fixture.ts';
import { openBullEngine } from './open-bull-engine.ts';

describeWithRedis('the jobs of BullMQ in Redis', (servers) => {
  const { closeLater, database } = bullQueues(servers);
  const { redis } = servers;

  const usedMemory = async () => Number(/^used_memory:(\d+)/m.exec(await redis().command('INFO', 'memory'))?.[1]);

  async function openEngine(deploymentId: string, redisUrl = redis().url) {
    const url = await database();
    const logger = createLogger('silent');
    const engine = await openBullEngine({ url, logger, redis: { url: redisUrl, deploymentId } });
    closeLater(() => engine.close());
    return engine;
  }
  const jobs = (count: number, dueInMs = 0): JobRecord[] =>
    Array.from({ length: count }, (_, index) => ({
      ...{ jobId: index + 1, mediaId: `med_${index + 1}`, priority: 100, token: null },
      dueInMs,
    }));

  it('are all read in few pages, even while they change their state', async () => {
    const engine = await openEngine('moving');
    const waiting = jobs(1_000);
    const delayed = jobs(1_600, 60_000).slice(1_000);
    await engine.put([...waiting, ...delayed]);
    const met = new Set<number>();
    let pages = 0;
    for (let after: string | null = null; ; pages += 1) {
      const page = await engine.page(after, 100);
      for (const { jobId } of page.jobs) met.add(jobId);
      // Like in service: delayed jobs become due, and due jobs are taken.
      const due = delayed.splice(0, 30);
      for (const { jobId } of due) await engine.hasten(jobId);
      for (let n = 0; n < 40; n++) await engine.take({ worker: 'w', token: `${pages}-${n}` });
      if (page.next === null) break;
      after = page.next;
    }
    expect(met.size).toBe(1_600);
    expect(pages).toBeLessThan(60);
  });

  it('are found by the thousand in one command, each with its state', async () => {
    const engine = await openEngine('standing');
    await engine.put([...jobs(998), ...jobs(999, 60_000).slice(998)]);
    const out = await engine.take({ worker: 'w', token: 'token-1' });
    await engine.bury(
      { jobId: (await engine.take({ worker: 'w', token: 'token-2' })) ?? 0, token: 'token-2' },
      'a reason',
    );
    await redis().command('CONFIG', 'RESETSTAT');
    const found = await engine.find(Array.from({ length: 1_000 }, (_, index) => index + 1));
    const commands = await redis().command('INFO', 'commandstats');
    expect(commands).toMatch(/cmdstat_eval:calls=1,/);
    expect(found).toHaveLength(999);
    expect(found[0]).toEqual({ jobId: out, state: 'active', token: 'token-1', dueInMs: 0 });
    expect(found[1]).toMatchObject({ jobId: 2, state: 'finished', token: null });
    expect(found[2]).toEqual({ jobId: 3, state: 'waiting', token: null, dueInMs: 0 });
    expect(found[998]).toMatchObject({ jobId: 999, state: 'delayed', token: null });
    expect(found[998]?.dueInMs).toBeGreaterThan(50_000);
    expect(found[998]?.dueInMs).toBeLessThanOrEqual(60_000);
  });

  it('need only the rights of docs/jobs.md, one connection and about 1 KB per job', async () => {
    const rights = ['~bull:mds-media-*', '+@all', '-@admin', '-@dangerous', '+info'];
    await redis().command('ACL', 'SETUSER', 'mds', 'on', '>of-the-user', 'resetchannels', ...rights);
    const url = new URL(redis().url);
    Object.assign(url, { username: 'mds', password: 'of-the-user' });
    const before = await usedMemory();
    const engine = await openEngine('rights', url.href);
    await engine.put(jobs(5_000));
    expect(((await usedMemory()) - before) / 5_000).toBeLessThan(1_500);
    const out = { jobId: 1, token: 't' };
    expect(await engine.take({ worker: 'w', token: out.token })).toBe(1);
    expect(await engine.putBack(out, 60_000)).toBe(true);
    await engine.hasten(1);
    expect(await engine.take({ worker: 'w', token: 't' })).toBe(2);
    expect(await engine.putBack({ jobId: 2, token: 't' }, 0)).toBe(true);
    expect(await engine.take({ worker: 'w', token: 't' })).toBe(2);
    await engine.bury({ jobId: 2, token: 't' }, 'a reason');
    expect((await engine.page('lists', 10)).jobs).toEqual([]);
    await engine.put(jobs(1));
    await engine.remove({ jobId: 1, token: null });
    expect(await engine.find([1, 2])).toMatchObject([{ jobId: 2, state: 'finished' }]);
    const users = (await redis().command('CLIENT', 'LIST')).match(/ user=mds /g);
    expect(users).toHaveLength(1);
  });

  it('belong to one database, and are not shared by services on one Redis', async () => {
    const [one, other] = [await openEngine('one'), await openEngine('other')];
    await one.put(jobs(1));
    expect(await other.take({ worker: 'w', token: 't' })).toBeNull();
    expect((await other.page(null, 10)).jobs).toEqual([]);
    expect(await one.take({ worker: 'w', token: 't' })).toBe(1);
    const url = await database();
    const rows = await openRows(url);
    expect(rows.deployment.id).toMatch(/^dep_/);
    await rows.close();
  });
});
