import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { workingProbe } from '../status/probes.ts';
import type { Probe } from '../status/status-board.ts';
import type { EventFollower } from './event-follower.ts';
import type { OriginConnection } from './origin-connection.ts';

/** {@link workingProbe} of the folder of the disk cache: it keeps a few bytes and gives them back. */
export function cacheFolderProbe(folder: string): Probe {
  const file = join(folder, `.probe-${process.pid}`);
  return workingProbe('Cache', async () => {
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
}

/** The service that this node belongs to: `major_outage` while it does not answer, degraded while its events are not heard. */
export function originProbe(parts: {
  origin: Pick<OriginConnection, 'isUp'>;
  follower: Pick<EventFollower, 'isFollowing'>;
}): Probe {
  return {
    name: 'Origin',
    async check() {
      if (!parts.origin.isUp) return 'major_outage';
      return parts.follower.isFollowing ? 'operational' : 'degraded_performance';
    },
  };
}
