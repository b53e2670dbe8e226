import { describe, expect, it, onTestFinished } from 'vitest';
import type { AssetRepository, DeliveredAsset } from '../db/delivery-repository.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createRequestLog } from './request-log.ts';

const delivered = (path: string, more: Partial<DeliveredAsset> = {}): DeliveredAsset => ({
  ...{ region: 'fra1', path, bytes: 10, cacheStatus: 'HIT', atMs: 1_700_000_000_000 },
  ...more,
});

function setUp(options: { maxPending?: number; flushMs?: number; keep?: number } = {}) {
  const repositories = openSqliteRepositories(':memory:');
  onTestFinished(() => repositories.close());
  const warnings: string[] = [];
  const collect = (...words: unknown[]) => void warnings.push(words.map((word) => JSON.stringify(word)).join(' '));
  const state: { broken: boolean; writes: DeliveredAsset[][] } = { broken: false, writes: [] };
  const assets: Pick<AssetRepository, 'record'> = {
    async record(deliveries, keep) {
      state.writes.push(deliveries);
      if (state.broken) throw new Error('database is locked');
      await repositories.assets.record(deliveries, keep);
    },
  };
  const log = createRequestLog({ assets, logger: { warn: collect, info: collect, error: collect }, ...options });
  const list = () => repositories.assets.latest({ limit: 100, region: null });
  return { log, state, warnings, list };
}

describe('the request log', () => {
  it('lists a delivery within a second, without an explicit flush', async () => {
    const { log, list } = setUp({ flushMs: 50 });
    log.start();
    log.record(delivered('/media/a'));
    await expect.poll(list, { timeout: 1000 }).toMatchObject([{ path: '/media/a' }]);
    await log.stop();
  });

  it('keeps one record a path: last request sets status and order, first one the date', async () => {
    const { log, list, state } = setUp();
    log.record(delivered('/media/a', { cacheStatus: 'MISS', atMs: 1_700_000_000_000 }));
    log.record(delivered('/media/b', { atMs: 1_700_000_001_000 }));
    log.record(delivered('/media/a', { cacheStatus: 'HIT', bytes: 20, atMs: 1_700_000_002_000 }));
    await log.flush();
    expect(state.writes[0]).toHaveLength(2);
    expect(await list()).toMatchObject([
      { path: '/media/a', cacheStatus: 'HIT', bytes: 20, createdAtMs: 1_700_000_000_000 },
      { path: '/media/b' },
    ]);
  });

  it('writes the remaining records when the service stops', async () => {
    const { log, list } = setUp();
    log.start();
    log.record(delivered('/media/a'));
    await log.stop();
    expect(await list()).toHaveLength(1);
  });

  it('loses no record if the database fails for a while, and logs that once', async () => {
    const { log, list, state, warnings } = setUp();
    state.broken = true;
    log.record(delivered('/media/a', { cacheStatus: 'MISS', atMs: 1_700_000_000_000 }));
    log.record(delivered('/media/b'));
    await log.flush();
    log.record(delivered('/media/a', { cacheStatus: 'HIT', atMs: 1_700_000_009_000 }));
    log.record(delivered('/media/c'));
    await log.flush();
    expect(warnings).toHaveLength(1);
    expect(log.stats.pending).toBe(3);
    state.broken = false;
    await log.flush();
    expect(await list()).toMatchObject([
      { path: '/media/c' },
      { path: '/media/a', cacheStatus: 'HIT', createdAtMs: 1_700_000_000_000 },
      { path: '/media/b' },
    ]);
    expect(warnings).toHaveLength(2);
  });

  it('is bounded: the oldest paths are dropped, counted and logged', async () => {
    const { log, list, warnings } = setUp({ maxPending: 3 });
    for (const name of ['a', 'b', 'c']) log.record(delivered(`/media/${name}`));
    log.record(delivered('/media/a'));
    log.record(delivered('/media/d'));
    expect(log.stats).toEqual({ pending: 3, dropped: 1 });
    await log.flush();
    expect((await list()).map(({ path }) => path)).toEqual(['/media/d', '/media/a', '/media/c']);
    expect(warnings).toEqual([expect.stringContaining('"dropped":1')]);
  });

  it('stays bounded while the database fails and requests continue', async () => {
    const { log, state } = setUp({ maxPending: 5 });
    state.broken = true;
    for (let round = 0; round < 5; round += 1) {
      for (let n = 0; n < 2; n += 1) log.record(delivered(`/media/${round}-${n}`));
      const failing = log.flush();
      for (let n = 2; n < 4; n += 1) log.record(delivered(`/media/${round}-${n}`));
      await failing;
    }
    expect(log.stats).toEqual({ pending: 5, dropped: 15 });
  });

  it('writes many paths in several short transactions, so that no request waits long', async () => {
    const { log, state } = setUp();
    for (let n = 0; n < 450; n += 1) log.record(delivered(`/media/${n}`));
    await Promise.all([log.flush(), log.flush()]);
    expect(state.writes.map((batch) => batch.length)).toEqual([200, 200, 50]);
  });

  it('logs at the end how many records it could not write', async () => {
    const { log, state, warnings } = setUp();
    state.broken = true;
    log.record(delivered('/media/a'));
    await log.stop();
    expect(warnings.at(-1)).toContain('"lost":1');
  });
});
