import { expect, it, onTestFinished } from 'vitest';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { describeOverPostgres } from './postgres.fixture.ts';
import { openWatchedConnection } from './watched-connection.ts';

/** Silent after a second instead of five. */
const timing = { beatMs: 200, lateMs: 100, silentBeats: 5 };

describeOverPostgres('a watched connection', (fixture) => {
  const open = async (url = fixture.url) => {
    const told: boolean[] = [];
    const connection = await openWatchedConnection({
      ...{ connection: { connectionString: url }, timing },
      onLate: (isLate) => void told.push(isLate),
    });
    onTestFinished(() => connection.close());
    return { ...connection, told };
  };
  const openSilent = async () => {
    const proxy = await silentProxy(fixture.url);
    const connection = await open(proxy.url);
    onTestFinished(() => proxy.stop());
    return { ...connection, proxy };
  };

  it('that leads nowhere is given up in seconds, and keeps nobody waiting who has asked, however many they are', async () => {
    const { query, lost, told, proxy } = await openSilent();
    await query({ text: 'SELECT 1' });
    proxy.goSilent();
    const asked = Array.from({ length: 300 }, (_, n) => query({ text: 'SELECT $1::int', values: [n] }));
    const began = performance.now();
    const outcomes = await Promise.allSettled(asked);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['rejected']));
    expect([lost.aborted, told]).toEqual([true, [true]]);
    await expect(query({ text: 'SELECT 1' })).rejects.toThrow('Connection terminated');
  });

  it('that leads nowhere keeps no stop waiting', async () => {
    const { close, proxy } = await openSilent();
    proxy.goSilent();
    const began = performance.now();
    await close();
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it('outlives a standstill of its own process, which is no silence of the database', async () => {
    const { query, lost, told } = await open();
    const busy = query({ text: 'SELECT pg_sleep(0.6)' });
    // A sign of life is asked for, and comes in the time in which nobody looks.
    await expect.poll(() => told, { interval: 5 }).toEqual([true]);
    // From here on timers come first when it goes on, and then what has arrived.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
    await busy;
    await query({ text: 'SELECT 1' });
    expect(lost.aborted).toBe(false);
  });

  it('asks what many want to know at a time once, and never answers with what was asked before', async () => {
    const { query, ask } = await open();
    await query({ text: 'CREATE SEQUENCE asked' });
    const question = { text: "SELECT nextval('asked')::int AS times, pg_sleep(0.2)" };
    const timesOf = async () => (await ask<{ times: number }>(question)).rows[0]?.times;
    const busy = query({ text: 'SELECT pg_sleep(0.2)' });
    const first = Array.from({ length: 200 }, timesOf);
    await busy;
    await new Promise((resolve) => setImmediate(resolve));
    // The first is under way, and what it says may be old by now.
    const later = Array.from({ length: 200 }, timesOf);
    expect(new Set(await Promise.all(first))).toEqual(new Set([1]));
    expect(new Set(await Promise.all(later))).toEqual(new Set([2]));
  });
});
