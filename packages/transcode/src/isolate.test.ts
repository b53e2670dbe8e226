import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { getPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { findPrograms } from './ffmpeg/programs.ts';
import { type ChildExit, createIsolate, type Isolate, type IsolateOptions } from './isolate.ts';

const isolates: Isolate[] = [];
afterEach(async () => {
  await Promise.all(isolates.splice(0).map((isolate) => isolate.stop()));
});

function hostile(options: Partial<IsolateOptions> = {}): Isolate {
  const isolate = createIsolate({
    tasksModule: new URL('../test/hostile-tasks.ts', import.meta.url),
    concurrency: 1,
    tasksPerChild: 100,
    maxMemoryBytes: 2 ** 30,
    niceness: 0,
    ...options,
  });
  isolates.push(isolate);
  return isolate;
}

const limit = { timeoutMs: 20_000 };
const fromSource = [
  '--conditions=@mds/source',
  '--import',
  pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href,
];
const alive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = (pids: number[]) => expect.poll(() => pids.filter(alive), { timeout: 5_000 }).toEqual([]);

interface Echo {
  input: unknown;
  pid: number;
  cwd: string;
  env: Record<string, string>;
}

test('a task has its input, an empty folder, its niceness, and none of our secrets', async () => {
  process.env['MDS_CONTROL_TOKEN'] = 'secret';
  const isolate = hostile({ niceness: 7 });
  expect(isolate.stats.pids).toEqual([]);
  const echo = (await isolate.run('echo', { a: [1] }, limit)) as Echo;
  delete process.env['MDS_CONTROL_TOKEN'];
  expect(echo.input).toEqual({ a: [1] });
  expect(readdirSync(echo.cwd)).toEqual([]);
  expect(JSON.stringify(echo.env)).not.toContain('secret');
  expect(Object.keys(echo.env).filter((name) => name.startsWith('MDS_') || name.startsWith('AWS_'))).toEqual([]);
  expect(getPriority(echo.pid)).toBe(7);
  await isolate.stop();
  expect(alive(echo.pid)).toBe(false);
  await expect.poll(() => existsSync(echo.cwd)).toBe(false);
});

test('every thread of a child has the niceness, including those that decode and encode', async () => {
  const { pid } = (await hostile({ niceness: 7 }).run('echo', {}, limit)) as Echo;
  const threads = readdirSync(`/proc/${pid}/task`).map(Number);
  expect(threads.length).toBeGreaterThan(4);
  expect(threads.map(getPriority)).toEqual(threads.map(() => 7));
});

test('the niceness of the service passes to its children: only root may lower it', async () => {
  const program = fileURLToPath(new URL('../test/nice-parent.ts', import.meta.url));
  const niceness = await promisify(execFile)(process.execPath, [...fromSource, program]);
  expect(niceness.stdout).toBe('5\n');
});

test('a child can start before its first task and does not keep the program running', async () => {
  const isolate = hostile({ concurrency: 2 });
  isolate.warmUp();
  isolate.warmUp();
  await expect.poll(() => isolate.stats.pids.length).toBe(1);
  const [pid] = isolate.stats.pids;
  isolate.warmUp();
  const echo = (await isolate.run('echo', {}, limit)) as Echo;
  expect(echo.pid).toBe(pid);
  expect(isolate.stats.pids).toEqual([pid]);
  await isolate.stop();
  isolate.warmUp();
  expect(isolate.stats.pids).toEqual([]);
});

test('children are reused, and replaced after their share of tasks', async () => {
  const exits: ChildExit[] = [];
  const isolate = hostile({ tasksPerChild: 3, onChildExit: (exit) => exits.push(exit) });
  const pids: number[] = [];
  for (let index = 0; index < 4; index++) pids.push(((await isolate.run('echo', {}, limit)) as Echo).pid);
  expect(new Set(pids.slice(0, 3)).size).toBe(1);
  expect(pids[3]).not.toBe(pids[0]);
  expect(exits.map(({ reason }) => reason)).toEqual(['recycled']);
  expect(isolate.stats.restarts).toBe(0);
});

test.each(['SIGSEGV', 'SIGKILL', 'SIGABRT'] as const)(
  'invariant 3, fault 14 (engine): %s is named and fails only its own task',
  async (signal) => {
    const isolate = hostile();
    const [killed, next] = await Promise.allSettled([
      isolate.run('crash', { signal }, limit),
      isolate.run('echo', 'next', limit),
    ]);
    expect(killed).toMatchObject({ status: 'rejected', reason: { failure: 'crashed' } });
    expect(String((killed as PromiseRejectedResult).reason)).toContain(signal);
    expect(next).toMatchObject({ status: 'fulfilled', value: { input: 'next' } });
    expect(isolate.stats.restarts).toBe(1);
  },
);

test('the error of an exit in the middle of a task names the exit code', async () => {
  await expect(hostile().run('exit', { code: 3 }, limit)).rejects.toMatchObject({
    failure: 'crashed',
    message: expect.stringContaining('code 3'),
  });
});

test('an error of a task reaches its caller and costs no child', async () => {
  const isolate = hostile();
  await expect(isolate.run('fail', {}, limit)).rejects.toMatchObject({
    taskErrorName: 'RangeError',
    code: 'far',
    message: 'too far',
  });
  await isolate.run('echo', {}, limit);
  expect(isolate.stats).toMatchObject({ restarts: 0, tasks: 2 });
});

test('fault 14 (engine): an endless task is killed at its timeout, even a busy loop', async () => {
  const isolate = hostile();
  const { pid } = (await isolate.run('echo', {}, limit)) as Echo;
  await expect(isolate.run('spin', {}, { timeoutMs: 300 })).rejects.toMatchObject({ failure: 'timeout' });
  await gone([pid]);
  await expect(isolate.run('echo', 'next', limit)).resolves.toMatchObject({ input: 'next' });
});

test('fault 14 (engine): a task that takes too much memory is killed for that reason', async () => {
  const isolate = hostile({ maxMemoryBytes: 400 * 2 ** 20 });
  await expect(isolate.run('hoard', { bytes: 700 * 2 ** 20 }, limit)).rejects.toMatchObject({
    failure: 'out_of_memory',
    message: expect.stringContaining('400 MiB'),
  });
  await expect(isolate.run('echo', 'next', limit)).resolves.toMatchObject({ input: 'next' });
});

test('aborting a running task kills its child; aborting a waiting one does not', async () => {
  const isolate = hostile();
  const { pid } = (await isolate.run('echo', {}, limit)) as Echo;
  const running = new AbortController();
  const waiting = new AbortController();
  const first = isolate.run(
    'wait',
    { ms: 60_000 },
    { ...limit, signal: running.signal, onProgress: () => running.abort() },
  );
  const second = isolate.run('echo', {}, { ...limit, signal: waiting.signal });
  const third = isolate.run('echo', 'third', limit);
  waiting.abort();
  await expect(second).rejects.toMatchObject({ failure: 'aborted' });
  await expect(first).rejects.toMatchObject({ failure: 'aborted' });
  await gone([pid]);
  await expect(third).resolves.toMatchObject({ input: 'third' });
  await expect(isolate.run('echo', {}, { ...limit, signal: AbortSignal.abort() })).rejects.toMatchObject({
    failure: 'aborted',
  });
});

test('all allowed children are used, and no more', async () => {
  const isolate = hostile({ concurrency: 2 });
  const outcomes = Promise.allSettled([1, 2, 3].map(() => isolate.run('wait', { ms: 60_000 }, limit)));
  await expect.poll(() => isolate.stats, { timeout: 20_000 }).toMatchObject({ busy: 2, queued: 1 });
  expect(isolate.stats.pids).toHaveLength(2);
  await isolate.stop();
  await outcomes;
});

test('stopping fails running and waiting tasks, and leaves no process', async () => {
  const isolate = hostile();
  const { pid } = (await isolate.run('echo', {}, limit)) as Echo;
  const outcomes = Promise.allSettled([isolate.run('spin', {}, limit), isolate.run('echo', {}, limit)]);
  await isolate.stop();
  expect(await outcomes).toMatchObject([{ reason: { failure: 'stopped' } }, { reason: { failure: 'stopped' } }]);
  expect(alive(pid)).toBe(false);
  await expect(isolate.run('echo', {}, limit)).rejects.toMatchObject({ failure: 'stopped' });
});

test('kill -9 of the parent leaves no children, no programs of theirs, and no folders', async () => {
  const program = fileURLToPath(new URL('../test/orphan-parent.ts', import.meta.url));
  const parent = spawn(process.execPath, [...fromSource, program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // One child blocks its main thread, the other does not; each runs an ffmpeg that never ends.
  const { children, programs } = await new Promise<{ children: number[]; programs: number[] }>((resolve) => {
    parent.stdout.once('data', (line: Buffer) => resolve(JSON.parse(String(line)) as never));
  });
  const pids = [...children, ...programs];
  expect(pids).toHaveLength(4);
  expect(pids.every(alive)).toBe(true);
  // Time for the first child to start blocking its main thread.
  await delay(300);
  const homes = children.map((pid) => readlinkSync(`/proc/${pid}/cwd`));
  parent.kill('SIGKILL');
  await gone(pids);
  expect(homes.filter((home) => existsSync(home))).toEqual([]);
});

test('fault 4: a task that is killed at its timeout takes its program with it', async () => {
  const { ffmpeg } = await findPrograms({});
  const isolate = hostile();
  let pid = 0;
  const onProgress = (progress: unknown) => {
    pid = Number(progress);
  };
  const run = isolate.run('encode', { ffmpeg: ffmpeg.path, spin: true }, { timeoutMs: 2_000, onProgress });
  await expect(run).rejects.toMatchObject({ failure: 'timeout' });
  expect(pid).toBeGreaterThan(1);
  await gone([pid]);
});
