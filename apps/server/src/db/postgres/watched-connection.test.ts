import { expect, it, onTestFinished } from 'vitest';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { describeOverPostgres } from './postgres.fixture.ts';
import { openWatchedConnection } from './watched-connection.ts';

/** The connection counts as silent after one second, not after five. */
const timing = { beatMs: 200, lateMs: 100, silentBeats: 5 };

describeOverPostgres('a watched connection', (fixture) => {
  const open = async (url = fixture.url) => {
    const reports: boolean[] = [];
    const connection = await openWatchedConnection({
      ...{ connection: { connectionString: url }, timing },
      onLate: (isLate) => void reports.push(isLate),
    });
    onTestFinished(() => connection.close());
    return { ...connection, reports };
  };
  const openSilent = async () => {
    const proxy = await silentProxy(fixture.url);
    const connection = await open(proxy.url);
    onTestFinished(() => proxy.stop());
    return { ...connection, proxy };
  };

  it('is given up within seconds if it is dead, and fails every query on it', async () => {
    const { query, lost, reports, proxy } = await openSilent();
    await query({ text: 'SELECT 1' });
    proxy.goSilent();
    const asked = Array.from({ length: 300 }, (_, n) => query({ text: 'SELECT $1::int', values: [n] }));
    const began = performance.now();
    const outcomes = await Promise.allSettled(asked);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['rejected']));
    expect([lost.aborted, reports]).toEqual([true, [true]]);
    await expect(query({ text: 'SELECT 1' })).rejects.toThrow('Connection terminated');
  });

  it('does not delay a stop if it is dead', async () => {
    const { close, proxy } = await openSilent();
    proxy.goSilent();
    const began = performance.now();
    await close();
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it('survives a pause of its own process', async () => {
    const { query, lost, reports } = await open();
    const busy = query({ text: 'SELECT pg_sleep(0.6)' });
    // The connection asks for a sign of life, and it arrives during the pause.
    await expect.poll(() => reports, { interval: 5 }).toEqual([true]);
    // After the pause, timers run before the data that has arrived.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
    await busy;
    await query({ text: 'SELECT 1' });
    expect(lost.aborted).toBe(false);
  });

  it('shares one query between many callers, and never returns an older answer', async () => {
    const { query, ask } = await open();
    await query({ text: 'CREATE SEQUENCE asked' });
    const question = { text: "SELECT nextval('asked')::int AS times, pg_sleep(0.2)" };
    const timesOf = async () => (await ask<{ times: number }>(question)).rows[0]?.times;
    const busy = query({ text: 'SELECT pg_sleep(0.2)' });
    const first = Array.from({ length: 200 }, timesOf);
    await busy;
    await new Promise((resolve) => setImmediate(resolve));
    // The first query is running, and its answer may be outdated by now.
    const later = Array.from({ length: 200 }, timesOf);
    expect(new Set(await Promise.all(first))).toEqual(new Set([1]));
    expect(new Set(await Promise.all(later))).toEqual(new Set([2]));
  });
});
