import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { MediaDetail, MediaRendition } from '@mds/client';
import { expect, it } from 'vitest';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';
import { change, mediaObject, sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: what it is to find
const CURSOR_UP = /\x1b\[(\d+)F/g;

async function setUp(count = 3) {
  const service = await startService();
  const folder = await temporaryFolder();
  for (let n = 1; n <= count; n++) service.media.push(mediaObject(n));
  return {
    service,
    folder: folder.path,
    media: (args: string[], options: Partial<Parameters<typeof mdsHere>[1]> = {}) =>
      mdsHere(['media', ...args], { cwd: folder.path, env: { MDS_URL: service.url, MDS_TOKEN: TOKEN }, ...options }),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const id = mediaObject(1).id;

it('list reads as many pages as its limit needs, and no more', async () => {
  await using it = await setUp(250);
  const { stdout } = await it.media(['list', '--limit', '130']);
  expect(stdout.trim().split('\n')).toHaveLength(130);
  expect(it.service.requests).toEqual(['GET /api/v1/media?limit=100', 'GET /api/v1/media?limit=30&cursor=100']);
  const all = await it.media(['list', '--all', '--json']);
  const json = JSON.parse(all.stdout) as { object: string; data: unknown[]; next_cursor: unknown };
  expect([json.object, json.data.length, json.next_cursor]).toEqual(['list', 250, null]);
});

it("list --json prints the API's envelope, and its cursor continues after the list", async () => {
  await using it = await setUp(5);
  const first = JSON.parse((await it.media(['list', '--limit', '2', '--json'])).stdout) as {
    next_cursor: string;
    data: object[];
  };
  expect(Object.keys(first)).toEqual(['object', 'data', 'next_cursor']);
  expect(Object.keys(first.data[0] ?? {})).toEqual([
    'id',
    'created_at',
    'content_type',
    'bytes',
    'width',
    'height',
    'status',
  ]);
  const rest = await it.media(['list', '--cursor', first.next_cursor]);
  expect(rest.stdout.split('\n').map((line) => line.slice(-27, -23) && line.slice(0, 30))).toEqual([
    mediaObject(3).id,
    mediaObject(4).id,
    mediaObject(5).id,
    '',
  ]);
});

it.each([80, 120, 40])('list fits a terminal of %i columns and never shortens ids', async (terminal) => {
  await using it = await setUp(3);
  Object.assign(it.service.media[1] ?? {}, {
    content_type: 'application/vnd.apple.mpegurl',
    filename: '日本語のとても長いファイル名前でテーブルを壊す写真.jpg',
  });
  for (const args of [['list'], ['list', '--detail']]) {
    const lines = plain((await it.media(args, { terminal })).stdout)
      .trimEnd()
      .split('\n');
    expect(lines[0]).toMatch(/^ID {30}STATUS/);
    for (const n of [1, 2, 3]) expect(lines[n]?.startsWith(mediaObject(n).id)).toBe(true);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(Math.max(terminal, 50));
  }
});

it('list reports on a terminal that there are more media, or none; not in a pipe', async () => {
  await using it = await setUp(3);
  expect((await it.media(['list', '--limit', '2'], { terminal: 80 })).stderr).toContain('for more: --limit');
  expect((await it.media(['list', '--limit', '2'])).stderr).toBe('');
  it.service.media.length = 0;
  expect(await it.media(['list'], { terminal: 80 })).toEqual({
    code: 0,
    stdout: '',
    stderr: 'No media. Upload some with mds ingest.\n',
  });
  expect(await it.media(['list'])).toEqual({ code: 0, stdout: '', stderr: '' });
});

it('escapes outside characters that move the cursor, set a title or reorder text', async () => {
  await using it = await setUp(1);
  const evil = '\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\r\n\x1b[31mred';
  Object.assign(it.service.media[0] ?? {}, {
    filename: evil,
    status: 'failed',
    error: { code: 'corrupt_media', message: evil, retryable: true },
    warnings: [evil],
  });
  const outputs = [
    await it.media(['list', '--detail'], { terminal: 200 }),
    await it.media(['get', id], { terminal: 200 }),
    await it.media(['get', id]),
    await it.media(['get', id, '--json'], { terminal: 200 }),
    await it.media(['delete', id], { terminal: 200, stdin: 'n\n' }),
    await mdsHere(['api', `/control/v1/media/${id}`], {
      terminal: 200,
      env: { MDS_URL: it.service.url, MDS_TOKEN: TOKEN },
    }),
  ];
  for (const { stdout, stderr } of outputs) {
    expect(stdout + stderr).toContain('owned');
    expect(plain(stdout + stderr).replace(/[\n\t]/g, '')).not.toMatch(/[\p{Cc}\u202e]/u);
  }
  // Not even colours from outside.
  expect(outputs[0]?.stdout).not.toContain('\x1b[31mred');
  expect(JSON.parse(outputs[3]?.stdout ?? '')).toMatchObject({ filename: evil });
});

it('get shows all properties and every rendition', async () => {
  await using it = await setUp(1);
  const text = plain((await it.media(['get', id], { terminal: 100 })).stdout);
  expect(text).toMatch(/^file +photo-1\.jpg$/m);
  expect(text).toMatch(/^type +image\/jpeg, 2\.4 MB, 4032x3024$/m);
  expect(text).toMatch(/^thumb\.webp +ready +3\.2 kB +320x240 +\/media\/.*\/thumb\.webp$/m);
  const lines = (await it.media(['get', id])).stdout.split('\n');
  expect(lines).toContain('bytes\t2400000');
  expect(lines).toContain(`rendition\tthumb.webp\tready\t3200\t320x240\t/media/${id}/thumb.webp\t1`);
  expect(JSON.parse((await it.media(['get', id, '--json'])).stdout)).toEqual(it.service.media[0]);
});

it('get never shortens URLs, and shows the reasons for missing renditions', async () => {
  await using it = await setUp(1);
  const [found] = it.service.media;
  const [thumb, large] = found?.renditions ?? [];
  if (!found || !thumb || !large) throw new Error('There should be two renditions');
  thumb.url = `https://media.example.com/media/${id}/thumb.webp`;
  large.url = `https://media.example.com/media/${id}/large.webp`;
  const get = async (terminal: number) => plain((await it.media(['get', id], { terminal })).stdout);
  expect(await get(120)).toContain(`  ${large.url}\n`);
  const narrow = await get(100);
  expect(narrow).not.toMatch(/ADDRESS|https:|\u2026/);
  expect(narrow).toContain(`\n\nAddresses: mds media url ${id}\n`);
  Object.assign(thumb, { state: 'failed', reason: 'The program was killed: it took more than 600 s.', bytes: null });
  expect(await get(120)).toMatch(
    /STATE .* ADDRESS OR REASON\n.* failed .* The program was killed: it took more than 600 s\.\n/,
  );
  for (const terminal of [100, 60]) {
    const text = await get(terminal);
    expect(text).toMatch(/STATE .* REASON\n.* failed .* The program was/);
    expect(text).toContain(`Full reasons: mds media explain ${id}\n`);
  }
});

it('url prints the URL of an existing rendition, or of all of them', async () => {
  await using it = await setUp(1);
  const base = `${it.service.url}/media/${id}`;
  expect((await it.media(['url', id, 'large', '--ext', 'webp'])).stdout).toBe(`${base}/large.webp\n`);
  expect((await it.media(['url', id, 'large'])).stdout).toBe(`${base}/large\n`);
  expect(JSON.parse((await it.media(['url', id, 'large', '--json'])).stdout)).toEqual({ url: `${base}/large` });
  expect((await it.media(['url', id])).stdout).toBe(`thumb.webp\t${base}/thumb.webp\nlarge.webp\t${base}/large.webp\n`);
  expect((await it.media(['url', id, '--srcset'])).stdout).toBe(`${base}/thumb.webp 320w, ${base}/large.webp 2048w\n`);
});

it.each([
  [['nope'], 'nope'],
  [['large', '--ext', 'avif'], 'large.avif'],
  [['hls'], 'hls'],
])('url %j prints no dead URL, and lists the existing renditions', async (args, asked) => {
  await using it = await setUp(1);
  const [, large] = it.service.media[0]?.renditions ?? [];
  if (large) it.service.media[0]?.renditions.push({ ...large, name: 'hls', extension: 'm3u8', state: 'failed' });
  expect(await it.media(['url', id, ...args])).toEqual({
    code: 3,
    stdout: '',
    stderr: `error: ${id} has no ${asked} that is ready.\n  There are thumb.webp, large.webp.\n`,
  });
});

it('url prints earlier revisions, and ready renditions of media being processed', async () => {
  await using it = await setUp(1);
  const base = `${it.service.url}/media/${id}`;
  const url = (revision: string) => it.media(['url', id, 'large', '--ext', 'webp', '--revision', revision]);
  expect((await url('0a1b2c3d')).stdout).toBe(`${base}/large.0a1b2c3d.webp\n`);
  expect(it.service.requests).toEqual([`GET /media/${id}/manifest.json`]);
  expect(await url('ffffffff')).toMatchObject({ code: 3, stdout: '' });
  it.service.on(`GET /media/${id}/large.ffffffff.webp`, (_, response) => void response.writeHead(206).end('x'));
  expect((await url('ffffffff')).stdout).toBe(`${base}/large.ffffffff.webp\n`);
  it.service.on(`GET /media/${id}/manifest.json`, (_, response) => {
    sendProblem(response, 404, 'rendition_not_ready', 'It is still processed.');
  });
  expect((await it.media(['url', id, 'thumb', '--ext', 'webp'])).stdout).toBe(`${base}/thumb.webp\n`);
  expect(await it.media(['url', id, 'poster', '--ext', 'webp'])).toMatchObject({ code: 3, stdout: '' });
});

it('url of a rendition that is not an image names its only format', async () => {
  await using it = await setUp(0);
  it.service.media.push(video({ renditions: [rendition('film', 'mp4', 'video/mp4')] }));
  expect((await it.media(['url', id, 'film'])).stdout).toBe(`${it.service.url}/media/${id}/film.mp4\n`);
});

it('download writes a complete file, and never overwrites an existing one', async () => {
  await using it = await setUp(1);
  expect(await it.media(['download', id])).toMatchObject({ code: 0, stdout: `${id}-large.webp\n` });
  expect(await it.media(['download', id, 'thumb', '-o', 't.webp'])).toMatchObject({ code: 0, stdout: 't.webp\n' });
  expect((await readFile(join(it.folder, 't.webp'))).equals(Buffer.alloc(3200, 7))).toBe(true);
  await writeFile(join(it.folder, 't.webp'), 'mine');
  expect(await it.media(['download', id, 'thumb', '-o', 't.webp'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--force'),
  });
  expect(await readFile(join(it.folder, 't.webp'), 'utf8')).toBe('mine');
  expect((await it.media(['download', id, 'thumb', '-o', 't.webp', '--force'])).code).toBe(0);
  expect((await readdir(it.folder)).toSorted()).toEqual([`${id}-large.webp`, 't.webp']);
});

it('download reports where it cannot write, without its temporary file name', async () => {
  await using it = await setUp(1);
  const { code, stderr } = await it.media(['download', id, 'thumb', '-o', 'nowhere/t.webp']);
  expect(code).toBe(1);
  expect(stderr).toContain('nowhere/t.webp: there is no such file or folder.');
  expect(stderr).not.toMatch(/partial|ENOENT/);
});

it('download leaves nothing behind if it breaks', async () => {
  await using it = await setUp(1);
  it.service.on(`GET /media/${id}/thumb`, (request, response) => {
    response.writeHead(200, { 'content-length': '3200' });
    response.write(Buffer.alloc(100), () => setTimeout(() => request.socket.destroy(), 50));
  });
  const { code, stderr } = await it.media(['download', id, 'thumb']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: .+/);
  expect(await readdir(it.folder)).toEqual([]);
});

it('download writes to standard output, but no binary data to a terminal', async () => {
  await using it = await setUp(1);
  const { stdout } = await it.media(['download', id, 'thumb', '-o', '-']);
  expect(stdout).toBe('\x07'.repeat(3200));
  expect(await it.media(['download', id, 'thumb', '-o', '-'], { terminal: 80 })).toMatchObject({ code: 2, stdout: '' });
});

it('download lists the existing renditions if the named one is missing', async () => {
  await using it = await setUp(1);
  const { code, stderr } = await it.media(['download', id, 'thumb', '--ext', 'avif']);
  expect(code).toBe(3);
  expect(stderr).toContain(`${id} has no thumb.avif that is ready.\n  There are thumb.webp, large.webp.`);
});

it.each([
  ['y\n', 0, 2],
  ['yes\n', 0, 2],
  ['n\n', 1, 3],
  ['\n', 1, 3],
  ['', 1, 3],
])('delete asks on a terminal; the answer %j ends with code %i', async (stdin, code, left) => {
  await using it = await setUp(3);
  const ran = await it.media(['delete', id], { terminal: 80, stdin });
  expect(ran.code).toBe(code);
  expect(ran.stderr).toContain(
    `${id}  photo-1.jpg  image/jpeg, 2.4 MB\nDelete 1 media object with all renditions? [y/N] `,
  );
  expect(it.service.media).toHaveLength(left);
});

it('delete --yes asks nothing, tries all, and ends with the code of the first failure', async () => {
  await using it = await setUp(3);
  const { code, stdout, stderr } = await it.media(['delete', '--yes', id, 'med_nope', mediaObject(2).id]);
  expect(stdout).toBe(`${id}\tdeleted\n${mediaObject(2).id}\tdeleted\n`);
  expect(stderr).toContain('failed  med_nope: There is no media object med_nope.');
  expect(stderr).toContain('error: 1 of 3 failed.');
  expect(code).toBe(3);
});

it('retry queues a failed media object again, and reports why it refuses another', async () => {
  await using it = await setUp(2);
  Object.assign(it.service.media[0] ?? {}, { status: 'failed' });
  expect(await it.media(['retry', id])).toMatchObject({ code: 0, stdout: `${id}\tqueued\n` });
  const { code, stderr } = await it.media(['retry', mediaObject(2).id]);
  expect([code, stderr]).toEqual([1, `error: ${mediaObject(2).id} is ready. (state_conflict, request req-1)\n`]);
});

it('Ctrl-C at the question deletes nothing', async () => {
  await using it = await setUp(1);
  const interrupt = AbortSignal.timeout(500);
  const { code, stderr } = await it.media(['delete', id], { terminal: 80, silentInput: true, interrupt });
  expect(code).toBe(130);
  expect(plain(stderr)).toMatch(/\[y\/N\] .*error: Interrupted\.\n$/s);
  expect(it.service.media).toHaveLength(1);
});

it('retry --wait shows progress, and prints results in the order of the arguments', async () => {
  await using it = await setUp(3);
  it.service.hasEvents = true;
  for (const found of it.service.media.slice(0, 2)) Object.assign(found, { status: 'failed' });
  const running = it.media(['retry', '--wait', id, mediaObject(3).id, mediaObject(2).id], { terminal: 80 });
  await expect
    .poll(() => it.service.requests.filter((line) => line.startsWith('GET /control/v1/media/')).length)
    .toBe(4);
  await change(it.service, id, 'processing', 0.33);
  await change(it.service, mediaObject(2).id, 'processing');
  await new Promise((resolve) => setTimeout(resolve, 250));
  await change(it.service, id, 'ready');
  await new Promise((resolve) => setTimeout(resolve, 250));
  await change(it.service, mediaObject(2).id, 'failed');
  const { code, stdout, stderr } = await running;
  expect(plain(stdout)).toBe(`${id}  ready\n`);
  expect(plain(stderr)).toMatch(/…\w+ +━+─+ +33% {2}processing/);
  expect(plain(stderr)).toContain(
    `failed  ${mediaObject(2).id}: ${mediaObject(2).id} failed: corrupt_media: The file is damaged.`,
  );
  expect(plain(stderr)).toContain(
    `failed  ${mediaObject(3).id}: ${mediaObject(3).id} is ready. (state_conflict, request req-1)`,
  );
  expect(plain(stderr)).toContain('error: 2 of 3 failed.');
  // Every drawn line of progress was erased again. Two failures and the error stay.
  const up = [...stderr.matchAll(CURSOR_UP)].reduce((sum, [, rows]) => sum + Number(rows), 0);
  expect(stderr.split('\n').length - 1 - up).toBe(3);
  for (const frame of plain(stderr).split('\x1b[J').slice(1))
    expect(frame).not.toMatch(/processing.*\n.*failed {2}med_/s);
  expect(code).toBe(1);
});

it('retry --wait of a ready media object waits for its renditions', async () => {
  await using it = await setUp(1);
  it.service.hasEvents = true;
  const [found] = it.service.media;
  const [first] = found?.renditions ?? [];
  if (!found || !first) throw new Error('There should be a media object with a rendition');
  it.service.on('POST', (_, response) => {
    first.state = 'pending';
    sendJson(response, 202, found);
  });
  const running = it.media(['retry', '--wait', id]);
  await expect.poll(() => it.service.requests.filter((line) => line === `GET /control/v1/media/${id}`).length).toBe(2);
  first.state = 'ready';
  await change(it.service, id, 'ready');
  expect(await running).toEqual({ code: 0, stdout: `${id}\tready\n`, stderr: '' });
});

it('retry --wait reports the renditions that failed again, and ends with 1', async () => {
  await using it = await setUp(2);
  it.service.hasEvents = true;
  const [found, other] = it.service.media;
  const [first] = found?.renditions ?? [];
  const [second] = other?.renditions ?? [];
  if (!found || !other || !first || !second) throw new Error('There should be media with renditions');
  it.service.on('POST', (request, response) => {
    const [mediaObject, rendition] = request.url?.includes(id) ? [found, first] : [other, second];
    rendition.state = 'pending';
    sendJson(response, 202, mediaObject);
  });
  expect(await it.media(['retry', id])).toMatchObject({
    ...{ code: 0, stdout: `${id}\tready\tbeing made again: thumb.webp\n` },
  });
  const end = async (ids: string[], options: Parameters<typeof it.media>[1] = {}) => {
    const running = it.media(['retry', '--wait', ...ids], options);
    await expect.poll(() => it.service.listeners.size).toBe(1);
    Object.assign(first, { state: 'failed', reason: 'It was killed.' });
    second.state = 'ready';
    await change(it.service, id, 'ready');
    await change(it.service, other.id, 'ready');
    return running;
  };
  const line = `${id}\tready\t1 rendition failed: thumb.webp\n`;
  expect(await end([id])).toEqual({ code: 1, stdout: line, stderr: '' });
  const terminal = await end([id], { terminal: 80 });
  expect([terminal.code, plain(terminal.stdout)]).toEqual([1, line.replaceAll('\t', '  ')]);
  const json = await end([id], {});
  expect(json.code).toBe(1);
  expect(await end([id, other.id])).toEqual({
    ...{ code: 1, stdout: `${line}${other.id}\tready\n`, stderr: 'error: 1 of 2 failed.\n' },
  });
});

it('list and get mark ready media that lack renditions', async () => {
  await using it = await setUp(2);
  const [, large] = it.service.media[0]?.renditions ?? [];
  if (!large) throw new Error('There should be a rendition');
  large.state = 'failed';
  const shown = plain((await it.media(['list', '--detail'], { terminal: 120 })).stdout).split('\n');
  expect(shown[1]).toMatch(/^med_\w+ {2}ready, 1 failed {2}image\/jpeg/);
  expect(shown[2]).toMatch(/^med_\w+ {2}ready {12}image\/jpeg/);
  const lines = (await it.media(['list', '--detail'])).stdout.split('\n').map((line) => line.split('\t'));
  expect(lines.slice(0, 2).map((fields) => [fields[1], fields[9]])).toEqual([
    ['ready', 'large.webp'],
    ['ready', ''],
  ]);
  expect(plain((await it.media(['get', id], { terminal: 100 })).stdout)).toMatch(/^status +ready, 1 failed$/m);
});

/** A ready rendition of a video. */
function rendition(name: string, extension: string, content_type: string, rest: Partial<MediaRendition> = {}) {
  return {
    ...{ name, extension, content_type, revision: '0a1b2c3d', state: 'ready' as const, reason: null },
    ...{ bytes: 4_000, files: 1, width: 1280, height: 720 },
    ...{ url: `/media/${id}/${name}.${extension}`, immutable_url: `/media/${id}/${name}.0a1b2c3d.${extension}` },
    ...rest,
  };
}

/** A video of 12.3 seconds with all of its renditions. */
function video(change: Partial<MediaDetail> = {}): MediaDetail {
  const hls = { url: `/media/${id}/hls/master.m3u8`, immutable_url: `/media/${id}/hls.0a1b2c3d/master.m3u8` };
  return mediaObject(1, {
    ...{ kind: 'video', content_type: 'video/mp4', filename: 'clip.mp4', duration: 12.3, codecs: ['h264', 'aac'] },
    renditions: [
      rendition('hls', 'm3u8', 'application/vnd.apple.mpegurl', { ...hls, bytes: 12_300_000, files: 34 }),
      rendition('mp4', 'mp4', 'video/mp4'),
      rendition('poster', 'jpg', 'image/jpeg', { bytes: 800 }),
    ],
    ...change,
  });
}

it('list and get show playing time, progress, and the number of files of a stream', async () => {
  await using it = await setUp(0);
  it.service.hasEvents = true;
  it.service.media.push(video({ status: 'processing', progress: 0.429 }), mediaObject(2));
  const list = plain((await it.media(['list', '--detail'], { terminal: 120 })).stdout).split('\n');
  expect(list[1]).toMatch(/^med_\w+ {2}processing 42% {2}video\/mp4 .* 0:12 {2}clip\.mp4$/);
  expect(list[2]).toMatch(/^med_\w+ {2}ready {11}image\/jpeg .* - {2}photo-2\.jpg$/);
  const lines = (await it.media(['list', '--detail'])).stdout.split('\n');
  expect(lines[0]?.split('\t').slice(5)).toEqual([it.service.media[0]?.created_at, 'clip.mp4', '12.3', '0.429', '']);
  expect(lines[1]?.split('\t').slice(6)).toEqual(['photo-2.jpg', '', '', '']);

  const text = plain((await it.media(['get', id], { terminal: 100 })).stdout);
  expect(text).toMatch(/^status +processing 42%$/m);
  expect(text).toMatch(/^type +video\/mp4, 2\.4 MB, 4032x3024, 0:12$/m);
  expect(text).toMatch(/^RENDITION +STATE +SIZE +PIXELS +FILES +ADDRESS$/m);
  expect(text).toMatch(/^hls\.m3u8 +ready +12\.3 MB +1280x720 +34 +\/media\/.*\/hls\/master\.m3u8$/m);
  const facts = (await it.media(['get', id])).stdout.split('\n');
  expect(facts).toContain('progress\t0.429');
  expect(facts).toContain(`rendition\thls.m3u8\tready\t12300000\t1280x720\t/media/${id}/hls/master.m3u8\t34`);
});

it('shows no pixels for files without a picture, whether given as null or zero', async () => {
  await using it = await setUp(0);
  const storyboard = rendition('storyboard', 'vtt', 'text/vtt', { width: 0, height: 0, files: 1 });
  const waveform = rendition('waveform', 'json', 'application/json', { width: null, height: null, files: 1 });
  it.service.media.push(video({ renditions: [storyboard, waveform] }));
  const text = plain((await it.media(['get', id], { terminal: 120 })).stdout);
  expect(text).toMatch(/^storyboard\.vtt +ready +[\d.]+ k?B +- +/m);
  const facts = (await it.media(['get', id])).stdout.split('\n');
  for (const name of ['storyboard.vtt', 'waveform.json']) {
    expect(facts.find((line) => line.startsWith(`rendition\t${name}\t`))?.split('\t')[4]).toBe('');
  }
  expect(text + facts.join('')).not.toContain('0x0');
});

it('shows media of an older service that reports no progress', async () => {
  await using it = await setUp(1);
  it.service.on(`GET /control/v1/media/${id}`, (_, response) => {
    const { progress: _p, renditions, ...older } = mediaObject(1, { status: 'processing' });
    sendJson(response, 200, { ...older, renditions: renditions.map(({ files: _f, ...rest }) => rest) });
  });
  expect(plain((await it.media(['get', id], { terminal: 100 })).stdout)).toMatch(/^status +processing$/m);
});

it('url of a stream is the URL of its playlist', async () => {
  await using it = await setUp(0);
  it.service.media.push(video());
  const base = `${it.service.url}/media/${id}`;
  expect((await it.media(['url', id, 'hls'])).stdout).toBe(`${base}/hls/master.m3u8\n`);
  expect((await it.media(['url', id, 'hls', '--revision', '0a1b2c3d'])).stdout).toBe(
    `${base}/hls.0a1b2c3d/master.m3u8\n`,
  );
  expect((await it.media(['url', id, 'mp4'])).stdout).toBe(`${base}/mp4.mp4\n`);
});

it('download of a stream prints how to play it or to write it to one file', async () => {
  await using it = await setUp(0);
  it.service.media.push(video());
  const { code, stdout, stderr } = await it.media(['download', id, 'hls']);
  const url = `${it.service.url}/media/${id}/hls/master.m3u8`;
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr.split('\n')).toEqual([
    'error: hls is a stream of many files: it can be played, but not downloaded as one file.',
    `  Open its URL in a player: ${url}`,
    `  Or write it to one file with ffmpeg: ffmpeg -i ${url} -c copy ${id}.mp4`,
    `  Download a single file: mds media download ${id} mp4`,
    '',
  ]);
  expect((await it.media(['download', id])).stdout).toBe(`${id}-mp4.mp4\n`);
  const [hls, , poster] = it.service.media[0]?.renditions ?? [];
  if (!hls || !poster) throw new Error('There should be both');
  it.service.media[0] = video({ kind: 'audio', renditions: [hls, { ...poster, name: 'waveform' }] });
  expect((await it.media(['download', id])).stdout).toBe(`${id}-waveform.jpg\n`);
  it.service.media[0] = video({ kind: 'audio', renditions: [hls] });
  expect((await it.media(['download', id])).stderr).toContain('a stream of many files');
  expect((await readdir(it.folder)).toSorted()).toEqual([`${id}-mp4.mp4`, `${id}-waveform.jpg`]);
});
