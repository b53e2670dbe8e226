import { expect, it } from 'vitest';
import { createLogger } from '../../logger.ts';
import type { JobRecord } from '../job-queue.ts';
import { bullQueues, describeWithRedis, openRows } from './bull-queue.fixture.ts';
import { openBullEngine } from './open-bull-engine.ts';

describeWithRedis('what BullMQ has in Redis', (servers) => {
  const { closeLater, database } = bullQueues(servers);
  const { redis } = servers;

  async function openEngine(deploymentId: string) {
    const url = await database();
    const logger = createLogger('silent');
    const engine = await openBullEngine({ url, logger, redis: { url: redis().url, deploymentId } });
    closeLater(() => engine.close());
    return engine;
  }
  const jobs = (count: number, dueInMs = 0): JobRecord[] =>
    Array.from({ length: count }, (_, index) => ({
      ...{ jobId: index + 1, mediaId: `med_${index + 1}`, priority: 100, token: null },
      dueInMs,
    }));

  it('is read in pages while jobs move: every job is met, and many in a few steps', async () => {
    const engine = await openEngine('moving');
    const waiting = jobs(1_000);
    const delayed = jobs(1_600, 60_000).slice(1_000);
    await engine.put([...waiting, ...delayed]);
    const met = new Set<number>();
    let pages = 0;
    for (let after: string | null = null; ; pages += 1) {
      const page = await engine.page(after, 100);
      for (const { jobId } of page.jobs) met.add(jobId);
      // As they do by themselves: what is delayed comes to be due, and what is due is taken.
      const due = delayed.splice(0, 30);
      for (const { jobId } of due) await engine.hasten(jobId);
      for (let n = 0; n < 40; n++) await engine.take({ worker: 'w', token: `${pages}-${n}` });
      if (page.next === null) break;
      after = page.next;
    }
    expect(met.size).toBe(1_600);
    expect(pages).toBeLessThan(60);
  });

  it('is found by the thousand in one command, each where it stands', async () => {
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

  it('belongs to one database: two services on one Redis do not get each other’s jobs', async () => {
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
