import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';
import { sendProblem, startService, TOKEN } from './scripted-service.ts';

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
