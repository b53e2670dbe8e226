import type { JobQueue } from '../db/job-queue.ts';
import type { MediaRepository } from '../db/media-repository.ts';

/** How often something was asked of others, and how long it took altogether, in milliseconds. */
export interface WaitTotal {
  calls: number;
  ms: number;
}

/** What a worker waits for of its queue and its database, as long as it runs. */
export interface WorkerWaits {
  /** Claims: until one is answered, there is nothing to do. */
  claims: WaitTotal;
  /** Beats, looks at leases, progress, jobs given back: media are rendered meanwhile. */
  upkeep: WaitTotal;
  /** What is written of media under a lease; the end of a job is part of it. */
  leaseWrites: WaitTotal;
}

const LEASE_WRITES = ['start', 'reserveFiles', 'publishRendition', 'publish', 'fail'] as const;

/** The same queue and media, and how long those who use them wait for them. */
export function measureWaits(parts: { jobs: JobQueue; media: MediaRepository }): {
  jobs: JobQueue;
  media: MediaRepository;
  /** Since the beginning; what is being waited for counts once it is over. */
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

/** Every one of these methods gives a promise. */
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
