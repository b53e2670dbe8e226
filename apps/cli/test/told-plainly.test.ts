import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';
import { medium, sendProblem, startService, TOKEN } from './scripted-service.ts';

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

it.each([[[]], [['--json']], [['--quiet']]])('secrets of a URL are shown nowhere, with %j', async (options) => {
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

it('a URL of a kind that is not fetched from is told as what it is, and the others are done', async () => {
  await using it = await setUp();
  const { code, stdout } = await it.run(['ingest', 'file:///etc/passwd', 'ftp://example.com/a.jpg', 'in/a.jpg']);
  expect(code).toBe(1);
  expect(stdout).toContain('\tfailed\t\tfile:///etc/passwd\tNothing is fetched from file: URLs; http: and https: are.');
  expect(stdout).toContain('\tfailed\t\tftp://example.com/a.jpg\tNothing is fetched from ftp: URLs');
  expect(stdout).toContain('\tcreated\tqueued\tin/a.jpg');
});

it('an empty file is called empty', async () => {
  await using it = await setUp();
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 422, 'empty_file', 'The body has no bytes. Send the file as the body of the request.');
  });
  await writeFile(it.at('in/a.jpg'), '');
  const { stdout } = await it.run(['ingest', 'in/a.jpg']);
  expect(stdout).toBe('\tfailed\t\tin/a.jpg\tThe file is empty. (empty_file)\t\n');
});

it('with --json standard error has errors as JSON alone', async () => {
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

it('the list of accepted formats is not said again for every file', async () => {
  await using it = await setUp();
  const list = 'Accepted are pictures as JPEG, PNG, WebP; sounds as MP3.';
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 422, 'unsupported_format', `This looks like plain text, whatever its name says. ${list}`);
  });
  await writeFile(it.at('in/b.txt'), 'b');
  const short = 'This looks like plain text, whatever its name says (see mds formats).';
  const { stdout, stderr } = await it.run(['ingest', 'in']);
  expect((stdout + stderr).match(/Accepted are/g) ?? []).toHaveLength(0);
  expect((stdout + stderr).split(short)).toHaveLength(5);
  await it.run(['watch', 'in', '--once', '--settle', '0']);
  expect((await it.run(['watch', 'in', '--status'])).stdout).toContain(short);
  // Whole for programs.
  expect((await it.run(['--json', 'ingest', 'in'])).stdout).toContain(list);
});

it('what has no pixels has none in a pipe either', async () => {
  await using it = await setUp();
  it.service.media.push(medium(1, { width: 0, height: 0, content_type: 'audio/mpeg' }));
  expect((await it.run(['media', 'list'])).stdout.split('\t')[4]).toBe('');
});
