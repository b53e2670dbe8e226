import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';
import { mediaObject, sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

/** A service that refuses every URL, and a folder with `in/a.jpg`. */
async function setUp() {
  const service = await startService();
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in'));
  await writeFile(at('in/a.jpg'), 'a');
  return {
    ...{ service, at },
    run: (args: string[], terminal?: number) => {
      const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: at('state') };
      return mdsHere(args, { cwd: folder.path, env, ...(terminal && { terminal }) });
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

it.each([[[]], [['--json']], [['--quiet']]])('no secret of a URL is printed, with %j', async (options) => {
  await using it = await setUp();
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 422, 'source_not_allowed', 'A URL must have no user name and password.');
  });
  const urls = [
    'http://ann:pa55word@example.com/a.jpg',
    'https://example.com/b.jpg?sig=topsecret#frag',
    'HTTPS://ann:pa55word@ex ample/c.jpg?sig=topsecret',
    'ftp://ann:pa55word@example.com/d.jpg?sig=topsecret',
  ];
  for (const terminal of [undefined, 80]) {
    const { code, stdout, stderr } = await it.run([...options, 'ingest', ...urls], terminal);
    expect(code).toBe(1);
    expect(stdout + stderr).not.toMatch(/pa55word|topsecret|frag|ann:/);
    expect(plain(stdout + stderr)).toContain('example.com/a.jpg');
  }
  const wrong = await it.run(['--url', 'http://ann:pa55word@127.0.0.1:1', 'status']);
  expect(wrong.stdout + wrong.stderr).not.toContain('pa55word');
});

it('reports a URL of an unsupported scheme, and ingests the other files', async () => {
  await using it = await setUp();
  const { code, stdout } = await it.run(['ingest', 'file:///etc/passwd', 'ftp://example.com/a.jpg', 'in/a.jpg']);
  expect(code).toBe(1);
  expect(stdout).toContain(
    '\tfailed\t\tfile:///etc/passwd\tThe service fetches http: and https: URLs, but not file: URLs.',
  );
  expect(stdout).toContain(
    '\tfailed\t\tftp://example.com/a.jpg\tThe service fetches http: and https: URLs, but not ftp: URLs',
  );
  expect(stdout).toContain('\tcreated\tqueued\tin/a.jpg');
});

it('reports a moved service once, with advice, and sends no other file', async () => {
  await using it = await setUp();
  for (const name of ['b.jpg', 'c.jpg']) await writeFile(it.at(`in/${name}`), name);
  let asked = 0;
  it.service.on('POST', (request, response) => {
    request.resume();
    asked += 1;
    response.setHeader('Retry-After', '30');
    sendProblem(response, 503, 'deployment_moved', 'The deployment was moved. Go on with the service there.');
  });
  const { code, stderr } = await it.run(['ingest', '--parallel', '1', 'in']);
  expect([code, asked]).toEqual([1, 1]);
  expect(stderr).toContain('error: The deployment was moved. Go on with the service there. (deployment_moved');
  expect(stderr).toContain('  Give the address of the new service with --url or MDS_URL.\n');
  expect(stderr).toContain('mds migrate-to --status');
  expect(stderr).not.toContain('Try again');
  const output = (await it.run(['ingest', '--json', 'in'])).stderr;
  expect(JSON.parse(output)).toMatchObject({ error: { exit_code: 1, problem: { code: 'deployment_moved' } } });
});

it('reports an empty file as empty', async () => {
  await using it = await setUp();
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 422, 'empty_file', 'The body has no bytes. Send the file as the body of the request.');
  });
  await writeFile(it.at('in/a.jpg'), '');
  const { stdout } = await it.run(['ingest', 'in/a.jpg']);
  expect(stdout).toBe('\tfailed\t\tin/a.jpg\tThe file is empty. (empty_file)\t\n');
});

it('with --json standard error holds JSON errors only', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/notes.txt'), 'text');
  const runs = [
    await it.run(['--json', 'ingest', 'in']),
    await it.run(['--json', 'ingest', 'in', '--wait'], 80),
    await it.run(['--json', 'watch', 'in', '--once', '--settle', '0']),
    await it.run(['watch', 'in', '--status', '--json']),
    await it.run(['--json', 'media', 'delete', 'med_nope', 'med_nape', '--yes']),
  ];
  expect(runs.map(({ code }) => code)).toEqual([1, 1, 1, 0, 3]);
  for (const { stderr } of runs) {
    for (const line of stderr.split('\n').slice(0, -1)) {
      expect(JSON.parse(line)).toMatchObject({ error: { message: expect.any(String), exit_code: expect.any(Number) } });
    }
  }
});

it('does not repeat the list of accepted formats for every file', async () => {
  await using it = await setUp();
  const list = 'Accepted formats: images as JPEG, PNG, WebP; audio as MP3.';
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 422, 'unsupported_format', `This looks like plain text, whatever its name is. ${list}`);
  });
  await writeFile(it.at('in/b.txt'), 'b');
  const short = 'This looks like plain text, whatever its name is (see mds formats).';
  const { stdout, stderr } = await it.run(['ingest', 'in']);
  expect((stdout + stderr).match(/Accepted formats/g) ?? []).toHaveLength(0);
  expect((stdout + stderr).split(short)).toHaveLength(5);
  await it.run(['watch', 'in', '--once', '--settle', '0']);
  expect((await it.run(['watch', 'in', '--status'])).stdout).toContain(short);
  // Programs get the complete message.
  expect((await it.run(['--json', 'ingest', 'in'])).stdout).toContain(list);
});

it('prints no pixels in a pipe for media without pixels', async () => {
  await using it = await setUp();
  it.service.media.push(mediaObject(1, { width: 0, height: 0, content_type: 'audio/mpeg' }));
  expect((await it.run(['media', 'list'])).stdout.split('\t')[4]).toBe('');
});

const FETCH = {
  object: 'fetch',
  id: 'fch_01k0c4s6q8y2v4w6x8z0a2c4e6',
  created_at: '2026-01-31T08:15:00Z',
  updated_at: '2026-01-31T08:15:01Z',
  source_url: 'https://example.com/lake.jpg',
  filename: 'lake.jpg',
  status: 'fetching',
  received_bytes: 1_000_000,
  total_bytes: 4_000_000,
  attempts: 1,
  media_id: null,
  created: null,
  error: null,
};

it('names a fetch that the service continues after the connection broke', async () => {
  await using it = await setUp();
  it.service.on('POST /control/v1/media', (request, response) => {
    request.resume();
    sendJson(response, 202, FETCH);
  });
  // The service goes away once the fetch has started.
  it.service.on('GET /control/v1/fetches', async () => {
    await it.service[Symbol.asyncDispose]();
  });
  const message = `https://example.com/lake.jpg: the service continues to fetch it: mds fetches get ${FETCH.id}`;
  const { code, stderr } = await it.run(['ingest', 'https://example.com/lake.jpg?sig=topsecret']);
  expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
});

it('mds fetches lists, shows and cancels', async () => {
  await using it = await setUp();
  it.service.on('GET /control/v1/fetches?', (_, response) =>
    sendJson(response, 200, { object: 'list', data: [FETCH], next_cursor: null }),
  );
  it.service.on(`GET /control/v1/fetches/${FETCH.id}`, (_, response) => sendJson(response, 200, FETCH));
  it.service.on(`DELETE /control/v1/fetches/${FETCH.id}`, (_, response) =>
    sendJson(response, 200, { ...FETCH, status: 'canceled' }),
  );
  expect((await it.run(['fetches', 'list', '--status', 'fetching'])).stdout).toBe(
    `${FETCH.id}\tfetching\t1000000\t4000000\t${FETCH.created_at}\t${FETCH.source_url}\t\t\n`,
  );
  expect(it.service.requests.at(-1)).toContain('status=fetching');
  expect(plain((await it.run(['fetches'], 120)).stdout)).toMatch(/^ID .*\nfch_\w+ {2}fetching +25% .*lake\.jpg\n$/);
  expect(JSON.parse((await it.run(['--json', 'fetches'])).stdout)).toEqual({
    ...{ object: 'list', data: [FETCH], next_cursor: null },
  });
  expect((await it.run(['fetches', 'get', FETCH.id])).stdout).toContain('received_bytes\t1000000\n');
  expect(plain((await it.run(['fetches', 'get', FETCH.id], 80)).stdout)).toContain('1.0 MB of 4.0 MB');
  expect((await it.run(['fetches', 'cancel', FETCH.id])).stdout).toBe(`${FETCH.id}\tcanceled\n`);
});
