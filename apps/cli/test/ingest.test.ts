import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { MediaDetail } from '@mds/client';
import { expect, it } from 'vitest';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';
import { change, mediaObject, type ScriptedService, sendProblem, startService, TOKEN } from './scripted-service.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: what it is to find
const CURSOR_UP = /\x1b\[(\d+)F/g;

/** A service, and a folder with `a.jpg`, `sub/b.jpg`, `notes.txt` (refused) and files to skip. */
async function setUp() {
  const service = await startService();
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in/sub'), { recursive: true });
  await mkdir(at('in/.cache'));
  await mkdir(at('empty'));
  await writeFile(at('in/a.jpg'), 'a');
  await writeFile(at('in/sub/b.jpg'), 'bb');
  await writeFile(at('in/notes.txt'), 'text');
  await writeFile(at('in/.hidden.jpg'), 'h');
  await writeFile(at('in/.cache/c.jpg'), 'c');
  await symlink('..', at('in/sub/loop'));
  await symlink('nowhere', at('in/sub/dangling.jpg'));
  return {
    service,
    folder: folder.path,
    ingest: (args: string[], options: Partial<Parameters<typeof mdsHere>[1]> = {}) =>
      mdsHere(['ingest', '--parallel', '1', ...args], {
        cwd: folder.path,
        env: { MDS_URL: service.url, MDS_TOKEN: TOKEN },
        ...options,
      }),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const names = (service: ScriptedService) => service.media.map(({ filename }) => filename).toReversed();

it('walks folders without hidden files and without following links in circles', async () => {
  await using it = await setUp();
  const { code, stdout, stderr } = await it.ingest(['in']);
  expect(names(it.service)).toEqual(['a.jpg', 'b.jpg']);
  const [first, second] = it.service.media.toReversed();
  expect(stdout.split('\n')).toEqual([
    `${first?.id}\tcreated\tqueued\tin/a.jpg\t\t`,
    '\tfailed\t\tin/notes.txt\tThe file is not of an accepted format. (unsupported_format)\t',
    `${second?.id}\tcreated\tqueued\tin/sub/b.jpg\t\t`,
    '',
  ]);
  expect(stderr).toContain('3 files: 2 created, 1 failed\n');
  expect(stderr).toContain('in/notes.txt: The file is not of an accepted format. (unsupported_format)');
  expect(code).toBe(1);
});

it('reports files that already exist; --duplicate=allow makes another media object', async () => {
  await using it = await setUp();
  await it.ingest(['in/a.jpg']);
  const again = await it.ingest(['in/a.jpg']);
  expect(again).toMatchObject({ code: 0, stderr: '1 file: 1 existing\n' });
  expect(again.stdout).toBe(`${it.service.media[0]?.id}\texisting\tqueued\tin/a.jpg\t\t\n`);
  expect((await it.ingest(['in/a.jpg', '--duplicate=allow'])).stdout).toContain('\tcreated\t');
  expect(it.service.media).toHaveLength(2);
});

it('sends a file once if several paths lead to it', async () => {
  await using it = await setUp();
  await it.ingest(['in/sub', 'in/sub/b.jpg', './in/sub/../sub/b.jpg']);
  expect(it.service.requests).toHaveLength(1);
});

it('--wait waits for processing, and fails if a media object fails', async () => {
  await using it = await setUp();
  await writeFile(join(it.folder, 'broken.jpg'), 'x');
  const { code, stdout } = await it.ingest(['--wait', 'in/a.jpg', 'broken.jpg']);
  const [broken, fine] = it.service.media;
  expect(stdout.split('\n')).toEqual([
    `${fine?.id}\tcreated\tready\tin/a.jpg\t\t`,
    `${broken?.id}\tfailed\tfailed\tbroken.jpg\tThe file is damaged. (corrupt_media)\t`,
    '',
  ]);
  expect(code).toBe(1);
});

/** A ready media object with failed renditions and a warning. */
function incomplete(found: MediaDetail | undefined): void {
  if (!found) throw new Error('There should be a media object');
  const [thumb, large] = mediaObject(1).renditions;
  if (!thumb || !large) throw new Error('There should be two renditions');
  const failed = { ...large, state: 'failed' as const, reason: 'It was killed.', bytes: null, files: null };
  // Only an earlier revision of thumb failed, which does not count.
  found.renditions = [
    thumb,
    { ...failed, ...{ name: 'hls', extension: 'm3u8' } },
    failed,
    { ...failed, name: 'thumb' },
  ];
  found.warnings = ['The file ends early.'];
}

it('--wait reports failed renditions and warnings, and ends with 1', async () => {
  await using it = await setUp();
  await it.ingest(['in/a.jpg', 'in/sub/b.jpg']);
  const [b, a] = it.service.media;
  for (const found of [a, b]) Object.assign(found ?? {}, { status: 'ready' });
  incomplete(a);
  const args = ['--wait', 'in/a.jpg', 'in/sub/b.jpg'];
  const ran = await it.ingest(args);
  expect(ran.stdout.split('\n')).toEqual([
    `${a?.id}\texisting\tready\tin/a.jpg\t2 renditions failed: hls.m3u8, large.webp\tThe file ends early.`,
    `${b?.id}\texisting\tready\tin/sub/b.jpg\t\t`,
    '',
  ]);
  expect(ran.stderr).toBe('2 files: 2 existing; 2 renditions of 1 file failed; 1 warning\n');
  expect(ran.code).toBe(1);

  const shown = await it.ingest(args, { terminal: 80 });
  expect(plain(shown.stdout).split('\n')).toEqual([
    expect.stringMatching(/^existing {2}med_\w+ .* ready {3}in\/a\.jpg$/),
    '          2 renditions failed: hls.m3u8, large.webp',
    '          warning: The file ends early.',
    expect.stringMatching(/^existing {2}med_\w+ .* ready {3}in\/sub\/b\.jpg$/),
    '',
  ]);
  expect(plain(shown.stderr)).toContain(`Why renditions failed: mds media get ${a?.id}\n`);
  expect(shown.code).toBe(1);

  const json = await it.ingest(['--json', ...args]);
  expect(JSON.parse(json.stdout.split('\n')[0] ?? '')).toMatchObject({
    outcome: 'existing',
    failed_renditions: ['hls.m3u8', 'large.webp'],
    media: { warnings: ['The file ends early.'] },
  });
  expect(json.stderr).toContain('"message":"Renditions of 1 file of 2 failed."');
  // Without --wait the failures are printed too, but the exit code is 0.
  const unwaited = await it.ingest(['in/a.jpg']);
  expect(unwaited).toMatchObject({ code: 0, stdout: expect.stringContaining('2 renditions failed') });
});

it('--wait waits for renditions of an existing media object that are made again', async () => {
  await using it = await setUp();
  await it.ingest(['in/a.jpg']);
  it.service.hasEvents = true;
  const [found] = it.service.media;
  if (!found) throw new Error('There should be a media object');
  Object.assign(found, { status: 'ready', renditions: mediaObject(1).renditions });
  const [first] = found.renditions;
  if (first) first.state = 'pending';
  const running = it.ingest(['--wait', 'in/a.jpg']);
  await expect.poll(() => it.service.listeners.size).toBe(1);
  if (first) first.state = 'failed';
  await change(it.service, found.id, 'ready');
  expect(await running).toMatchObject({ code: 1, stdout: expect.stringContaining('1 rendition failed: thumb.webp') });
});

it.each([3, 30])('prints one line on a terminal for each of %i failed files', async (count) => {
  await using it = await setUp();
  await mkdir(join(it.folder, 'many'));
  for (let n = 0; n < count; n++) await writeFile(join(it.folder, `many/${n}.txt`), `text ${n}`);
  const { code, stderr } = await it.ingest(['many'], { terminal: 80 });
  expect(code).toBe(1);
  expect(plain(stderr).match(/failed {4}many\/\d+\.txt: The file is not/g)).toHaveLength(count);
});

it('--json prints one object a line', async () => {
  await using it = await setUp();
  const { stdout, stderr } = await it.ingest(['--json', 'in/a.jpg', 'in/notes.txt']);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  expect(lines).toMatchObject([
    { file: 'in/a.jpg', outcome: 'created', media: { id: it.service.media[0]?.id, filename: 'a.jpg' }, error: null },
    { file: 'in/notes.txt', outcome: 'failed', media: null, error: { code: 'unsupported_format' } },
  ]);
  expect(stderr).toContain('{"error":{"message":"1 file of 2 could not be ingested."');
});

it('--quiet prints only results and errors', async () => {
  await using it = await setUp();
  expect(await it.ingest(['-q', 'in/a.jpg'], { terminal: 80 })).toMatchObject({ code: 0, stderr: '' });
});

it('reports missing paths before anything is sent', async () => {
  await using it = await setUp();
  expect(await it.ingest(['in/a.jpg', 'nope.jpg', 'empty'])).toEqual({
    code: 2,
    stdout: '',
    stderr: [
      'error: Some of the paths cannot be ingested; nothing was sent.',
      '  nope.jpg: there is no such file or folder',
      '  empty: this folder has no files',
      '',
    ].join('\n'),
  });
  expect(await it.ingest(['nope.jpg'])).toMatchObject({ stderr: 'error: nope.jpg: there is no such file or folder\n' });
  expect(it.service.requests).toEqual([]);
});

it('a refused token ends the ingest at once, not once for each file', async () => {
  await using it = await setUp();
  const { code, stderr } = await it.ingest(['in'], { env: { MDS_URL: it.service.url, MDS_TOKEN: 'wrong' } });
  expect(code).toBe(4);
  expect(stderr).toContain('3 files: 3 not done\nerror: The service does not accept the token from MDS_TOKEN.');
  expect(it.service.requests).toHaveLength(1);
});

it('a full storage fails the file, with the reason', async () => {
  await using it = await setUp();
  it.service.on('POST', (request, response) => {
    request.resume();
    sendProblem(response, 507, 'insufficient_storage', 'No room is left.');
  });
  const { code, stdout } = await it.ingest(['in/a.jpg']);
  expect([code, stdout]).toEqual([1, '\tfailed\t\tin/a.jpg\tNo room is left. (insufficient_storage)\t\n']);
});

it('--filename names one file, never a path, and never several files', async () => {
  await using it = await setUp();
  await it.ingest(['in/a.jpg', '--filename', '../../etc/passwd']);
  expect(names(it.service)).toEqual(['passwd']);
  expect(await it.ingest(['in', '--filename', 'x'])).toMatchObject({
    code: 2,
    stderr: 'error: --filename needs exactly one file.\n  Name one file, or - alone.\n',
  });
});

it('does not wait for a file to be typed on the terminal', async () => {
  await using it = await setUp();
  expect(await it.ingest(['-'], { terminal: 80 })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Standard input is the terminal'),
  });
});

it('draws progress within the width of the terminal, and removes it at the end', async () => {
  await using it = await setUp();
  await writeFile(join(it.folder, 'big.mp4'), Buffer.alloc(9_000_000));
  it.service.bytesPerSecond = 8_000_000;
  const { stdout, stderr } = await it.ingest(['--wait', 'big.mp4', 'in/a.jpg'], { terminal: 80 });
  const frames = stderr.split('\x1b[J').map(plain);
  expect(frames.some((frame) => /big\.mp4 +━+─+ +\d+% +[\d.]+ [kM]B\/9\.0 MB/.test(frame))).toBe(true);
  expect(frames.some((frame) => /big\.mp4 +processing/.test(frame))).toBe(true);
  expect(frames.some((frame) => frame.includes('0 of 2 files, '))).toBe(true);
  for (const line of frames.join('\n').split('\n')) expect(line.replace(CURSOR_UP, '').length).toBeLessThan(80);
  // Every drawn line was erased again, except the summary.
  const up = [...stderr.matchAll(CURSOR_UP)].reduce((sum, [, rows]) => sum + Number(rows), 0);
  expect(stderr.split('\n').length - 1 - up).toBe(1);
  expect(plain(stdout)).toMatch(
    /^created {3}med_\w{26} +9\.0 MB {2}ready {3}big\.mp4\ncreated {3}med_\w{26} +1 B {2}ready {3}in\/a\.jpg\n$/,
  );
  expect(frames.at(-1)).toBe('2 files: 2 created\n');
});

it('--wait shows a bar for each file in processing, and one line at its end', async () => {
  await using it = await setUp();
  it.service.hasEvents = true;
  await writeFile(join(it.folder, 'clip.mp4'), 'clip');
  const running = it.ingest(['--wait', '--parallel', '2', 'clip.mp4', 'in/a.jpg'], { terminal: 80 });
  await expect.poll(() => it.service.listeners.size).toBe(1);
  await expect.poll(() => it.service.media.length).toBe(2);
  for (const { id } of it.service.media) await change(it.service, id, 'processing', 0.1);
  const [clip, picture] = ['clip.mp4', 'a.jpg'].map((name) =>
    it.service.media.find(({ filename }) => filename === name),
  );
  if (!clip || !picture) throw new Error('Both should be there');
  it.service.sendEvent({ type: 'media.progress', data: { id: clip.id, progress: 0.424 } });
  await new Promise((resolve) => setTimeout(resolve, 400));
  await change(it.service, picture.id, 'ready');
  await new Promise((resolve) => setTimeout(resolve, 200));
  it.service.sendEvent({ type: 'media.progress', data: { id: clip.id, progress: 0.87 } });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await change(it.service, clip.id, 'ready');
  const { code, stdout, stderr } = await running;
  expect(code).toBe(0);
  const frames = plain(stderr).split('\x1b[J');
  expect(frames.some((it) => /clip\.mp4 +━+─+ +42% {2}processing.*\n.*a\.jpg +━+─+ +10% {2}processing/.test(it))).toBe(
    true,
  );
  expect(frames.some((it) => /clip\.mp4 +━+─+ +87% {2}processing/.test(it) && !it.includes('a.jpg'))).toBe(true);
  expect(plain(stdout).split('\n')).toEqual([
    expect.stringMatching(/^created {3}med_\w+ +1 B {2}ready {3}in\/a\.jpg$/),
    expect.stringMatching(/^created {3}med_\w+ +4 B {2}ready {3}clip\.mp4$/),
    '',
  ]);
  // Requested only after events: twice at the start, then after each of two changes.
  const asked = it.service.requests.filter((line) => line === `GET /control/v1/media/${clip.id}`).length;
  expect(asked).toBeLessThanOrEqual(4);
});

it('--wait prints no progress without a terminal, only a line for each file', async () => {
  await using it = await setUp();
  it.service.hasEvents = true;
  const running = it.ingest(['--wait', 'in/a.jpg']);
  await expect.poll(() => it.service.listeners.size).toBe(1);
  const [made] = it.service.media;
  await change(it.service, made?.id ?? '', 'processing', 0.5);
  await change(it.service, made?.id ?? '', 'ready');
  expect(await running).toEqual({
    code: 0,
    stdout: `${made?.id}\tcreated\tready\tin/a.jpg\t\t\n`,
    stderr: '1 file: 1 created\n',
  });
});

it('--wait names the command that explains failed processing, on a terminal', async () => {
  await using it = await setUp();
  await writeFile(join(it.folder, 'broken.jpg'), 'x');
  const { code, stderr } = await it.ingest(['--wait', 'broken.jpg'], { terminal: 80 });
  expect(code).toBe(1);
  expect(plain(stderr)).toContain(`Why processing failed: mds media explain ${it.service.media[0]?.id}\n`);
});

it.each([undefined, 80])('an interrupted --wait reports media still in processing (terminal: %s)', async (terminal) => {
  await using it = await setUp();
  it.service.hasEvents = true;
  const ctrlC = new AbortController();
  const args = ['--wait', '--parallel', '2', 'in/a.jpg', 'in/sub/b.jpg', 'in/notes.txt'];
  const running = it.ingest(args, { interrupt: ctrlC.signal, ...(terminal && { terminal }) });
  await expect.poll(() => it.service.media.length).toBe(2);
  await expect.poll(() => it.service.listeners.size).toBe(1);
  const [a, b] = ['a.jpg', 'b.jpg'].map((name) => it.service.media.find(({ filename }) => filename === name));
  if (!a || !b) throw new Error('Both should be there');
  await change(it.service, a.id, 'processing', 0.5);
  ctrlC.abort();
  const { code, stdout, stderr } = await running;
  expect(code).toBe(130);
  const lines = plain(stdout).split('\n').slice(0, -1).toSorted();
  if (terminal === undefined) {
    expect(lines).toEqual(
      [`${a.id}\tcreated\tprocessing\tin/a.jpg\t\t`, `${b.id}\tcreated\tqueued\tin/sub/b.jpg\t\t`].toSorted(),
    );
  } else {
    expect(lines).toHaveLength(2);
    expect(lines.join('\n')).toMatch(new RegExp(`accepted  ${a.id} +1 B  processing  in/a.jpg`));
    expect(lines.join('\n')).toMatch(new RegExp(`accepted  ${b.id} +2 B  queued  in/sub/b.jpg`));
  }
  const lastFrame = plain(stderr).split('\x1b[J').at(-1);
  expect(lastFrame).toContain('3 files: 2 accepted, still processing; 1 not done\n');
  for (const { id } of [a, b]) expect(lastFrame).toContain(`  Progress: mds media get ${id}\n`);
  expect(lastFrame).toMatch(/\nerror: Interrupted\.\n$/);
});

it('without --wait an accepted file counts as done when the ingest is interrupted', async () => {
  await using it = await setUp();
  it.service.bytesPerSecond = 1_000;
  const ctrlC = new AbortController();
  await writeFile(join(it.folder, 'big.mp4'), Buffer.alloc(200_000));
  const running = it.ingest(['in/a.jpg', 'big.mp4'], { interrupt: ctrlC.signal });
  await expect.poll(() => it.service.requests.length).toBe(2);
  ctrlC.abort();
  expect(await running).toMatchObject({ code: 130, stderr: '2 files: 1 created, 1 not done\nerror: Interrupted.\n' });
});
