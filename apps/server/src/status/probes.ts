import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceStatus, worstStatus } from '@mds/contract';
import type { Engine } from '@mds/transcode';
import type { JobQueue } from '../db/job-queue.ts';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import type { FormatCatalogue } from '../processing/format-catalogue.ts';
import type { Probe } from './status-board.ts';

/** A database, a store or a cache that takes longer than this to answer is slow. */
export const SLOW_MS = 1_000;
/** An event loop that is this late delays every answer. */
export const LATE_MS = 500;
/** A job that has waited this long shows that processing is degraded, or out. */
export const QUEUE_DEGRADED_MS = 60_000;
export const QUEUE_OUTAGE_MS = 10 * 60_000;
/** A worker that has been silent for this long is not counted. */
export const WORKER_SILENT_MS = 20_000;
/** Between two self-tests of the engine, which cost a little work of a decoder process. */
const SELF_TEST_MS = 60_000;

const now = () => performance.now();

/** How late the event loop of this process is, over a few turns. */
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

/** Checks a part by a piece of work: `operational` if it succeeds in time, `degraded_performance` if it succeeds late. */
export function workingProbe(name: string, work: () => Promise<unknown>): Probe {
  let running: Promise<unknown> | null = null;
  return {
    name,
    async check() {
      const began = now();
      // While a part hangs, it is not given the work again.
      running ??= work().finally(() => {
        running = null;
      });
      await running;
      return now() - began < SLOW_MS ? 'operational' : 'degraded_performance';
    },
  };
}

/** {@link workingProbe} of the database: it answers and can be written to. */
export function databaseProbe(repositories: { probe(): Promise<void> }): Probe {
  return workingProbe('Database', () => repositories.probe());
}

/** {@link workingProbe} of the object store: it stores and returns a tiny object. */
export function objectStorageProbe(store: { probe(): Promise<void> }): Probe {
  return workingProbe('Object storage', () => store.probe());
}

/** {@link workingProbe} of this node's delivery. */
export function deliveryProbe(delivery: { probe(): Promise<void> }): Probe {
  return workingProbe('Delivery', () => delivery.probe());
}

/**
 * Processing as a whole: `major_outage` if the codecs fail their self-test or no worker lives, `partial_outage` or
 * `degraded_performance` if jobs wait too long, `degraded_performance` if a format cannot be decoded.
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

  /** Starting a decoder process takes long, so the test runs beside the probe, which reports the latest outcome. */
  const codecsState = (): ServiceStatus => {
    // After a failure each probe tests again, so that its end shows soon.
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
    // Right after the start the workers are still starting.
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
