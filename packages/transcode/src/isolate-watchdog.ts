import { Worker } from 'node:worker_threads';

/**
 * The watchdog ends the process with this signal when memory passes the cap. Nothing else sends it, so the parent can tell
 * that death from every other.
 */
export const memoryCapSignal = 'SIGUSR2';

/** Often enough that a decoder which allocates a gigabyte a second overshoots the cap by little. */
const intervalMs = 50;

/** Plain JavaScript: a thread does not inherit the loader that reads TypeScript when we run from source. */
const source = `
  const { maxMemoryBytes, parentPid, home, signal, intervalMs } = require('node:worker_threads').workerData;
  setInterval(() => {
    if (process.memoryUsage.rss() > maxMemoryBytes) process.kill(process.pid, signal);
    if (process.ppid !== parentPid) {
      require('node:fs').rmSync(home, { recursive: true, force: true });
      // The whole group: a program that we run for a task must not go on for nobody.
      process.kill(-process.pid, 'SIGKILL');
    }
  }, intervalMs);
`;

/**
 * Starts a thread that watches over its own process: that it stays under the memory cap, and that its parent lives. A thread,
 * because decoders may hold the main thread for as long as they like, and then no timer fires and no 'disconnect' arrives.
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
