import { expect, it } from 'vitest';
import type { NoteSilence, WatchedLease } from '../../heartbeats/lease-watch.ts';

/** What is leased, by what the silence of its leases needs to know. */
export interface Leased {
  /** Puts something there. */
  add(): Promise<unknown>;
  /** Takes a lease of what is due. */
  claim(): Promise<{ beat(): Promise<boolean>; reclaim(): Promise<boolean> }>;
  held(): Promise<WatchedLease[]>;
  noteSilence: NoteSilence;
}

/** How long leases have been silent, as noted with them. */
export function leaseSilenceConformance({ add, claim, held, noteSilence }: Leased): void {
  const seen = async (): Promise<WatchedLease> => {
    const [lease] = await held();
    if (!lease) throw new Error('There is no lease.');
    return lease;
  };

  it('the silence of a lease is noted once by those who saw the same of it, and is over with the next beat', async () => {
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

  it('the silence of a lease that was taken away is not that of the next one', async () => {
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
