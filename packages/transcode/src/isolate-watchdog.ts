import { Worker } from 'node:worker_threads';

/**
 * The watchdog ends the process with this signal if memory exceeds the cap. Nothing else sends it, so the parent can recognize
 * the cause.
 */
export const memoryCapSignal = 'SIGUSR2';

/** Short enough that a decoder which allocates a gigabyte a second exceeds the cap only slightly. */
const intervalMs = 50;

/** Plain JavaScript: a thread does not inherit the loader that reads TypeScript when we run from source. */
const source = `
  const { maxMemoryBytes, parentPid, home, signal, intervalMs } = require('node:worker_threads').workerData;
  setInterval(() => {
    if (process.memoryUsage.rss() > maxMemoryBytes) process.kill(process.pid, signal);
    if (process.ppid !== parentPid) {
      require('node:fs').rmSync(home, { recursive: true, force: true });
      // Kills the whole group, so that a program that we run for a task does not outlive it.
      process.kill(-process.pid, 'SIGKILL');
    }
  }, intervalMs);
`;

/**
 * Starts a thread that watches its own process: its memory must stay under the cap, and its parent must live. It is a thread
 * because decoders may block the main thread for any time, and then no timer fires and no 'disconnect' arrives.
 */
export function startWatchdog(maxMemoryBytes: number): void {
  const workerData = {
    maxMemoryBytes,
    parentPid: process.ppid,
    home: process.cwd(),
    signal: memoryCapSignal,
    intervalMs,
  };
  new Worker(source, { eval: true, workerData, execArgv: [], env: {} }).unref();
}
