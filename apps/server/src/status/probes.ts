import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceStatus, worstStatus } from '@mds/contract';
import type { Engine } from '@mds/transcode';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import type { JobQueue } from '../db/job-queue.ts';
import type { FormatCatalogue } from '../processing/format-catalogue.ts';
import type { Probe } from './status-board.ts';

/** A database, a store or a cache that takes longer than this to answer is slow. */
export const SLOW_MS = 1_000;
/** An event loop that comes this late makes every answer late. */
export const LATE_MS = 500;
/** A job that has waited this long, without and with an outage to explain it. */
export const QUEUE_DEGRADED_MS = 60_000;
export const QUEUE_OUTAGE_MS = 10 * 60_000;
/** A worker that has been silent for this long is not counted. */
export const WORKER_SILENT_MS = 20_000;
/** The engine tests itself this often: it costs a little work of a decoder process. */
const SELF_TEST_MS = 60_000;

const now = () => performance.now();

/** Whether this process gets to its work in time: the event loop's lateness over a few turns. */
export function apiProbe(): Probe {
  return {
    name: 'API',
    async check(signal) {
      let latestMs = 0;
      for (let turn = 0; turn < 5; turn += 1) {
        const due = now() + 10;
        await delay(10, undefined, { signal });
        latestMs = Math.max(latestMs, now() - due);
      }
      return latestMs < LATE_MS ? 'operational' : 'degraded_performance';
    },
  };
}

/** A part that proves itself by doing something: `operational` when it succeeds in time, `degraded_performance` late. */
export function workingProbe(name: string, work: () => Promise<unknown>): Probe {
  let under: Promise<unknown> | null = null;
  return {
    name,
    async check() {
      const began = now();
      // A part that hangs is asked once, not once more every few seconds.
      under ??= work().finally(() => {
        under = null;
      });
      await under;
      return now() - began < SLOW_MS ? 'operational' : 'degraded_performance';
    },
  };
}

/** {@link workingProbe} of the database: it answers and can be written. */
export function databaseProbe(repositories: { probe(): Promise<void> }): Probe {
  return workingProbe('Database', () => repositories.probe());
}

/** {@link workingProbe} of the object store: it keeps a tiny object and gives it back. */
export function objectStorageProbe(store: { probe(): Promise<void> }): Probe {
  return workingProbe('Object storage', () => store.probe());
}

/** {@link workingProbe} of this node's delivery. */
export function deliveryProbe(delivery: { probe(): Promise<void> }): Probe {
  return workingProbe('Delivery', () => delivery.probe());
}

/**
 * Processing as a whole: `major_outage` when the codecs fail their self-test or no worker lives, `partial_outage` or
 * `degraded_performance` when jobs wait too long, `degraded_performance` when a format cannot be decoded.
 */
export function processingProbe(parts: {
  engine: Pick<Engine, 'selfTest'>;
  jobs: Pick<JobQueue, 'counts' | 'workers'>;
  formats: Pick<FormatCatalogue, 'state'>;
  monotonicNow?: () => number;
}): Probe {
  const clock = parts.monotonicNow ?? now;
  const watch = createHeartbeatWatch(clock);
  const began = clock();
  let tested: { at: number; ok: boolean } | null = null;
  let testing = false;

  /** Starting a decoder process takes a while, so the test runs beside the probe, which tells its latest outcome. */
  const codecsState = (): ServiceStatus => {
    // A failure is looked at again every time, so that its end shows soon.
    const stale = tested === null || !tested.ok || clock() - tested.at > SELF_TEST_MS;
    if (stale && !testing) {
      testing = true;
      const note = (ok: boolean) => {
        tested = { at: clock(), ok };
        testing = false;
      };
      parts.engine.selfTest().then(
        ({ ok }) => note(ok),
        () => note(false),
      );
    }
    return tested === null || tested.ok ? 'operational' : 'major_outage';
  };

  const workersState = async (): Promise<ServiceStatus> => {
    const workers = await parts.jobs.workers();
    watch.observe(workers);
    const alive = workers.some(({ id }) => (watch.silentMs(id) ?? 0) < WORKER_SILENT_MS);
    // Right after the start the workers are on their way.
    return alive || clock() - began < WORKER_SILENT_MS ? 'operational' : 'major_outage';
  };

  const queueState = async (): Promise<ServiceStatus> => {
    const { oldestDueMs } = await parts.jobs.counts();
    if (oldestDueMs > QUEUE_OUTAGE_MS) return 'partial_outage';
    return oldestDueMs > QUEUE_DEGRADED_MS ? 'degraded_performance' : 'operational';
  };

  return {
    name: 'Processing',
    async check() {
      return worstStatus([codecsState(), await workersState(), await queueState(), parts.formats.state()]);
    },
  };
}
