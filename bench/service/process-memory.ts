import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Need } from '../benchmark.ts';

/** Linux reports the memory of processes here. */
export const processFiles: Need = { platform: 'linux', hint: 'the memory of processes is read from /proc.' };

const SAMPLE_MS = 100;

/** Resident bytes of a process and all of its descendants. */
export async function residentBytes(pid: number): Promise<number> {
  const processes = new Map<number, { parent: number; bytes: number }>();
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    // It may have ended since the folder was read.
    const status = await readFile(`/proc/${entry}/status`, 'utf8').catch(() => '');
    const number = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
    processes.set(Number(entry), { parent: number('PPid'), bytes: number('VmRSS') * 1024 });
  }
  const ofService = (child: number): boolean => {
    for (let at = child; at > 1; at = processes.get(at)?.parent ?? 0) if (at === pid) return true;
    return false;
  };
  return [...processes].reduce((sum, [child, { bytes }]) => (ofService(child) ? sum + bytes : sum), 0);
}

/** The peak memory of a process and its descendants while `work` runs. */
export async function peakBytes(pid: number, work: () => Promise<void>): Promise<number> {
  let over = false;
  let peak = await residentBytes(pid);
  const sampling = (async () => {
    while (!over) {
      await sleep(SAMPLE_MS);
      peak = Math.max(peak, await residentBytes(pid));
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await sampling;
  }
  return peak;
}
