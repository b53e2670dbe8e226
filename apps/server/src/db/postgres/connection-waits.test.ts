import { expect, it } from 'vitest';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { describeOverPostgres, isTrusted, newMedia } from './postgres.fixture.ts';

/** More than a process has connections. */
const CALLS = 50;

describeOverPostgres('while more is asked of PostgreSQL than a process has connections for', (fixture) => {
  it('fault 20: how long a call waits for one is told, and whether what is in memory still holds is told at once', async () => {
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
    // All connections wait for the lock, and everything else for them.
    expect([await one.versions.read(), await one.media.version(), answered]).toEqual([
      ...[version, expect.any(Number)],
      0,
    ]);

    await stranger.query('COMMIT');
    await Promise.all([...held, ...pages]);
    expect(one.waitMs()).toBe(0);
  });

  it('fault 20: the wait that is told is what those before will take, before anybody has waited for as long', async () => {
    const one = await fixture.open();
    const pages = () => Array.from({ length: 20 * CALLS }, () => one.projects.byHost('a'));
    // From these it knows how long one takes.
    await Promise.all(pages());
    const began = performance.now();
    const asked = pages();
    const toldMs = one.waitMs();
    const waitedMs = performance.now() - began;
    await Promise.all(asked);
    const tookMs = performance.now() - began;
    expect(toldMs).toBeGreaterThan(waitedMs);
    expect(toldMs).toBeGreaterThan(tookMs / 10);
  });
});
