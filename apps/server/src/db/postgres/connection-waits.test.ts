import { expect, it } from 'vitest';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { describeOverPostgres, isTrusted, newMedia } from './postgres.fixture.ts';

/** More than the connections of one process. */
const CALLS = 50;

describeOverPostgres('a pool with more PostgreSQL calls than connections', (fixture) => {
  it('fault 20: reports the wait of its calls, and reads versions without a wait', async () => {
    const one = await fixture.open();
    await one.media.accept(newMedia(0), EXISTING);
    expect([one.waitMs(), isTrusted(one)]).toEqual([0, true]);
    const version = await one.versions.read();

    const stranger = await fixture.connect();
    await stranger.query('BEGIN; LOCK TABLE media');
    const held = Array.from({ length: CALLS }, () => one.media.find(newMedia(0).id));
    const pages = Array.from({ length: CALLS }, () => one.projects.byHost('a'));
    let answered = 0;
    for (const page of pages) void page.then(() => (answered += 1));
    await expect.poll(() => one.waitMs(), { timeout: 20_000 }).toBeGreaterThan(200);
    // All connections wait for the lock, and all other calls wait for a connection.
    expect([await one.versions.read(), await one.media.version(), answered]).toEqual([
      ...[version, expect.any(Number)],
      0,
    ]);

    await stranger.query('COMMIT');
    await Promise.all([...held, ...pages]);
    expect(one.waitMs()).toBe(0);
  });

  it('fault 20: estimates the wait from the calls in the queue before any call waited', async () => {
    const one = await fixture.open();
    const pages = () => Array.from({ length: 20 * CALLS }, () => one.projects.byHost('a'));
    // The estimate is based on the duration of these calls.
    await Promise.all(pages());
    const began = performance.now();
    const asked = pages();
    const estimatedMs = one.waitMs();
    const waitedMs = performance.now() - began;
    await Promise.all(asked);
    const tookMs = performance.now() - began;
    expect(estimatedMs).toBeGreaterThan(waitedMs);
    expect(estimatedMs).toBeGreaterThan(tookMs / 10);
  });
});
