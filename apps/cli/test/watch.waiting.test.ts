import { appendFileSync } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mdsHere, plain, type Ran, temporaryFolder } from './run-cli.ts';
import { mediaObject, type ScriptedService, sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

/** The limit for events that will happen on any machine. */
const SOON = { timeout: 40_000 };
/** So long that a program which waits for this time would be noticed. */
const NEVER_SETTLES = ['--settle', '3600'];

/** A service, and an empty folder `in` to watch. */
async function setUp() {
  const service = await startService();
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in'));
  const watches: { stop(): Promise<Ran> }[] = [];
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: at('state') };
  return {
    ...{ service, at },
    /** Runs the watch to its end. */
    run: (args: string[]) => mdsHere(['watch', 'in', '--settle', '0.2', ...args], { cwd: folder.path, env }),
    /** Starts a watch, which runs until it is stopped, at the latest at the end of the test. */
    watch(args: string[] = []): { stop(): Promise<Ran>; running: Promise<Ran> } {
      const ctrlC = new AbortController();
      const running = mdsHere(['watch', 'in', '--settle', '0.3', ...args], {
        ...{ cwd: folder.path, env, interrupt: ctrlC.signal },
      });
      const watch = {
        running,
        stop() {
          ctrlC.abort();
          return running;
        },
      };
      watches.push(watch);
      return watch;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(watches.map((watch) => watch.stop()));
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const names = (service: ScriptedService) => service.media.map(({ filename }) => filename).toSorted();

it('--once ingests files in all subfolders, and records them for the next run', async () => {
  await using it = await setUp();
  await mkdir(it.at('in/2026/new\nline'), { recursive: true });
  await mkdir(it.at('in/.hidden'));
  await writeFile(it.at('in/a.jpg'), 'a');
  await writeFile(it.at('in/2026/new\nline/b\u202e.jpg'), 'b');
  await writeFile(it.at('in/.hidden/c.jpg'), 'c');
  await writeFile(it.at('in/half.jpg.part'), 'h');
  const first = await it.run(['--once']);
  expect(first).toMatchObject({ code: 0, stderr: '2 files: 2 created\n' });
  expect(first.stdout).toContain('\tcreated\tqueued\tin/2026/new\\nline/b\\u202e.jpg\t\t\n');
  expect(await it.run(['--once'])).toEqual({ code: 0, stdout: '', stderr: '0 files\n' });
  expect(it.service.requests.filter((line) => line.startsWith('POST'))).toHaveLength(2);
});

it('sends a growing file once, complete, when it stops changing', async () => {
  await using it = await setUp();
  it.watch();
  await writeFile(it.at('in/scan.jpg'), 'begin');
  // Changes faster than the file can settle, for longer than settling takes.
  for (let n = 0; n < 20; n++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    appendFileSync(it.at('in/scan.jpg'), '.');
  }
  expect(it.service.media).toHaveLength(0);
  await expect.poll(() => names(it.service), SOON).toEqual(['scan.jpg']);
  expect(it.service.media[0]?.bytes).toBe(25);
  expect(it.service.requests.filter((line) => line.startsWith('POST'))).toHaveLength(1);
});

it('sends a file under its new name as soon as it loses its temporary name', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/download.jpg.crdownload'), 'd');
  await writeFile(it.at('in/~office.jpg'), 'o');
  it.watch(NEVER_SETTLES);
  let copies = 0;
  // The watch recognises a file by its inode if it saw it under a temporary name.
  await expect
    .poll(
      async () => {
        const name = `copy-${++copies}.jpg`;
        await writeFile(it.at(`in/.${name}.XYZ`), name);
        await new Promise((resolve) => setTimeout(resolve, 300));
        await rename(it.at(`in/.${name}.XYZ`), it.at(`in/${name}`));
        return it.service.media.length;
      },
      { ...SOON, interval: 200 },
    )
    .toBeGreaterThan(0);
  await rename(it.at('in/download.jpg.crdownload'), it.at('in/download.jpg'));
  await rename(it.at('in/~office.jpg'), it.at('in/office.jpg'));
  await expect.poll(() => names(it.service), SOON).toEqual(expect.arrayContaining(['download.jpg', 'office.jpg']));
  expect(names(it.service).filter((name) => /crdownload|~|XYZ/.test(String(name)))).toEqual([]);
});

it('watches a new folder, and ingests the files that were already put into it', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/first.jpg'), '1');
  // Much sooner than the next full scan.
  const soon = { timeout: 20_000 };
  it.watch();
  await expect.poll(() => names(it.service), SOON).toEqual(['first.jpg']);
  await mkdir(it.at('made/deep'), { recursive: true });
  await writeFile(it.at('made/deep/inside.jpg'), 'inside');
  await rename(it.at('made'), it.at('in/made'));
  await expect.poll(() => names(it.service), soon).toContain('inside.jpg');
  await writeFile(it.at('in/made/deep/later.jpg'), 'later');
  await expect.poll(() => names(it.service), soon).toEqual(['first.jpg', 'inside.jpg', 'later.jpg']);
});

it('sends a replaced file as another file', async () => {
  await using it = await setUp();
  it.watch();
  await writeFile(it.at('in/scan.jpg'), 'one');
  await expect.poll(() => it.service.media.length, SOON).toBe(1);
  await writeFile(it.at('new.jpg'), 'two');
  await rename(it.at('new.jpg'), it.at('in/scan.jpg'));
  await expect.poll(() => it.service.media.length, SOON).toBe(2);
  expect(it.service.media.map(({ bytes }) => bytes)).toEqual([3, 3]);
});

it('follows links to files, not in circles, and never moves or deletes a link', async () => {
  await using it = await setUp();
  await writeFile(it.at('original.jpg'), 'original');
  await symlink('../original.jpg', it.at('in/linked.jpg'));
  await symlink('..', it.at('in/loop'));
  await symlink('nowhere', it.at('in/dangling.jpg'));
  expect(await it.run(['--once', '--done', 'delete'])).toMatchObject({ code: 0, stderr: '1 file: 1 created\n' });
  expect(await readFile(it.at('original.jpg'), 'utf8')).toBe('original');
  expect((await readdir(it.at('in'))).toSorted()).toEqual(['dangling.jpg', 'linked.jpg', 'loop']);
  expect(await it.run(['--once', '--done', 'delete'])).toMatchObject({ code: 0, stderr: '0 files\n' });
});

it('reports a refused file once, keeps it, and sends it again when it changes', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/notes.txt'), 'text');
  const refused = await it.run(['--once']);
  expect(refused.code).toBe(1);
  expect(refused.stdout).toBe(
    '\tfailed\t\tin/notes.txt\tThe file is not of an accepted format. (unsupported_format)\t\n',
  );
  expect(await it.run(['--once'])).toMatchObject({ code: 0, stdout: '', stderr: '0 files\n' });
  const status = await it.run(['--status']);
  expect(status.stdout).toMatch(/^unsupported_format\t\S+Z\tnotes\.txt\tThe file is not of an accepted format\.\n$/);
  expect(JSON.parse((await it.run(['--status', '--json'])).stdout)).toMatchObject({
    accepted: 0,
    refused: [{ file: 'notes.txt', bytes: 4, code: 'unsupported_format' }],
  });
  await appendFile(it.at('in/notes.txt'), ' and more');
  expect(await it.run(['--once'])).toMatchObject({ code: 1, stderr: expect.stringContaining('1 file: 1 failed') });
});

it('--done move keeps subfolders, overwrites nothing; --done delete deletes', async () => {
  await using it = await setUp();
  await mkdir(it.at('in/sub'));
  await writeFile(it.at('in/sub/a.jpg'), 'one');
  await writeFile(it.at('in/notes.txt'), 'refused');
  const args = ['--once', '--done', 'move', '--done-dir', 'in/done'];
  await it.run(args);
  await writeFile(it.at('in/sub/a.jpg'), 'two');
  await it.run(args);
  expect((await readdir(it.at('in/done/sub'))).toSorted()).toEqual(['a-2.jpg', 'a.jpg']);
  expect(await readFile(it.at('in/done/sub/a.jpg'), 'utf8')).toBe('one');
  expect(await readFile(it.at('in/done/sub/a-2.jpg'), 'utf8')).toBe('two');
  expect(it.service.media).toHaveLength(2);
  // Duplicates count as ingested too. Refused files stay.
  await writeFile(it.at('in/sub/b.jpg'), 'two');
  await rm(it.at('in/done'), { recursive: true });
  expect((await it.run(['--once', '--done', 'delete'])).stdout).toContain('\texisting\t');
  expect(await readdir(it.at('in/sub'))).toEqual([]);
  expect(await readdir(it.at('in'))).toContain('notes.txt');
});

it('--done delete never deletes a file that replaced the sent one', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/scan.jpg'), 'one');
  let left: string | null = null;
  it.service.on('POST', async (request, response) => {
    for await (const _ of request);
    if (posts() === 1) {
      await writeFile(it.at('other.jpg'), 'another');
      await rename(it.at('other.jpg'), it.at('in/scan.jpg'));
    } else left = await readFile(it.at('in/scan.jpg'), 'utf8').catch(() => null);
    sendJson(response, 201, mediaObject(it.service.requests.length));
  });
  const posts = () => it.service.requests.filter((line) => line.startsWith('POST')).length;
  const watch = it.watch(['--done', 'delete']);
  // The new file stays until it is sent itself; then it is deleted.
  await expect.poll(posts, SOON).toBe(2);
  await expect.poll(() => left, SOON).toBe('another');
  await expect.poll(() => readdir(it.at('in')), SOON).toEqual([]);
  await watch.stop();
});

it('restores the name of a file that a killed watch had hidden', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/.scan.jpg.0a1b2c3d.mds-aside'), 'one');
  await writeFile(it.at('in/scan.jpg'), 'two');
  await it.run(['--once']);
  expect(await readFile(it.at('in/scan.jpg'), 'utf8')).toBe('two');
  expect(await readFile(it.at('in/scan-2.jpg'), 'utf8')).toBe('one');
  expect(names(it.service)).toEqual(['scan-2.jpg', 'scan.jpg']);
});

it('sends a file again, instead of deleting it, if the service no longer has it', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  await writeFile(it.at('in/b.jpg'), 'b');
  await it.run(['--once']);
  it.service.media.splice(
    it.service.media.findIndex(({ filename }) => filename === 'a.jpg'),
    1,
  );
  expect((await it.run(['--once', '--done', 'delete'])).stdout).toContain('\tcreated\tqueued\tin/a.jpg');
  expect(names(it.service)).toEqual(['a.jpg', 'b.jpg']);
  expect(await readdir(it.at('in'))).toEqual([]);
});

it('sends all files again if the service has none of the recorded media', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  await it.run(['--once']);
  it.service.media.length = 0;
  const again = await it.run(['--once']);
  expect(again.stderr).toContain(
    'The service has none of the files that were ingested before; all files are sent again.',
  );
  expect(names(it.service)).toEqual(['a.jpg']);
});

/** The number of files that the journal records as accepted. */
async function acceptedBy({ at }: Awaited<ReturnType<typeof setUp>>): Promise<number> {
  const file = (await readdir(at('state/mds'))).find((name) => name.endsWith('.jsonl'));
  return (await readFile(at(`state/mds/${file}`), 'utf8')).match(/"accepted"/g)?.length ?? 0;
}

it('waits while the service is away, reports it once, and continues', async () => {
  await using it = await setUp();
  let away = true;
  let refusals = 0;
  it.service.on('POST', async (request, response) => {
    for await (const _ of request);
    if (away) {
      refusals++;
      return sendProblem(response, 507, 'insufficient_storage', 'No room is left.');
    }
    sendJson(response, 201, mediaObject(it.service.requests.length));
  });
  const watch = it.watch();
  for (const name of ['a', 'b', 'c', 'd']) await writeFile(it.at(`in/${name}.jpg`), name);
  await expect.poll(() => refusals, SOON).toBeGreaterThan(5);
  away = false;
  await expect.poll(() => acceptedBy(it), SOON).toBe(4);
  await watch.stop();
  const { code, stderr } = await watch.running;
  expect(code).toBe(0);
  expect(stderr.match(/The service cannot accept files: No room is left\. Waiting for it\./g)).toHaveLength(1);
  expect(stderr.match(/The service accepts files again, after/g)).toHaveLength(1);
  expect(stderr).toContain('4 files: 4 created\n');
});

it('a token that is refused later ends it with 4', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch();
  await expect.poll(() => it.service.media.length, SOON).toBe(1);
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 401, 'unauthorized', 'A valid token is needed.');
  });
  await writeFile(it.at('in/b.jpg'), 'b');
  const { code, stderr } = await watch.running;
  expect(code).toBe(4);
  expect(stderr).toContain('error: The service does not accept the token from MDS_TOKEN.');
});

it('waits for a missing folder, as of an unmounted share, and sends nothing twice', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch(['--poll', '0.2']);
  await expect.poll(() => names(it.service), SOON).toEqual(['a.jpg']);
  await rename(it.at('in'), it.at('away'));
  await writeFile(it.at('away/b.jpg'), 'b');
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await rename(it.at('away'), it.at('in'));
  await expect.poll(() => names(it.service), SOON).toEqual(['a.jpg', 'b.jpg']);
  const { stderr } = await watch.stop();
  expect(stderr.match(/in: there is no such file or folder\. Waiting for it\./g)).toHaveLength(1);
  expect(stderr.match(/in is back\./g)).toHaveLength(1);
  expect(it.service.requests.filter((line) => line.startsWith('POST'))).toHaveLength(2);
});

it('--poll works without file events', async () => {
  await using it = await setUp();
  it.watch(['--poll', '0.2']);
  await mkdir(it.at('in/sub'));
  await writeFile(it.at('in/sub/a.jpg'), 'a');
  await expect.poll(() => names(it.service), SOON).toEqual(['a.jpg']);
});

it('reports an unreadable file once, and ingests the others', async () => {
  await using it = await setUp();
  // A name that is not UTF-8, as in old archives, cannot be opened.
  await writeFile(Buffer.concat([Buffer.from(it.at('in/h')), Buffer.from([0xe4]), Buffer.from('user.jpg')]), 'x');
  await writeFile(it.at('in/a.jpg'), 'a');
  const watch = it.watch(['--poll', '0.1']);
  await expect.poll(() => names(it.service), SOON).toEqual(['a.jpg']);
  await new Promise((resolve) => setTimeout(resolve, 500));
  await watch.stop();
  const { stdout } = await watch.running;
  expect(stdout.match(/its name is not valid UTF-8; rename it\. \(file_unreadable\)/g)).toHaveLength(1);
});

it('Ctrl-C ends it with 0, after the running transfers', async () => {
  await using it = await setUp();
  it.service.bytesPerSecond = 2_000_000;
  await writeFile(it.at('in/big.jpg'), Buffer.alloc(2_000_000));
  const watch = it.watch();
  await expect.poll(() => it.service.requests.length, SOON).toBe(1);
  await watch.stop();
  expect(await watch.running).toMatchObject({ code: 0, stderr: '1 file: 1 created\n' });
});

it('a second watch of the same folder names the first', async () => {
  await using it = await setUp();
  it.watch();
  await expect
    .poll(() => readdir(it.at('state/mds')).catch(() => []), SOON)
    .toContainEqual(expect.stringMatching(/lock$/));
  const second = await it.run(['--once']);
  expect(second.code).toBe(1);
  expect(second.stderr).toContain(`Another mds uses this journal: process ${process.pid} on`);
});

it('--json prints one object a line; a terminal shows the progress', async () => {
  await using it = await setUp();
  await writeFile(it.at('in/a.jpg'), 'a');
  const { stdout } = await it.run(['--once', '--json']);
  expect(JSON.parse(stdout)).toMatchObject({ file: 'in/a.jpg', outcome: 'created', media_id: it.service.media[0]?.id });
  const env = { MDS_URL: it.service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: it.at('state') };
  await writeFile(it.at('in/b.jpg'), 'b');
  const shown = await mdsHere(['watch', 'in', '--once', '--settle', '0.5'], { cwd: it.at('.'), env, terminal: 80 });
  expect(plain(shown.stderr)).toContain('watching in: 1 settling');
  expect(plain(shown.stdout)).toMatch(/^created {3}med_\w+ +1 B {2}queued {2}in\/b\.jpg\n$/);
});

it.each([
  [['nowhere'], 'nowhere: there is no such file or folder'],
  [['in', '--done', 'move'], '--done move needs a destination: --done-dir DIR.'],
  [['in', '--done-dir', 'x'], '--done-dir has an effect with --done move only'],
  [['in/sub', '--done', 'move', '--done-dir', 'in'], 'nor a folder that contains it'],
  [['in', '--done', 'move', '--done-dir', 'in'], '--done-dir must be neither the watched folder'],
  [['in', '--settle', 'long'], 'a number of seconds from 0 to 3600'],
  [['in', '--poll', '0'], 'a number of seconds from 0.1 to 3600'],
])('%j is wrong usage', async (args, message) => {
  await using it = await setUp();
  await mkdir(it.at('in/sub'));
  const env = { MDS_URL: it.service.url, MDS_TOKEN: TOKEN, HOME: it.at('home') };
  const { code, stderr } = await mdsHere(['watch', ...args], { cwd: it.at('.'), env });
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});

it('explains how to name a journal if it has no default place', async () => {
  await using it = await setUp();
  const { code, stderr } = await mdsHere(['watch', 'in'], {
    cwd: it.at('.'),
    env: { MDS_URL: it.service.url, MDS_TOKEN: TOKEN },
  });
  expect(code).toBe(2);
  expect(stderr).toContain('Name a file with --journal, or set XDG_STATE_HOME or HOME.');
});
