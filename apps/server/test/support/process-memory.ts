import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** Resident memory of one process, as Linux counts it. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** The peak memory of a process during `work`. */
export async function peakDuring(pid: number, work: () => Promise<void>): Promise<number> {
  const over = new AbortController();
  let peak = await residentBytes(pid);
  const sampling = (async () => {
    while (!over.signal.aborted) {
      peak = Math.max(peak, await residentBytes(pid));
      await sleep(20);
    }
  })();
  try {
    await work();
  } finally {
    over.abort();
    await sampling;
  }
  return peak;
}
