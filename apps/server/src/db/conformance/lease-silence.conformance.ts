import { expect, it } from 'vitest';
import type { NoteSilence, WatchedLease } from '../../heartbeats/lease-watch.ts';

/** A queue with leases, reduced to the calls that these tests need. */
export interface Leased {
  /** Adds an item. */
  add(): Promise<unknown>;
  /** Takes a lease of an item that is due. */
  claim(): Promise<{ beat(): Promise<boolean>; reclaim(): Promise<boolean> }>;
  held(): Promise<WatchedLease[]>;
  noteSilence: NoteSilence;
}

/** The recorded silence of leases. */
export function leaseSilenceConformance({ add, claim, held, noteSilence }: Leased): void {
  const seen = async (): Promise<WatchedLease> => {
    const [lease] = await held();
    if (!lease) throw new Error('There is no lease.');
    return lease;
  };

  it('record the silence of a lease once, and end it with the next heartbeat', async () => {
    await add();
    const holder = await claim();
    const first = await seen();
    expect(first.silentMs).toBe(0);
    expect(await noteSilence(first, 6_000)).toBe(true);
    expect(await noteSilence(first, 6_000)).toBe(false);
    const second = await seen();
    expect(second).toEqual({ ...first, silentMs: 6_000 });
    expect(await holder.beat()).toBe(true);
    expect(await noteSilence(second, 12_000)).toBe(false);
    expect((await seen()).silentMs).toBe(0);
  });

  it('do not count the silence of a lost lease for the next one', async () => {
    await add();
    const holder = await claim();
    const first = await seen();
    expect(await noteSilence(first, 9_000)).toBe(true);
    const lost = await seen();
    expect(await holder.reclaim()).toBe(true);
    expect(await noteSilence(lost, 12_000)).toBe(false);
    await claim();
    expect((await seen()).silentMs).toBe(0);
  });
}
