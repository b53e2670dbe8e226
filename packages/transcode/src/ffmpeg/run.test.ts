import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scratch } from '../../test/scratch.ts';
import type { ProgramRun } from '../render/program-run.ts';
import { findPrograms } from './programs.ts';
import { type EncodeProgress, parseProgress, type RunLimits, type RunOptions, runProgram } from './run.ts';

const { folder, file } = scratch();
const { ffmpeg, ffprobe } = await findPrograms({});
const ample: RunLimits = { wallMs: 20_000, cpuMs: 60_000, memoryBytes: 2 ** 30, stallMs: 20_000 };

function run(argv: readonly string[], limits: Partial<RunLimits> = {}, options: Partial<RunOptions> = {}) {
  const cwd = mkdtempSync(join(folder, 'cwd-'));
  return runProgram(ffmpeg, ['-nostdin', '-hide_banner', '-v', 'error', ...argv], {
    step: 'test',
    cwd,
    limits: { ...ample, ...limits },
    ...options,
  });
}
/** Endless work: as fast as possible, or at the pace of a clock. */
const endless = ['-f', 'lavfi', '-i', 'testsrc=s=320x180', '-f', 'null', '-'];
const slow = ['-f', 'lavfi', '-i', 'testsrc=s=32x18,realtime', '-f', 'null', '-'];

test('the output of a program is returned, with a report of the run that hides paths', async () => {
  const wave = join(folder, 'wave.s16');
  const argv = ['-f', 'lavfi', '-i', 'sine', '-t', '0.01', '-f', 's16le'];
  const { stdout } = await run([...argv, 'pipe:1']);
  expect(stdout.length).toBe(441 * 2);
  const { run: report } = await run([...argv, wave], {}, { hide: { [folder]: 'FOLDER', [wave]: 'OUT' } });
  expect(report).toMatchObject({ step: 'test', outcome: 'ok', stderrTail: [] });
  expect([report.argv[0], report.argv.at(-1)]).toEqual(['ffmpeg', 'OUT']);
});

test('a failed program is reported with its last line, in which paths are hidden', async () => {
  const path = file('this is no film', 'private.mp4');
  await expect(run(['-i', path, '-f', 'null', '-'], {}, { hide: { [path]: 'SOURCE' } })).rejects.toMatchObject({
    name: 'ProgramError',
    failure: 'exit',
    message: expect.stringMatching(/^exited with code \d+: .*SOURCE/),
    run: { stderrTail: expect.arrayContaining([expect.stringContaining('SOURCE')]) },
  });
  await expect(run(['-i', path, '-f', 'null', '-'], {}, { hide: { [path]: 'SOURCE' } })).rejects.not.toThrow(/private/);
});

test.each([
  ['wall', slow, { wallMs: 400 }, /killed after 0 s/],
  ['cpu', endless, { cpuMs: 300 }, /processor time/],
  ['memory', endless, { memoryBytes: 8 * 2 ** 20 }, /more than 8 MiB/],
] as const)('fault 4: a run over its %s limit is killed', async (failure, argv, limits, outcome) => {
  const began = Date.now();
  const failed = await run(argv, limits).catch((error: unknown) => error);
  expect(failed).toMatchObject({ failure, run: { outcome: expect.stringMatching(outcome) } });
  expect(Date.now() - began).toBeLessThan(10_000);
});

test('fault 4: endless output is stopped; output that is consumed as it arrives is not', async () => {
  const bytes = ['-f', 'lavfi', '-i', 'anullsrc', '-f', 's16le', 'pipe:1'];
  await expect(run(bytes, {}, { maxOutputBytes: 100_000 })).rejects.toMatchObject({ failure: 'output' });
  let taken = 0;
  const onOutput = (piece: Buffer) => {
    taken += piece.length;
  };
  await run(
    ['-f', 'lavfi', '-t', '2', '-i', 'anullsrc', '-f', 's16le', 'pipe:1'],
    {},
    { maxOutputBytes: 10, onOutput },
  );
  expect(taken).toBe(2 * 44_100 * 2 * 2);
});

test('progress is reported as it happens, and a run without progress is killed', async () => {
  const seen: EncodeProgress[] = [];
  const argv = ['-f', 'lavfi', '-t', '2', '-i', 'testsrc=s=32x18:r=25,realtime', '-f', 'null', '-'];
  await run(argv, {}, { onProgress: (progress) => seen.push(progress) });
  expect(seen.length).toBeGreaterThan(2);
  expect(seen.at(-1)?.frame).toBe(50);
  expect(seen.map(({ frame }) => frame)).toEqual([...seen.map(({ frame }) => frame)].sort((a, b) => a - b));
  const stuck = ['-f', 'lavfi', '-i', 'testsrc=s=32x18,realtime=speed=0.0001', '-f', 'null', '-'];
  await expect(run(stuck, { stallMs: 500 }, { onProgress: () => undefined })).rejects.toMatchObject({
    failure: 'stall',
  });
});

test('an abort ends a run, even if it came before the start', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 200);
  await expect(run(slow, {}, { signal: controller.signal })).rejects.toMatchObject({ failure: 'aborted' });
  await expect(run(slow, {}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ failure: 'aborted' });
});

test('a missing program is reported as one that could not be started', async () => {
  const missing = { ...ffprobe, path: join(folder, 'nothing') };
  const started = runProgram(missing, [], { step: 'test', cwd: folder, limits: ample });
  await expect(started).rejects.toMatchObject({
    failure: 'start',
    message: expect.stringMatching(/could not be started/),
  });
});

test('none of our environment reaches a program', async () => {
  process.env['MDS_CONTROL_TOKEN'] = 'secret';
  const shell = { ...ffmpeg, path: '/bin/sh' };
  const { stdout } = await runProgram(shell, ['-c', 'env'], { step: 'test', cwd: folder, limits: ample });
  delete process.env['MDS_CONTROL_TOKEN'];
  expect(stdout.toString()).toContain('LANG=C');
  expect(stdout.toString()).not.toMatch(/secret|NODE_|npm_/);
});

/** Runs a shell script as a program. */
const runScript = (script: string, options: Partial<RunOptions> = {}) =>
  runProgram({ ...ffmpeg, path: '/bin/sh' }, ['-c', script], { step: 'test', cwd: folder, limits: ample, ...options });

test('a run is reported from its start, so its report survives the process that waits', async () => {
  const updates: ProgramRun[] = [];
  const { run: ended } = await runScript('echo careful >&2; sleep 2.5', { onUpdate: (now) => updates.push(now) });
  expect(updates).toHaveLength(3);
  expect(updates[0]).toMatchObject({ step: 'test', outcome: 'running', argv: ended.argv, stderrTail: [] });
  expect(updates[2]).toMatchObject({ outcome: 'running', stderrTail: ['careful'] });
  expect(updates[2]?.ms).toBeGreaterThan(1_500);
  expect(updates[2]?.maxMemoryBytes).toBeGreaterThan(2 ** 16);
});

test('memory that could not be measured is reported as null, not as 0', async () => {
  const ending = runScript('exit 0');
  // It ends while we are busy, and has released its memory before the first measurement.
  for (const until = Date.now() + 300; Date.now() < until; );
  const { run: report } = await ending;
  expect(report).toMatchObject({ outcome: 'ok', maxMemoryBytes: null });
});

test('progress is read from the last block', () => {
  const block = (frame: number, us: number | string) => `frame=${frame}\nfps=1\nout_time_us=${us}\nprogress=continue\n`;
  expect(parseProgress(block(1, 40_000) + block(9, 360_000))).toEqual({ frame: 9, timeMs: 360 });
  expect(parseProgress(block(0, 'N/A'))).toEqual({ frame: 0, timeMs: 0 });
});
