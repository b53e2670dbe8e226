import { createHeartbeatWatch } from './heartbeat-watch.ts';

/** A lease as stored in the database. */
export interface WatchedLease {
  token: string;
  /** Grows with every heartbeat of its holder. */
  beat: number;
  /** How long all processes together have observed no heartbeat, in milliseconds; see {@link NoteSilence}. */
  silentMs: number;
}

/**
 * Records how long a lease has been silent: other processes continue from there. The holder's next heartbeat resets it to 0.
 * @param lease unchanged during all of the time that is added to its `silentMs`
 * @param silentMs the total, in whole milliseconds
 * @returns false if the lease has changed: it was renewed, taken away, or another process recorded the same silence
 */
export type NoteSilence = (lease: WatchedLease, silentMs: number) => Promise<boolean>;

export interface LeaseWatchParts {
  noteSilence: NoteSilence;
  /** How long heartbeats may be missing: several intervals of a holder. */
  leaseMs: number;
  /**
   * At most this much of the time between two observations counts as silence: after a pause of this process or machine,
   * holders need a moment.
   */
  maxGapMs: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicNow?: () => number;
}

/** Finds leases that have lost their holders. */
export interface LeaseWatch {
  /**
   * Looks at all leases as they are now.
   * @returns those that have been silent for `leaseMs`
   */
  look<L extends WatchedLease>(held: readonly L[]): Promise<L[]>;
}

/** The share of a lease's time after which its silence is recorded: more than one heartbeat interval, so that living holders cost no writes. */
const NOTED_SHARE = 1 / 3;

/**
 * {@link LeaseWatch} by this process's own monotonic clock, added to the silence that other processes have recorded with the lease. Each
 * continues from the last record: no time is counted twice, and none is lost with a process. Wall clocks are never compared, so a
 * clock that jumps ends no lease and keeps none alive.
 */
export function createLeaseWatch(parts: LeaseWatchParts): LeaseWatch {
  const { noteSilence, leaseMs, maxGapMs, monotonicNow = () => performance.now() } = parts;
  const watch = createHeartbeatWatch(monotonicNow, { maxGapMs });
  return {
    async look(held) {
      watch.observe(held.map(watched));
      const over: (typeof held)[number][] = [];
      const left: WatchedLease[] = [];
      for (const lease of held) {
        const seenMs = watch.silentMs(watched(lease).id) ?? 0;
        const silentMs = Math.floor(lease.silentMs + seenMs);
        if (silentMs >= leaseMs) over.push(lease);
        else if (seenMs >= leaseMs * NOTED_SHARE && (await noteSilence(lease, silentMs)))
          left.push({ ...lease, silentMs });
        else left.push(lease);
      }
      // The recorded silence counts from here on, not from the next look.
      watch.observe(left.map(watched));
      return over;
    },
  };
}

/** A lease whose silence was recorded counts as another one: the record includes the earlier observations. */
function watched({ token, beat, silentMs }: WatchedLease) {
  return { id: `${token} ${silentMs}`, beat };
}
