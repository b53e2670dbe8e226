import { expect, it } from 'vitest';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { describeOverPostgres, newMedia } from './postgres.fixture.ts';

/** More than the connections of one process. */
const WRITERS = 40;

describeOverPostgres('while another client locks PostgreSQL tables', (fixture) => {
  it('fault 20: readers do not queue behind writers, and no write is lost', async () => {
    const one = await fixture.open();
    await one.media.accept(newMedia(0), EXISTING);
    const frankfurt = { code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', maintenance: false };
    await one.regions.put(frankfurt);
    const stranger = await fixture.connect();
    await stranger.query('BEGIN; LOCK TABLE media, jobs, region_nodes, uploads, versions IN EXCLUSIVE MODE');
    let written = 0;
    const writes = Array.from({ length: WRITERS }, async (_, n) => {
      await one.media.accept(newMedia(n + 1), EXISTING);
      written += 1;
    });
    const beats = Array.from({ length: WRITERS }, (_, n) =>
      one.regions.heartbeat({ id: `node-${n}`, region: 'fra1', atMs: 1 }),
    );
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'mds' AND wait_event_type = 'Lock'";
    await expect.poll(async () => (await fixture.rows(waiting)).length, { timeout: 20_000 }).toBeGreaterThan(3);

    for (let n = 0; n < 20; n += 1) {
      expect(await one.media.publicPage({ projectId: 'default', limit: 10, before: null })).toHaveLength(1);
      expect(await one.media.find(newMedia(0).id)).not.toBeNull();
      expect(await one.regions.nodes()).toEqual([]);
    }
    expect(written).toBe(0);

    await stranger.query('COMMIT');
    await Promise.all([...writes, ...beats]);
    expect([written, (await one.regions.nodes()).length]).toEqual([WRITERS, WRITERS]);
    expect(one.waitMs()).toBe(0);
  });
});
