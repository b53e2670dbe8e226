import { readdirSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';

/**
 * Gives this process a niceness, all threads of it: Linux keeps one for each thread (setpriority(2), "C library/kernel
 * differences"), and of those that Node has started by now some are the ones that will decode and encode. Threads and programs
 * started later inherit it. A process that was started nicer than that stays so: only root may take niceness back.
 */
export function giveWay(niceness: number): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [process.pid];
  for (const thread of threads) {
    try {
      if (getPriority(thread) < niceness) setPriority(thread, niceness);
    } catch (error) {
      const ended = error instanceof Error && 'errno' in error && error.errno === -constants.errno.ESRCH;
      if (!ended) throw error;
    }
  }
}
