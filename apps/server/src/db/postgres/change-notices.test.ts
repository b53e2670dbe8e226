import { expect, it } from 'vitest';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import type { Repositories } from '../repositories.ts';
import { describeOverPostgres, isTrusted, newMedia } from './postgres.fixture.ts';

/** The connections that listen. This matches at least before their first signs of life. */
const LISTENER =
  "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mds' AND query LIKE 'LISTEN%'";

describeOverPostgres('change notices between processes on PostgreSQL', (fixture) => {
  const { openMany, connect, rows } = fixture;
  const two = async (): Promise<[Repositories, Repositories]> => {
    const [one, other] = await openMany(2);
    if (!one || !other) throw new Error('Two are to be open.');
    return [one, other];
  };
  it('change the stamp within a second, but not for writes that no reader sees', async () => {
    const [one, other] = await two();
    for (let n = 0; n < 3; n++) {
      const before = other.versions.stamp('others');
      await one.jobs.announceWorker({ id: 'w', host: 'vm', pid: 1, region: 'fra1', concurrency: 1, sinceMs: 0 });
      expect(other.versions.stamp('others')).toBe(before);
      await one.media.accept(newMedia(n), EXISTING);
      await expect.poll(() => other.versions.stamp('others'), { timeout: 1_000, interval: 5 }).not.toBe(before);
    }
  });

  it('are not sent for asset records, which change only the counter', async () => {
    const [one, other] = await two();
    const listening = await connect();
    const heard: string[] = [];
    listening.on('notification', ({ payload = '' }) => heard.push(payload));
    await listening.query('LISTEN mds_changes');
    const version = await other.versions.read();
    const delivery = { region: 'fra1', path: '/a', bytes: 1, cacheStatus: 'HIT' as const, atMs: 1 };
    const own = one.versions.stamp('assets');
    await one.assets.record([delivery], 10);
    expect(one.versions.stamp('assets')).toBeGreaterThan(own);
    // Notices arrive in the order of commits: an earlier one would be here by now.
    const later = one.media.accept(newMedia(1), EXISTING);
    await expect.poll(() => heard.length, { timeout: 5_000, interval: 5 }).toBe(1);
    await later;
    expect(heard[0]).toMatch(/ ve$/);
    expect(await other.versions.read()).toEqual({ assets: version.assets + 2, others: version.others + 1 });
    await one.assets.record([{ ...delivery, path: '/b' }], 10);
    expect((await other.versions.read()).others).toBe(version.others + 1);
  });

  it('wake listeners for events, and not for writes without events', async () => {
    const [one, other] = await two();
    let woken = 0;
    const end = other.events.onAppended(() => {
      woken += 1;
    });
    await one.projects.put({ id: 'other', name: 'Other', hosts: [] });
    await one.events.append({ projectId: null, type: 'cache.purged', data: { media_id: null, path: null } });
    await expect.poll(() => woken, { timeout: 1_000, interval: 5 }).toBe(1);
    expect(await other.events.latest()).toBe(1);
    end();
  });

  it('change the stamp of the writer before a write is visible, and after its commit', async () => {
    const [one] = await two();
    const stranger = await connect();
    await stranger.query('BEGIN; LOCK TABLE events');
    const before = one.versions.stamp('others');
    const accepted = one.media.accept(newMedia(1), EXISTING);
    await expect
      .poll(() => rows("SELECT 1 FROM pg_stat_activity WHERE application_name = 'mds' AND wait_event_type = 'Lock'"))
      .toHaveLength(1);
    expect(one.versions.stamp('others')).toBe(before);
    await stranger.query('COMMIT');
    await accepted;
    expect(one.versions.stamp('others')).toBeGreaterThanOrEqual(before + 2);
  });

  it('leave no stale cache trusted while the listening connection is lost', async () => {
    const [one, other] = await two();
    await Promise.all([one.probe(), other.probe()]);
    expect([isTrusted(one), isTrusted(other)]).toEqual([true, true]);
    const { pathname } = new URL(fixture.url);
    const stranger = await connect();
    const elsewhere = await connect(fixture.url.replace(pathname, '/postgres'));
    await elsewhere.query(`ALTER DATABASE ${pathname.slice(1)} WITH ALLOW_CONNECTIONS false`);
    await stranger.query(`SELECT pg_terminate_backend(pid) ${LISTENER}`);
    await expect.poll(() => isTrusted(one) || isTrusted(other), { timeout: 5_000, interval: 5 }).toBe(false);
    // Open connections keep working meanwhile.
    await one.media.accept(newMedia(1), EXISTING);
    expect(isTrusted(other)).toBe(false);
    await elsewhere.query(`ALTER DATABASE ${pathname.slice(1)} WITH ALLOW_CONNECTIONS true`);
    await expect.poll(() => isTrusted(one) && isTrusted(other), { timeout: 10_000, interval: 20 }).toBe(true);
    const before = other.versions.stamp('others');
    await one.media.accept(newMedia(2), EXISTING);
    await expect.poll(() => other.versions.stamp('others'), { timeout: 1_000, interval: 5 }).not.toBe(before);
  });

  it('leave no stale cache trusted while the listening connection is silent', async () => {
    const one = await fixture.open();
    const [listener] = await rows<{ pid: number }>(`SELECT pid ${LISTENER}`);
    const pid = listener?.pid ?? 0;
    process.kill(pid, 'SIGSTOP');
    try {
      await expect.poll(() => isTrusted(one), { timeout: 5_000, interval: 20 }).toBe(false);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await expect.poll(() => isTrusted(one), { timeout: 10_000, interval: 20 }).toBe(true);
  });
});
