/** A program whose children run endless tasks, each with an ffmpeg, and that waits to be killed. */
import { findPrograms } from '../src/ffmpeg/programs.ts';
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
const { ffmpeg } = await findPrograms({});
const encode = (spin: boolean) =>
  new Promise<unknown>((resolve) => {
    void isolate.run('encode', { ffmpeg: ffmpeg.path, spin }, { timeoutMs: 60_000, onProgress: resolve });
  });
const programs = await Promise.all([encode(true), encode(false)]);
console.log(JSON.stringify({ children: isolate.stats.pids, programs }));
