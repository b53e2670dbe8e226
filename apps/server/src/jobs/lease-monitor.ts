import type { Logger } from '../base/logger.ts';
import type { JobQueue } from '../db/job-queue.ts';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import { createLeaseWatch } from '../heartbeats/lease-watch.ts';

/** A lease or a worker without a heartbeat for this long is dead: several of a worker's intervals. */
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

/** {@link LeaseMonitor} by a lease watch over the jobs, and by the heartbeats of workers. */
export function createLeaseMonitor(parts: LeaseMonitorParts): LeaseMonitor {
  const { jobs, logger, leaseMs = LEASE_MS, intervalMs = INTERVAL_MS, monotonicNow = () => performance.now() } = parts;
  // After a stop of this process or of the whole machine, workers need a moment for their next heartbeat, too.
  const maxGapMs = 2 * intervalMs;
  const leases = createLeaseWatch({ noteSilence: jobs.noteSilence, leaseMs, maxGapMs, monotonicNow });
  const workers = createHeartbeatWatch(monotonicNow, { maxGapMs });
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    for (const { token, mediaId, worker } of await leases.look(await jobs.held())) {
      if (await jobs.reclaim(token, { counted: true })) {
        logger.warn({ mediaId, worker }, 'lease ended without its worker; the job is due again');
      }
    }
    const announced = await jobs.workers();
    workers.observe(announced);
    for (const { id } of announced) {
      if ((workers.silentMs(id) ?? 0) < leaseMs) continue;
      await jobs.signOffWorker(id);
      logger.warn({ worker: id }, 'worker is gone');
    }
  }

  return {
    start() {
      if (timer) return;
      const lookNext = () => {
        looking = looking
          .then(look)
          .catch((error: unknown) => logger.error({ err: error }, 'leases could not be checked'));
      };
      timer = setInterval(lookNext, intervalMs);
      timer.unref();
      // Begins at once: this process may not live for long, and silence counts from the first look.
      lookNext();
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      await looking;
    },
  };
}

/**
 * Voids all leases and forgets all workers, at the start of the one process that owns the data folder: their holders worked for a service
 * that is gone. No job is to blame, so no attempt is counted. A worker that is still alive finds its leases lost at its next heartbeat, and
 * announces itself anew.
 * @returns how many jobs are due again
 */
export async function recoverLeases(jobs: JobQueue): Promise<number> {
  let recovered = 0;
  for (const { token } of await jobs.held()) {
    if (await jobs.reclaim(token, { counted: false })) recovered++;
  }
  for (const { id } of await jobs.workers()) await jobs.signOffWorker(id);
  return recovered;
}
