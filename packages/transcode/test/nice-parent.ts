/** A program with a niceness of 5 that requests none for its child, and prints the one that the child has. */
import { getPriority, setPriority } from 'node:os';
import { createIsolate } from '../src/isolate.ts';

setPriority(5);
const isolate = createIsolate({
  tasksModule: new URL('./hostile-tasks.ts', import.meta.url),
  concurrency: 1,
  tasksPerChild: 10,
  maxMemoryBytes: 2 ** 30,
  niceness: 0,
});
await isolate.run('echo', {}, { timeoutMs: 60_000 });
const [pid] = isolate.stats.pids;
console.log(getPriority(pid));
await isolate.stop();
