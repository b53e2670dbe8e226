import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mds, start, temporaryFolder } from './run-cli.ts';
import { mediaObject, startService, TOKEN } from './scripted-service.ts';

// Each test starts a process, so they run concurrently to save time. Concurrent tests that poll need their own `expect`.
describe.concurrent('the program as a process', { timeout: 60_000 }, () => {
  it('prints its help without loading the client, zod or ts-rest, to start fast', async () => {
    const coverage = await mkdtemp(join(tmpdir(), 'mds-coverage-'));
    const { code, stdout, stderr } = await mds(['--help'], { env: { NODE_V8_COVERAGE: coverage } });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^Usage: mds \[options\] \[command\]/);
    expect(stdout).toContain('Exit codes:');
    const loaded = (
      await Promise.all((await readdir(coverage)).map((name) => readFile(join(coverage, name), 'utf8')))
    ).join('');
    await rm(coverage, { recursive: true });
    expect(loaded).toMatch(/apps\/cli\/(src\/program\.ts|dist\/program\.js)/);
    expect(loaded).not.toMatch(/node_modules\/(zod|@ts-rest)\/|packages\/(client|contract)\/(src|dist)/);
  });

  it('uses the service of MDS_URL and the token of MDS_TOKEN', async () => {
    await using service = await startService();
    service.media.push(mediaObject(1));
    const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
    const { code, stdout } = await mds(['media', 'list', '--detail'], { env });
    expect(code).toBe(0);
    expect(stdout).toBe(
      `${mediaObject(1).id}\tready\timage/jpeg\t2400000\t4032x3024\t${service.media[0]?.created_at}\tphoto-1.jpg\t\t\t\n`,
    );
  });

  it('ingests standard input', async () => {
    await using service = await startService();
    const args = ['--url', service.url, '--token', TOKEN, 'ingest', '-', '--filename', 'piped.jpg'];
    const { code, stdout, stderr } = await mds(args, { stdin: Buffer.alloc(300_000, 1) });
    expect(stderr).toBe('1 file: 1 created\n');
    expect(code).toBe(0);
    expect(service.media[0]).toMatchObject({ filename: 'piped.jpg', bytes: 300_000 });
    expect(stdout).toBe(`${service.media[0]?.id}\tcreated\tqueued\t-\t\t\n`);
  });

  it.for([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('on %s ends with %i after reporting what was done', async ([signal, exitCode], { expect }) => {
    await using service = await startService();
    await using folder = await temporaryFolder();
    await writeFile(join(folder.path, 'a.jpg'), 'a');
    await writeFile(join(folder.path, 'b.jpg'), Buffer.alloc(4_000_000, 2));
    await writeFile(join(folder.path, 'c.jpg'), 'c');
    service.bytesPerSecond = 200_000;
    const args = ['--url', service.url, '--token', TOKEN, 'ingest', '--parallel', '1', '.'];
    const running = start(args, { cwd: folder.path });
    await expect.poll(() => running.stdout(), { timeout: 40_000 }).toContain('a.jpg');
    await expect.poll(() => service.requests.length, { timeout: 40_000 }).toBe(2);
    running.kill(signal);
    const { code, stdout, stderr } = await running.done;
    expect(code).toBe(exitCode);
    expect(stdout.split('\n')).toHaveLength(2);
    expect(stderr).toBe('3 files: 1 created, 2 not done\nerror: Interrupted.\n');
    expect(service.media.map(({ filename }) => filename)).toEqual(['a.jpg']);
  });

  it('ends without an error if the reader closes the pipe, as head does', async ({ expect }) => {
    await using service = await startService();
    for (let n = 0; n < 2_000; n++) service.media.push(mediaObject(n));
    const running = start(['--url', service.url, 'media', 'list', '--all']);
    await expect.poll(() => running.stdout(), { timeout: 40_000 }).not.toBe('');
    running.closeStdout();
    const { code, stderr } = await running.done;
    expect([code, stderr]).toEqual([0, '']);
    expect(service.requests.length).toBeLessThan(20);
  });

  it('explains how to start a service that is not running', async () => {
    const service = await startService();
    await service[Symbol.asyncDispose]();
    const { code, stdout, stderr } = await mds(['status', '--url', service.url]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`error: No answer from ${service.url}: nothing listens there.`);
    expect(stderr).toContain('npm start');
    expect(stderr).toContain('--url or MDS_URL');
  });

  it('prints colours for FORCE_COLOR, unless NO_COLOR is set', async () => {
    await using service = await startService();
    const args = ['--url', service.url, 'media', 'get', 'med_x'];
    const env = { MDS_TOKEN: TOKEN, FORCE_COLOR: '1' };
    expect((await mds(args, { env })).stderr).toContain('\x1b[31merror:\x1b[39m');
    // Node 22 itself prints which of the two variables it ignores.
    expect((await mds(args, { env: { ...env, NO_COLOR: '1' } })).stderr).toMatch(
      /^error: There is no (such )?media object/m,
    );
  });
});
