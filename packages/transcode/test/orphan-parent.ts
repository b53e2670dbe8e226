/** A program that gives a child a task that never ends, and waits to be killed. */
import { createIsolate } from '../src/isolate.ts';

const isolate = createIsolate({
  tasksModule: new URL('./hostile-tasks.ts', import.meta.url),
  concurrency: 2,
  tasksPerChild: 10,
  maxMemoryBytes: 2 ** 30,
  niceness: 0,
});
await Promise.all([
  isolate.run('echo', {}, { timeoutMs: 60_000 }),
  isolate.run('wait', { ms: 300 }, { timeoutMs: 60_000 }),
]);
void isolate.run('spin', {}, { timeoutMs: 60_000 });
console.log(JSON.stringify(isolate.stats.pids));
