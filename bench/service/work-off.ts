import { processorTimes } from './processor-time.ts';
import type { RunningWorker, WorkerlessService, WorkerReport } from './several-workers.ts';

/** Many times what a media object takes; a batch that takes longer never ends. */
const PATIENCE_MS_A_MEDIUM = 60_000;

/** How a batch was worked off. */
export interface WorkedOff {
  /** From the first media object's beginning to the last one's end. */
  readonly ms: number;
  /** Milliseconds that the workers stood still for a job, together. */
  readonly claimsMs: number;
  /** The same for what else they asked of the queue, while media were rendered. */
  readonly upkeepMs: number;
  /** The same for what they wrote of media under their leases. */
  readonly leaseWritesMs: number;
  /** Media that each worker finished. */
  readonly shares: readonly number[];
  /** Milliseconds of processor time by who took it, from the workers' start to their last media object. */
  readonly processorMs: Readonly<Record<'workers' | keyof WorkerlessService['pids'], number>>;
}

/** Takes a batch in while no worker runs, then has so many workers work it off. @returns how, and the ids of the media */
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
