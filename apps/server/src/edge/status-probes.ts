import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemCode } from '../base/storage-error.ts';
import { workingProbe } from '../status/probes.ts';
import type { Probe } from '../status/status-board.ts';
import type { EventFollower } from './event-follower.ts';
import type { OriginConnection } from './origin-connection.ts';

/**
 * {@link workingProbe} of the folder of the disk cache: it stores and returns a few bytes. Degraded while fetched objects cannot be stored.
 * @param isFailing whether the last object could not be stored
 */
export function cacheFolderProbe(folder: string, isFailing: () => boolean): Probe {
  const file = join(folder, `.probe-${process.pid}`);
  const working = workingProbe('Cache', async () => {
    const written = randomBytes(16);
    try {
      const handle = await open(file, 'w+', 0o600);
      try {
        await handle.write(written, 0, written.length, 0);
        const { buffer } = await handle.read(Buffer.alloc(16), 0, 16, 0);
        if (!buffer.equals(written)) throw new Error('the cache folder returns other bytes than were written');
      } finally {
        await handle.close();
      }
    } finally {
      await rm(file, { force: true });
    }
  });
  return {
    name: working.name,
    async check(signal) {
      try {
        const state = await working.check(signal);
        return isFailing() ? 'degraded_performance' : state;
      } catch (error) {
        const code = systemCode(error);
        // On a full volume objects are delivered, but not cached.
        if (code === 'ENOSPC' || code === 'EDQUOT') return 'degraded_performance';
        throw error;
      }
    },
  };
}

/** The first round counts at once, so it waits this long for the event stream. */
const FIRST_ROUND_MS = 1_000;

/**
 * The origin of this node: `major_outage` while it does not answer or does not accept this node; degraded while its events are not
 * followed.
 */
export function originProbe(parts: {
  origin: { readonly isUp: boolean; readonly acceptance: Pick<OriginConnection['acceptance'], 'refusal'> };
  follower: Pick<EventFollower, 'isFollowing' | 'concluded'>;
}): Probe {
  const { origin, follower } = parts;
  return {
    name: 'Origin',
    async check(signal) {
      const waiting = new AbortController();
      const timeUp = delay(FIRST_ROUND_MS, undefined, { signal: AbortSignal.any([signal, waiting.signal]) });
      await Promise.race([follower.concluded, timeUp]);
      waiting.abort();
      await timeUp.catch(() => undefined);
      if (!origin.isUp || origin.acceptance.refusal !== null) return 'major_outage';
      return follower.isFollowing ? 'operational' : 'degraded_performance';
    },
  };
}
