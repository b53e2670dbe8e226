import type { JobQueue } from '../db/job-queue.ts';
import type { MediaRepository } from '../db/media-repository.ts';

/** The number of calls, and their total time in milliseconds. */
export interface WaitTotal {
  calls: number;
  ms: number;
}

/** The time that a worker has waited for its queue and its database. */
export interface WorkerWaits {
  /** Claims: the worker is idle until one is answered. */
  claims: WaitTotal;
  /** Heartbeats, lease checks, progress, jobs given back: media are rendered meanwhile. */
  upkeep: WaitTotal;
  /** Writes of media under a lease, including the end of a job. */
  leaseWrites: WaitTotal;
}

const LEASE_WRITES = ['start', 'reserveFiles', 'publishRendition', 'publish', 'fail'] as const;

/** Wraps a queue and media repository to measure how long their users wait. */
export function measureWaits(parts: { jobs: JobQueue; media: MediaRepository }): {
  jobs: JobQueue;
  media: MediaRepository;
  /** Since the start. A call counts when it is over. */
  times: Readonly<WorkerWaits>;
} {
  const none = () => ({ calls: 0, ms: 0 });
  const times = { claims: none(), upkeep: none(), leaseWrites: none() };
  const { jobs, media } = parts;
  const upkeep = (Object.keys(jobs) as (keyof JobQueue)[]).filter((name) => name !== 'claim');
  return {
    jobs: timed(timed(jobs, ['claim'], times.claims), upkeep, times.upkeep),
    media: timed(media, LEASE_WRITES, times.leaseWrites),
    times,
  };
}

/** Each of these methods returns a promise. */
function timed<Port extends object>(port: Port, names: readonly (keyof Port)[], sum: WaitTotal): Port {
  const copy = { ...port };
  for (const name of names) {
    const method: unknown = port[name];
    if (typeof method !== 'function') continue;
    const ask = async (...args: unknown[]) => {
      const began = performance.now();
      try {
        return await method.apply(port, args);
      } finally {
        sum.calls += 1;
        sum.ms += performance.now() - began;
      }
    };
    copy[name] = ask as Port[keyof Port];
  }
  return copy;
}
