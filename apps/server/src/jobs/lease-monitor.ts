import type { Logger } from '../logger.ts';
import type { JobQueue } from './job-queue.ts';

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

/** Beats as last seen, by lease token or worker id, and for how long they have stood still. */
type Watch = Map<string, { beat: number; stillMs: number }>;

/**
 * {@link LeaseMonitor}: a lease whose beat stands still for `leaseMs` of this process's own monotonic clock is taken away.
 * No instant of a wall clock is compared with another, so that a clock that jumps ends no lease and keeps none alive.
 */
export function createLeaseMonitor(parts: LeaseMonitorParts): LeaseMonitor {
  const { jobs, logger, leaseMs = LEASE_MS, intervalMs = INTERVAL_MS, monotonicNow = () => performance.now() } = parts;
  const leases: Watch = new Map();
  const workers: Watch = new Map();
  let lastLook = monotonicNow();
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const now = monotonicNow();
    // After a stop of this process or of the whole machine the workers, too, need a moment to beat again.
    const elapsedMs = Math.min(now - lastLook, 2 * intervalMs);
    lastLook = now;

    const held = await jobs.held();
    for (const token of silent(leases, held, ({ token }) => token, elapsedMs, leaseMs)) {
      const lease = held.find((candidate) => candidate.token === token);
      if (await jobs.reclaim(token, { counted: true })) {
        logger.warn(
          { mediaId: lease?.mediaId, worker: lease?.worker },
          'a lease ended without its worker; the job is due again',
        );
      }
    }
    for (const id of silent(workers, await jobs.workers(), ({ id }) => id, elapsedMs, leaseMs)) {
      await jobs.workerGone(id);
      logger.warn({ worker: id }, 'a worker is gone');
    }
  }

  return {
    start() {
      if (timer) return;
      lastLook = monotonicNow();
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

/** Updates a watch by what is there now, and names what has stood still for too long. */
function silent<T extends { beat: number }>(
  watch: Watch,
  present: T[],
  keyOf: (item: T) => string,
  elapsedMs: number,
  limitMs: number,
): string[] {
  const keys = new Set(present.map(keyOf));
  for (const key of watch.keys()) if (!keys.has(key)) watch.delete(key);
  for (const item of present) {
    const seen = watch.get(keyOf(item));
    const stillMs = seen?.beat === item.beat ? seen.stillMs + elapsedMs : 0;
    watch.set(keyOf(item), { beat: item.beat, stillMs });
  }
  return [...watch].filter(([, { stillMs }]) => stillMs >= limitMs).map(([key]) => key);
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
