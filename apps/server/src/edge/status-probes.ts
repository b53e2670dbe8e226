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
 * {@link workingProbe} of the folder of the disk cache: it keeps a few bytes and gives them back. Degraded while what is fetched finds no
 * room in it.
 * @param takesNoMore whether it did not the last time
 */
export function cacheFolderProbe(folder: string, takesNoMore: () => boolean): Probe {
  const file = join(folder, `.probe-${process.pid}`);
  const working = workingProbe('Cache', async () => {
    const written = randomBytes(16);
    try {
      const handle = await open(file, 'w+', 0o600);
      try {
        await handle.write(written, 0, written.length, 0);
        const { buffer } = await handle.read(Buffer.alloc(16), 0, 16, 0);
        if (!buffer.equals(written)) throw new Error('the cache folder gives back other bytes than were written');
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
        return takesNoMore() ? 'degraded_performance' : state;
      } catch (error) {
        const code = systemCode(error);
        // A full volume costs keeping, not delivering.
        if (code === 'ENOSPC' || code === 'EDQUOT') return 'degraded_performance';
        throw error;
      }
    },
  };
}

/** How long the first look waits to hear whether the events are followed: it counts at once, and the next ones are seconds away. */
const FIRST_LOOK_MS = 1_000;

/**
 * The service that this node belongs to: `major_outage` while it does not answer, or not as the origin of this node; degraded while its
 * events are not heard.
 */
export function originProbe(parts: {
  origin: { readonly isUp: boolean; readonly acceptance: Pick<OriginConnection['acceptance'], 'trouble'> };
  follower: Pick<EventFollower, 'isFollowing' | 'concluded'>;
}): Probe {
  const { origin, follower } = parts;
  return {
    name: 'Origin',
    async check(signal) {
      const waiting = new AbortController();
      const patience = delay(FIRST_LOOK_MS, undefined, { signal: AbortSignal.any([signal, waiting.signal]) });
      await Promise.race([follower.concluded, patience]);
      waiting.abort();
      await patience.catch(() => undefined);
      if (!origin.isUp || origin.acceptance.trouble !== null) return 'major_outage';
      return follower.isFollowing ? 'operational' : 'degraded_performance';
    },
  };
}
