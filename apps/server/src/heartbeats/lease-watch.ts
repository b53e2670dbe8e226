import { createHeartbeatWatch } from './heartbeat-watch.ts';

/** A lease as it stands in the database. */
export interface WatchedLease {
  token: string;
  /** Grows with every sign of life of its holder. */
  beat: number;
  /** For how long the beat is known to have stood still, in milliseconds, by all who looked; see {@link NoteSilence}. */
  silentMs: number;
}

/**
 * Notes for how long a lease has been silent, so that whoever looks later need not begin anew. The holder's next beat sets it back to 0.
 * @param lease as it was seen for all of the time that is added to its own `silentMs`
 * @param silentMs in all, in whole milliseconds
 * @returns whether the lease was as it was seen; false: it was renewed, taken away, or somebody else noted the same silence
 */
export type NoteSilence = (lease: WatchedLease, silentMs: number) => Promise<boolean>;

export interface LeaseWatchParts {
  noteSilence: NoteSilence;
  /** How long a beat may stand still: several of a holder's beats. */
  leaseMs: number;
  /** Of the time between two looks no more counts as silence: after a stop of this process or of the whole machine the holders, too, need a moment. */
  maxGapMs: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicNow?: () => number;
}

/** Tells which leases have lost their holders. */
export interface LeaseWatch {
  /**
   * Looks at all leases as they stand.
   * @returns those that have been silent for `leaseMs`
   */
  look<L extends WatchedLease>(held: readonly L[]): Promise<L[]>;
}

/** Of a lease's time, the part after which its silence is noted: more than one of a holder's beats, so that living ones cost no writes. */
const NOTED_SHARE = 1 / 3;

/**
 * {@link LeaseWatch} by this process's own monotonic clock, added to what others had seen by theirs before: they note it with the lease,
 * each from where the last one was, so that no time is counted twice, and none is lost with a process. No instant of a wall clock is
 * compared with another, so that a clock that jumps ends no lease and keeps none alive.
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
      // What was noted now begins here, and not when it is seen next.
      watch.observe(left.map(watched));
      return over;
    },
  };
}

/** A lease whose silence was noted is another one to the watch: what was seen of it until then is part of that. */
function watched({ token, beat, silentMs }: WatchedLease) {
  return { id: `${token} ${silentMs}`, beat };
}
