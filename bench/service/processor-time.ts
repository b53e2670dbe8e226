import { readdir, readFile } from 'node:fs/promises';

/** Clock ticks per second in /proc, on every Linux that Node runs on (USER_HZ). */
const TICKS = 100;

interface ProcessTime {
  parent: number;
  name: string;
  /** Its own time and that of its ended children. */
  ms: number;
}

/**
 * Processor time (user and system) in milliseconds of each of these processes and all of their descendants. The time of an ended
 * process counts for the one that waited for it. 0 for null.
 */
export async function processorTimes<Names extends string>(
  pids: Readonly<Record<Names, number | null>>,
): Promise<Record<Names, number>> {
  const processes = await allProcesses();
  const entries = Object.entries<number | null>(pids).map(([name, root]) => {
    const times = [...processes].map(([pid, { ms }]) => (root !== null && descends(processes, pid, root) ? ms : 0));
    return [name, times.reduce((sum, ms) => sum + ms, 0)] as const;
  });
  // fromEntries loses the literal types of the names.
  return Object.fromEntries(entries) as Record<Names, number>;
}

/** Children of this process whose program has this name. */
export async function childNamed(name: string): Promise<number> {
  for (const [pid, found] of await allProcesses()) {
    if (found.parent === process.pid && found.name === name) return pid;
  }
  throw new Error(`No child is called ${name}.`);
}

async function allProcesses(): Promise<Map<number, ProcessTime>> {
  const processes = new Map<number, ProcessTime>();
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    // It may have ended since the folder was read.
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => null);
    if (stat === null) continue;
    // The name, in parentheses, may contain anything. Numbers follow it (proc(5)): state, ppid, …
    const end = stat.lastIndexOf(')');
    const fields = stat.slice(end + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    const name = stat.slice(stat.indexOf('(') + 1, end);
    processes.set(Number(entry), { parent: Number(fields[1]), name, ms: (ticks * 1000) / TICKS });
  }
  return processes;
}

function descends(processes: ReadonlyMap<number, ProcessTime>, pid: number, root: number): boolean {
  for (let at = pid; at > 1; at = processes.get(at)?.parent ?? 0) if (at === root) return true;
  return false;
}
