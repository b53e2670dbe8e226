import { processorTimes } from './processor-time.ts';
import type { RunningWorker, WorkerlessService, WorkerReport } from './several-workers.ts';

/** Many times the duration of a media object; a batch that exceeds it never ends. */
const PATIENCE_MS_A_MEDIUM = 60_000;

/** How workers processed a batch. */
export interface WorkedOff {
  /** From the start of the first media object to the end of the last. */
  readonly ms: number;
  /** Total milliseconds for which workers were idle while they claimed jobs. */
  readonly claimsMs: number;
  /** The same for other requests to the queue, while media were rendered. */
  readonly upkeepMs: number;
  /** The same for writes of media under a lease. */
  readonly leaseWritesMs: number;
  /** The number of media that each worker finished. */
  readonly shares: readonly number[];
  /** Milliseconds of processor time by consumer, from the start of the workers to their last media object. */
  readonly processorMs: Readonly<Record<'workers' | keyof WorkerlessService['pids'], number>>;
}

/** Ingests a batch while no worker runs, then has workers process it. @returns the timings, and the ids of the media */
export async function workOff(
  service: WorkerlessService,
  batch: Iterable<Uint8Array<ArrayBuffer>>,
  count: number,
): Promise<WorkedOff & { ids: string[] }> {
  const ids: string[] = [];
  for (const bytes of batch) ids.push((await service.client.control.media.ingest(bytes)).media.id);
  const before = await processorTimes(service.pids);
  const workers: RunningWorker[] = [];
  let late: NodeJS.Timeout | undefined;
  const allFinished = new Promise<void>((resolve, reject) => {
    late = setTimeout(() => reject(new Error('The batch does not end.')), PATIENCE_MS_A_MEDIUM * ids.length);
    let left = ids.length;
    const onFinished = (died: Error | null) => {
      if (died !== null) reject(died);
      else if (--left === 0) resolve();
    };
    for (let i = 0; i < count; i++) workers.push(service.startWorker(onFinished));
  });
  const reports: WorkerReport[] = [];
  let after = before;
  let workersMs = 0;
  try {
    await allFinished;
    after = await processorTimes(service.pids);
    const ofWorkers = await processorTimes(Object.fromEntries(workers.map(({ pid }) => [`${pid}`, pid])));
    workersMs = sum(Object.values(ofWorkers));
  } finally {
    clearTimeout(late);
    for (const worker of workers) reports.push(await worker.stop());
  }
  const media = reports.flatMap(({ finished }) => finished);
  const began = Math.min(...media.map(({ atMs, tookMs }) => atMs - tookMs));
  const used = Object.entries(after).map(([name, ms]) => [name, ms - before[name as keyof typeof before]]);
  return {
    ids,
    ms: Math.max(...media.map(({ atMs }) => atMs)) - began,
    claimsMs: sum(reports.map(({ claims }) => claims.ms)),
    upkeepMs: sum(reports.map(({ upkeep }) => upkeep.ms)),
    leaseWritesMs: sum(reports.map(({ leaseWrites }) => leaseWrites.ms)),
    shares: reports.map(({ finished }) => finished.length),
    processorMs: { ...(Object.fromEntries(used) as typeof before), workers: workersMs },
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
