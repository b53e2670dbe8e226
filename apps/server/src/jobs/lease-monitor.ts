import type { Logger } from '../logger.ts';
import { createBeatWatch } from '../regions/beat-watch.ts';
import type { HeldLease, JobQueue } from './job-queue.ts';

/** How long a lease, or a worker, may show no sign of life: several of a worker's beats. */
export const LEASE_MS = 15_000;
const INTERVAL_MS = 3_000;

export interface LeaseMonitorParts {
  jobs: JobQueue;
  logger: Logger;
  /** Default {@link LEASE_MS}. */
  leaseMs?: number;
  /** Between two looks. */
  intervalMs?: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicNow?: () => number;
}

/** Takes leases away from workers that are gone. */
export interface LeaseMonitor {
  start(): void;
  stop(): Promise<void>;
}

/** Of a lease's time, the part after which its silence is noted: more than one of a worker's beats, so that living ones cost no writes. */
const NOTED_SHARE = 1 / 3;

/**
 * {@link LeaseMonitor}: a lease whose beat stands still for `leaseMs` is taken away. That is told by this process's own monotonic clock,
 * added to what others had seen by theirs before: they note it with the lease, each from where the last one was, so that no time is
 * counted twice, and none is lost with a process. No instant of a wall clock is compared with another, so that a clock that jumps ends no
 * lease and keeps none alive.
 */
export function createLeaseMonitor(parts: LeaseMonitorParts): LeaseMonitor {
  const { jobs, logger, leaseMs = LEASE_MS, intervalMs = INTERVAL_MS, monotonicNow = () => performance.now() } = parts;
  // After a stop of this process or of the whole machine the workers, too, need a moment to beat again.
  const maxGapMs = 2 * intervalMs;
  const leases = createBeatWatch(monotonicNow, { maxGapMs });
  const workers = createBeatWatch(monotonicNow, { maxGapMs });
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const held = await jobs.held();
    leases.observe(held.map(watched));
    const left: HeldLease[] = [];
    for (const lease of held) {
      const seenMs = leases.silentMs(watched(lease).id) ?? 0;
      const silentMs = Math.floor(lease.silentMs + seenMs);
      if (silentMs >= leaseMs) {
        if (await jobs.reclaim(lease.token, { counted: true })) {
          const { mediaId, worker } = lease;
          logger.warn({ mediaId, worker }, 'a lease ended without its worker; the job is due again');
        }
      } else if (seenMs >= leaseMs * NOTED_SHARE && (await jobs.noteSilence(lease, silentMs))) {
        left.push({ ...lease, silentMs });
      } else left.push(lease);
    }
    // What was noted now begins here, and not when it is seen next.
    leases.observe(left.map(watched));
    const announced = await jobs.workers();
    workers.observe(announced);
    for (const { id } of announced) {
      if ((workers.silentMs(id) ?? 0) < leaseMs) continue;
      await jobs.workerGone(id);
      logger.warn({ worker: id }, 'a worker is gone');
    }
  }

  return {
    start() {
      if (timer) return;
      timer = setInterval(() => {
        looking = looking
          .then(look)
          .catch((error: unknown) => logger.error({ err: error }, 'the leases could not be looked at'));
      }, intervalMs);
      timer.unref();
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      await looking;
    },
  };
}

/** A lease whose silence was noted is another one to the watch: what was seen of it until then is part of that. */
function watched({ token, beat, silentMs }: HeldLease) {
  return { id: `${token} ${silentMs}`, beat };
}

/**
 * Voids all leases and forgets all workers, for the start of the one process that owns the data folder: whoever held a
 * lease worked for a service that is gone. No job is to blame, so none is counted. A worker that lives on after all finds
 * its leases lost at its next beat, and announces itself anew.
 * @returns how many jobs are due again
 */
export async function recoverLeases(jobs: JobQueue): Promise<number> {
  let recovered = 0;
  for (const { token } of await jobs.held()) {
    if (await jobs.reclaim(token, { counted: false })) recovered++;
  }
  for (const { id } of await jobs.workers()) await jobs.workerGone(id);
  return recovered;
}
