import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, temporaryFolder } from './run-cli.ts';
import { mediaObject, sendProblem, startService, TOKEN } from './scripted-service.ts';

it.each([
  [['stauts'], "unknown command 'stauts'\n(Did you mean status?)"],
  [['media', 'lst'], "unknown command 'lst'\n(Did you mean list?)"],
  [['media', 'list', '--limti', '3'], "unknown option '--limti'\n(Did you mean --limit?)"],
  [['regions', 'list', '--region', 'x'], "unknown option '--region'\n(see --help)"],
  [['regions', 'maintain', 'fra1', '--on'], "unknown option '--on'\n(see --help)"],
  [['asets'], "unknown command 'asets'\n(Did you mean assets?)"],
  [['assets', 'fra1'], "unknown command 'fra1'\nThe only command of assets is list."],
  [['cache'], 'Usage: mds cache'],
  [['media', 'list', '--limit', '0'], 'It must be a whole number from 1 up.'],
  [['media', 'get'], "missing required argument 'id'"],
  [['media', 'get', 'a', 'b'], 'too many arguments'],
  [['ingest'], "missing required argument 'path'"],
  [['ingest', 'x', '--duplicate', 'perhaps'], 'Allowed choices are existing, allow'],
  [['ingest', 'x', '--parallel', '99'], 'from 1 to 16'],
  [['media', 'list', '--status', 'lost'], 'Allowed choices are queued, processing, ready, failed'],
  [['events', '--after', 'yesterday'], 'the number of an event'],
  [['events', '--type', 'media.lost'], 'Allowed choices are media.created'],
  [['status', '--url', 'media.example.com:8080'], 'http:// or https://'],
  [['status', '--url', 'ftp://x'], 'is from --url or MDS_URL'],
  [['media', 'url', '../../etc/passwd', 'thumb'], 'is not a delivery path'],
  [['media', 'delete', 'med_1', '--token', 't'], 'give --yes to delete'],
])('%j is wrong usage, ends with 2 and shows the correct form', async (args, message) => {
  const { code, stdout, stderr } = await mdsHere(args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^(error|Usage): /m);
  expect(stderr).toContain(message);
});

it.each([
  [['stauts'], "unknown command 'stauts'"],
  [['media', 'list', '--limit', '0'], 'from 1 up'],
  [['cache'], 'A command is missing.'],
  [['regions', 'list', '--region', 'x'], /^unknown option '--region'$/],
])('%j with --json is reported as JSON', async (args, message) => {
  const { code, stdout, stderr } = await mdsHere([...args, '--json']);
  expect([code, stdout]).toEqual([2, '']);
  const { error } = JSON.parse(stderr) as { error: { message: string; exit_code: number; problem: unknown } };
  expect(error).toMatchObject({ message: expect.stringMatching(message), exit_code: 2, problem: null });
});

it.each([[[]], [['--help']], [['help']]])('%j prints the help', async (args) => {
  const { code, stdout, stderr } = await mdsHere(args);
  expect([code, stderr]).toEqual([0, '']);
  for (const command of [
    'ingest',
    'media',
    'fetches',
    'jobs',
    'workers',
    'events',
    'assets',
    'regions',
    'cache',
    'status',
    'formats',
    'renditions',
    'api',
  ]) {
    expect(stdout).toMatch(new RegExp(`^  ${command} `, 'm'));
  }
});

it('the help of a command also lists the global options', async () => {
  const { stdout } = await mdsHere(['media', 'list', '--help']);
  expect(stdout).toMatch(/--cursor[\s\S]*Global Options:[\s\S]*--url/);
  expect(stdout).toContain('tab-separated');
});

it('prints its version', async () => {
  expect(await mdsHere(['--version'])).toEqual({ code: 0, stdout: '0.1.0\n', stderr: '' });
});

it('lists the searched places if there is no token', async () => {
  await using folder = await temporaryFolder();
  const { code, stderr } = await mdsHere(['media', 'get', 'med_1'], { cwd: folder.path });
  expect(code).toBe(4);
  expect(stderr).toContain(`None was found in --token, MDS_TOKEN or ${folder.path}/data/control-token (no such file).`);
  expect(stderr).toContain('MDS_DATA_DIR');
});

it('finds the token in the data folder, in ./data or in MDS_DATA_DIR', async () => {
  await using service = await startService();
  await using folder = await temporaryFolder();
  service.media.push(mediaObject(1));
  for (const data of ['data', 'elsewhere']) {
    await mkdir(join(folder.path, data));
    await writeFile(join(folder.path, data, 'control-token'), `${TOKEN}\n`, { mode: 0o600 });
    const env = { MDS_URL: service.url, ...(data === 'data' ? {} : { MDS_DATA_DIR: data }) };
    const { code } = await mdsHere(['media', 'get', mediaObject(1).id], { cwd: folder.path, env });
    expect(code).toBe(0);
  }
});

it.each(['127.0.0.1', 'localhost'])(
  'finds a service on this machine at %s without a scheme, and by MDS_PORT',
  async (host) => {
    await using service = await startService();
    const { port } = new URL(service.url);
    expect(await mdsHere(['media', 'list', '--url', `${host}:${port}`])).toMatchObject({ code: 0 });
    expect(await mdsHere(['media', 'list'], { env: { MDS_PORT: port } })).toMatchObject({ code: 0 });
  },
);

it('names the source of a refused token, but never the token', async () => {
  await using service = await startService();
  const env = { MDS_URL: service.url, MDS_TOKEN: 'hunter2' };
  const { code, stderr } = await mdsHere(['media', 'get', 'med_1'], { env });
  expect(code).toBe(4);
  expect(stderr).toContain('does not accept the token from MDS_TOKEN');
  expect(stderr).not.toContain('hunter2');
});

it('sends no token for public resources', async () => {
  await using service = await startService();
  await mdsHere(['media', 'list'], { env: { MDS_URL: service.url, MDS_TOKEN: TOKEN } });
  expect(service.headers().authorization).toBeUndefined();
});

it('ends with 3 for a missing resource, and prints the request id', async () => {
  await using service = await startService();
  const { code, stderr } = await mdsHere(['media', 'get', 'med_nope'], {
    env: { MDS_URL: service.url, MDS_TOKEN: TOKEN },
  });
  expect(code).toBe(3);
  expect(stderr).toBe('error: There is no media object med_nope. (media_not_found, request req-1)\n');
});

it('ends with 4 for an insufficient scope, with 1 for other errors', async () => {
  await using service = await startService();
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  service.on('POST', (_, response) => sendProblem(response, 403, 'forbidden', 'The scope operate is needed.'));
  expect(await mdsHere(['media', 'retry', 'med_1'], { env })).toMatchObject({
    code: 4,
    stderr: 'error: The token does not allow this: The scope operate is needed. (forbidden, request req-1)\n',
  });
  service.on('GET /api/v1/status', (_, response) =>
    sendProblem(response, 500, 'internal_error', 'Something went wrong.'),
  );
  expect((await mdsHere(['status'], { env })).code).toBe(1);
});

it("with --json errors are JSON too, with the service's problem document", async () => {
  await using service = await startService();
  const { code, stdout, stderr } = await mdsHere(['media', 'get', 'med_nope', '--json'], {
    env: { MDS_URL: service.url, MDS_TOKEN: TOKEN },
  });
  expect([code, stdout]).toEqual([3, '']);
  expect(JSON.parse(stderr)).toMatchObject({
    error: { exit_code: 3, hints: [], problem: { code: 'media_not_found', status: 404 } },
  });
});
