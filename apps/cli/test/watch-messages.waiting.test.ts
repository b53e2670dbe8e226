import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, type Running, start, temporaryFolder } from './run-cli.ts';
import { mediaObject, sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

const SOON = { timeout: 40_000 };
/** Much shorter than the time between full scans. */
const BEFORE_RESCAN = { timeout: 20_000 };

/** A service and a folder `in`, watched by a separate process, so that its messages are seen at once. */
async function setUp() {
  const service = await startService();
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in'));
  const watches: Running[] = [];
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: at('state') };
  return {
    ...{ service, at },
    run: (args: string[]) => mdsHere(args, { cwd: folder.path, env }),
    watch(args: string[] = []) {
      const running = start(['watch', 'in', '--settle', '0.2', ...args], { cwd: folder.path, env, stdin: '' });
      watches.push(running);
      return running;
    },
    async [Symbol.asyncDispose]() {
      for (const running of watches) running.kill('SIGKILL');
      await Promise.all(watches.map(({ done }) => done));
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

it.each([
  ['removed', (at: (name: string) => string) => rm(at('in'), { recursive: true })],
  ['moved away', (at: (name: string) => string) => rename(at('in'), at('away'))],
])('a folder that is %s is reported once and soon, and again when it is back', { timeout: 90_000 }, async (_, go) => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch();
  await expect.poll(() => watch.stdout(), SOON).toContain('a.jpg');
  await go(it.at);
  const gone = 'in: there is no such file or folder. Waiting for it.\n';
  await expect.poll(() => watch.stderr(), BEFORE_RESCAN).toBe(gone);
  // For several checks.
  await new Promise((resolve) => setTimeout(resolve, 7_000));
  expect(watch.stderr()).toBe(gone);
  await mkdir(it.at('in'));
  await writeFile(it.at('in/b.jpg'), 'b');
  await expect.poll(() => watch.stdout(), SOON).toContain('b.jpg');
  expect(watch.stderr()).toBe(`${gone}in is back.\n`);
});

it('reports unsent files if it ends during an outage; --status counts waiting files', async () => {
  await using it = await setUp();
  for (let n = 0; n < 12; n++) await writeFile(it.at(`in/${n}.jpg`), String(n));
  await it.service[Symbol.asyncDispose]();
  const watch = it.watch();
  const outage = 'The service cannot accept files: Nothing listens at its address. Waiting for it.\n';
  await expect.poll(() => watch.stderr(), SOON).toBe(outage);
  // A name that is not UTF-8 cannot be opened.
  await writeFile(Buffer.concat([Buffer.from(it.at('in/h')), Buffer.from([0xe4]), Buffer.from('user.jpg')]), 'x');
  await writeFile(it.at('in/half.jpg.part'), 'h');
  const status = await it.run(['watch', 'in', '--status']);
  expect(status.stderr).toContain(
    'in: 0 files ingested and still in the folder, 12 waiting, 0 refused, 1 unreadable.\n',
  );
  expect(status.stdout).toMatch(/^file_unreadable\t\th\S+user\.jpg\tIt cannot be read: its name is not valid UTF-8/);
  expect(JSON.parse((await it.run(['watch', 'in', '--status', '--json'])).stdout)).toMatchObject({
    ...{ accepted: 0, waiting: 12, refused: [] },
    unreadable: [{ message: expect.stringContaining('UTF-8') }],
  });
  watch.kill('SIGINT');
  const { code, stderr } = await watch.done;
  expect(code).toBe(0);
  expect(stderr).toMatch(/\n1[23] files: (1 failed, )?12 not done\n/);
});

it('with --json an outage is reported as JSON', async () => {
  await using it = await setUp();
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 507, 'insufficient_storage', 'No room is left.');
  });
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch(['--json']);
  await expect.poll(() => watch.stderr(), SOON).toContain('\n');
  expect(JSON.parse(watch.stderr())).toEqual({
    error: {
      message: 'The service cannot accept files: No room is left. Waiting for it.',
      ...{ hints: [], exit_code: null, problem: null },
    },
  });
});

it('reports a moved service once, and sends the file once its address is the new one', async () => {
  await using it = await setUp();
  let refused = 0;
  it.service.on('POST', (request, response) => {
    request.resume();
    if (refused === 3) return sendJson(response, 201, mediaObject(1));
    refused += 1;
    sendProblem(response, 503, 'deployment_moved', 'The deployment was moved.');
  });
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch();
  await expect.poll(() => watch.stdout(), SOON).toContain(mediaObject(1).id);
  expect(refused).toBe(3);
  expect(watch.stderr()).toMatch(/^The service cannot accept files: The deployment was moved\. Waiting for it\.\n/);
  expect(watch.stderr().match(/was moved/g)).toHaveLength(1);
});
