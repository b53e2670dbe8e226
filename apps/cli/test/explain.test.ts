import type { MediaExplanation } from '@mds/client';
import { expect, it } from 'vitest';
import { displayWidth } from '../src/output/display-width.ts';
import { failedVideo, queuedPicture, waitingJob } from './explanations.ts';
import { mdsHere, plain } from './run-cli.ts';
import { mediaObject, startService, TOKEN } from './scripted-service.ts';

const { id } = mediaObject(1);

async function setUp(explanation: MediaExplanation = failedVideo(id)) {
  const service = await startService();
  service.media.push(mediaObject(1));
  service.explanations.set(id, explanation);
  return {
    service,
    explain: (args: string[] = [], options: Partial<Parameters<typeof mdsHere>[1]> = {}) =>
      mdsHere(['media', 'explain', id, ...args], {
        env: { MDS_URL: service.url, MDS_TOKEN: TOKEN, NO_COLOR: '1' },
        ...options,
      }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('explains on a terminal the file, the plan and the latest attempt', async () => {
  await using it = await setUp();
  const { code, stdout, stderr } = await it.explain([], { terminal: 100 });
  expect([code, stderr]).toEqual([0, '']);
  const filter =
    "'[0:v]fps=30000/1001,split=2[a][b];[a]scale=640:360[v0];[b]drawtext=text='\\''it'\\'''\\''s'\\''[v1]'";
  expect(stdout.split('\n')).toEqual([
    `id         ${id}`,
    'status     failed',
    'error      The picture breaks off after 6.2 seconds. (corrupt_media)',
    '           another attempt would fail as well; the file has to change',
    'warning    The file ends early.',
    'container  mp4, video/mp4, 12.3 MB',
    'picture    1080x1920',
    'duration   0:12  (12.345 s)',
    'video      h264 High 4.1, 1920x1080, rotated by 90°, 29.97 fps on average, variable, yuv420p, 7.9',
    '           Mb/s, HDR (HLG)',
    'audio 1    aac LC, stereo, 48 kHz, 128 kb/s, eng, played by default',
    'audio 2    ac3, 6 channels, 44.1 kHz',
    'bit rate   8.0 Mb/s',
    'somethingNewer  {"a":1}',
    '',
    'PLAN          DECISION     PIXELS  WHY',
    'poster.jpg    make       720x1280',
    'hls.m3u8      make      1080x1920  High dynamic range is mapped to what every screen shows, and',
    '                                   frames come at a constant rate.',
    '  1080p                 1080x1920  At most 6.0 Mb/s; copied if its keyframes allow',
    '  360p                    360x640  At most 800 kb/s',
    'preview.webp  skip        270x480  It lasts less than a second.',
    'Not for video: thumb.webp.',
    '',
    'ATTEMPT 1  lost: its worker died  2026-01-31T08:15:00Z by worker-4021',
    '',
    'ATTEMPT 2  failed  in 12s  2026-01-31T08:16:00Z by worker-4077',
    '  The picture breaks off after 6.2 seconds. (corrupt_media)',
    '  The audio fits as it is and is copied.',
    '',
    '  STEP          TIME',
    `  poster      412 ms  ${'━'.repeat(2)}${'─'.repeat(30)}`,
    `  ladder       8.1 s  ${'━'.repeat(32)}`,
    `  storyboard   1.0 s  ${'━'.repeat(4)}${'─'.repeat(28)}`,
    '',
    '  STEP    PROGRAM  ENDED         TIME     CPU  MEMORY',
    '  ladder  ffmpeg   exit code 1  8.1 s  15.2 s  231 MB',
    `ffmpeg -hide_banner -i source.mp4 -filter_complex ${filter} -f mp4 hls/360p.mp4`,
    '  | [h264 @ 0x1] error while decoding MB 12 7',
    '  | source.mp4: Invalid data found',
    '',
    `Every command: mds media explain ${id} --all`,
    '',
  ]);
});

it('--all shows every command of every attempt', async () => {
  await using it = await setUp();
  const { stdout } = await it.explain(['--all'], { terminal: 100 });
  expect(stdout).toContain('\nffprobe -v error source.mp4\n');
  expect(stdout).not.toContain('--all');
});

it('shows commands and their last lines for failed attempts only, unless --all', async () => {
  const explanation = failedVideo(id);
  const [lost, failed] = explanation.attempts;
  const [run] = failed?.runs ?? [];
  if (!lost || !failed || !run) throw new Error('There should be an attempt with a program');
  run.stderr_tail = Array.from({ length: 20 }, (_, n) => `line ${n}`);
  await using it = await setUp({ ...explanation, attempts: [failed] });
  expect((await it.explain([], { terminal: 100 })).stdout.match(/^ {2}\| line \d+$/gm)).toEqual(
    [14, 15, 16, 17, 18, 19].map((n) => `  | line ${n}`),
  );
  it.service.explanations.set(id, { ...explanation, attempts: [{ ...failed, outcome: 'ready' }] });
  const short = (await it.explain([], { terminal: 100 })).stdout;
  expect(short).toContain('\n  ladder  ffmpeg   exit code 1  8.1 s');
  expect(short).not.toMatch(/\| line|^ffmpeg/m);
  const long = (await it.explain(['--all'], { terminal: 100 })).stdout;
  expect(long.match(/^ {2}\| line \d+$/gm)).toHaveLength(20);
  expect(long).toMatch(/^ffmpeg -hide_banner/m);
});

it('joins successful runs of one program in a step, except with --all', async () => {
  const explanation = failedVideo(id);
  const [, failed] = explanation.attempts;
  const [run] = failed?.runs ?? [];
  if (!failed || !run) throw new Error('There should be an attempt with a program');
  const fine = { ...run, outcome: 'ok', stderr_tail: [], ms: 100, cpu_ms: 40, max_memory_bytes: 20_000_000 };
  const probe = { ...fine, argv: ['ffprobe', 'x'], cpu_ms: null, max_memory_bytes: null };
  const runs = [fine, { ...fine, max_memory_bytes: 30_000_000 }, run, fine, probe, probe, { ...probe, step: 'poster' }];
  await using it = await setUp({ ...explanation, attempts: [{ ...failed, outcome: 'ready', runs }] });
  const { stdout } = await it.explain([], { terminal: 80 });
  const from = stdout.indexOf('  STEP    PROGRAM');
  expect(stdout.slice(from, stdout.indexOf('\n\n', from)).split('\n')).toEqual([
    '  STEP    PROGRAM     ENDED          TIME     CPU   MEMORY',
    '  ladder  ffmpeg ×2   ok           200 ms   80 ms  30.0 MB',
    '  ladder  ffmpeg      exit code 1   8.1 s  15.2 s   231 MB',
    '  ladder  ffmpeg      ok           100 ms   40 ms  20.0 MB',
    '  ladder  ffprobe ×2  ok           200 ms       -        -',
    '  poster  ffprobe     ok           100 ms       -        -',
  ]);
  expect((await it.explain(['--all'], { terminal: 80 })).stdout.match(/^ {2}(ladder|poster) +ff/gm)).toHaveLength(7);
});

it('prints a shared reason once, a single rung in one line, and sizes unbroken', async () => {
  const explanation = failedVideo(id);
  const [, poster, hls] = explanation.plan;
  const rung = hls?.rungs[1];
  if (!poster || !rung) throw new Error('There should be a poster and a rung');
  const reason = 'A frame of the video that is not black, at most as large as 1280 x 720.';
  const plan = [
    { ...poster, reason },
    { ...poster, extension: 'webp', reason },
    { ...poster, name: 'mp4', extension: 'mp4', width: 360, height: 640, reason: 'At 360 x 640.', rungs: [rung] },
  ];
  await using it = await setUp({ ...explanation, plan });
  const { stdout } = await it.explain([], { terminal: 75 });
  expect(stdout.slice(stdout.indexOf('PLAN'), stdout.indexOf('\n\nATTEMPT')).split('\n')).toEqual([
    'PLAN         DECISION    PIXELS  WHY',
    'poster.jpg   make      720x1280  A frame of the video that is not black, at',
    '                                 most as large as 1280 x 720.',
    'poster.webp  make      720x1280  Same as poster.jpg.',
    'mp4.mp4      make       360x640  At 360 x 640. At most 800 kb/s.',
  ]);
  expect((await it.explain([], { terminal: 70 })).stdout).toMatch(/most as large as\n +1280 x 720\.$/m);
});

it('shows what a media object waits for', async () => {
  await using it = await setUp(queuedPicture(id));
  const { stdout } = await it.explain([], { terminal: 80 });
  expect(stdout).toContain('waiting    It is the 3rd in the queue.\n');
  expect(stdout).toContain('picture    40x30, srgb\n');
  expect(stdout).toContain('thumb.webp  make       40x30\n');
});

it('explains that a storage outage released an attempt', async () => {
  const queued = queuedPicture(id);
  const ended = { worker: 'w1', started_at: '2026-01-31T08:15:00Z', ended_at: '2026-01-31T08:15:01Z' };
  const released = { ...ended, outcome: 'released' as const, notes: [], timings: {}, runs: [] };
  const message = 'The storage or the database did not answer.';
  const attempts = [
    { ...released, attempt: 1, error: null },
    { ...released, attempt: 2, error: { code: 'unavailable', message, retryable: true } },
  ];
  await using it = await setUp({ ...queued, attempts });
  const { stdout } = await it.explain([], { terminal: 100 });
  expect(stdout).toContain('ATTEMPT 1  released: its worker was stopped  in 1s');
  expect(stdout).toContain(
    `ATTEMPT 2  released, not counted  in 1s  2026-01-31T08:15:00Z by w1\n  ${message} (unavailable)\n`,
  );
  expect((await it.explain()).stdout.split('\n')).toContain(
    `job\tjob-7\tqueued\t2\t2026-01-31T08:17:00Z\t\t${waitingJob(id).last_reason}`,
  );
  expect(JSON.parse((await it.explain(['--json'])).stdout)).toMatchObject({ job: waitingJob(id) });
});

it.each([80, 120, 60, 40])('fits a terminal of %i columns; only commands are longer', async (terminal) => {
  await using it = await setUp();
  const lines = plain((await it.explain([], { terminal })).stdout).split('\n');
  const table = lines.slice(lines.findIndex((line) => line.startsWith('PLAN')));
  for (const line of table.filter((it) => !/^(ff|ATTEMPT|Every| {2}(\||The))/.test(it))) {
    expect(displayWidth(line)).toBeLessThanOrEqual(terminal);
  }
  // Reasons are never shortened, however narrow the terminal is.
  expect(table.join(' ').replace(/\s+/g, ' ')).toContain(
    'what every screen shows, and frames come at a constant rate.',
  );
});

it('prints one fact a line in a pipe, its name first', async () => {
  await using it = await setUp();
  const lines = (await it.explain()).stdout.split('\n');
  for (const line of [
    `id\t${id}`,
    'error\tcorrupt_media\tfalse\tThe picture breaks off after 6.2 seconds.',
    'probe.tracks.audio.1.codec\tac3',
    'preset\thls.m3u8\tmake\t1080x1920\t0a1b2c3d\tHigh dynamic range is mapped to what every screen shows, and frames come at a constant rate.',
    'rung\thls.m3u8\t1080p\t1080x1920\t6000000\tmay_copy',
    'attempt\t1\tlost\t2026-01-31T08:15:00Z\t\tworker-4021\t',
    'step\t2\tladder\t8140',
    'run\t1\tprobe\tok\t92\t40\t21000000\tffprobe -v error source.mp4',
    'stderr\t2\tladder\tsource.mp4: Invalid data found',
  ]) {
    expect(lines).toContain(line);
  }
});

it('shortens long lists in commands in a pipe, but not with --all or --json', async () => {
  const explanation = failedVideo(id);
  const [run] = explanation.attempts[1]?.runs ?? [];
  if (!run) throw new Error('There should be a program');
  const decoders = Array.from({ length: 62 }, (_, n) => `decoder_${n}`).join(',');
  const filter = '[0:v]split=2[a][b];[a]scale=1280:720,format=yuv420p,setsar=1[v0];[b]scale=640:360,format=yuv420p[v1]';
  run.argv = ['ffmpeg', '-codec_whitelist', decoders, '-i', 'SOURCE', '-filter_complex', filter, 'a,b.mp4'];
  await using it = await setUp(explanation);
  const line = (stdout: string) =>
    stdout
      .split('\n')
      .find((text) => text.startsWith('run\t2\t'))
      ?.split('\t')
      .at(-1);
  expect(line((await it.explain()).stdout)).toBe(
    `ffmpeg -codec_whitelist 'decoder_0,decoder_1,… (62 in all)' -i SOURCE -filter_complex '${filter}' a,b.mp4`,
  );
  for (const args of [['--all'], ['--json']]) expect((await it.explain(args)).stdout).toContain(decoders);
});

it("--json prints the API's own document", async () => {
  await using it = await setUp();
  expect(JSON.parse((await it.explain(['--json'])).stdout)).toEqual(failedVideo(id));
});

it('shows a document whose fields and types are unknown as far as possible', async () => {
  const odd = { format: 7, bytes: '12', tracks: { video: 'h264', audio: [null, { codec: 'aac' }], bitrate: null } };
  await using it = await setUp({ ...failedVideo(id), probe: odd });
  const { code, stdout } = await it.explain([], { terminal: 80 });
  expect(code).toBe(0);
  expect(stdout).toContain('audio      aac\n');
  expect(stdout).not.toMatch(/undefined|NaN|\[object/);
});

it('escapes control characters from files and programs', async () => {
  const evil = '\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\r\n\x1b[31mred';
  const explanation = failedVideo(id);
  const { attempts } = explanation;
  for (const attempt of attempts) {
    Object.assign(attempt, { worker: evil, notes: [evil], outcome: evil, timings: { [evil]: 3 } });
    attempt.runs = attempt.runs.map((run) => ({
      ...run,
      step: evil,
      outcome: evil,
      argv: [evil],
      stderr_tail: [evil],
    }));
  }
  const plan = explanation.plan.map((it) => ({ ...it, name: evil, reason: evil }));
  await using it = await setUp({
    ...{ ...explanation, attempts: structuredClone(attempts), plan, status: evil as 'failed', waiting_for: evil },
    ...{
      warnings: [evil],
      probe: { format: evil, [evil]: evil },
      error: { code: evil, message: evil, retryable: true },
    },
  });
  for (const options of [{ terminal: 200 }, {}]) {
    const { stdout } = await it.explain(['--all'], { ...options, env: { MDS_URL: it.service.url, MDS_TOKEN: TOKEN } });
    expect(stdout).toContain('owned');
    expect(plain(stdout)).not.toMatch(/(?![\n\t])[\p{Cc}\u202e]/u);
    expect(stdout).not.toContain('\x1b[31mred');
  }
});

it('ends with 3 for an unknown media object', async () => {
  await using it = await setUp();
  it.service.media.length = 0;
  expect(await it.explain()).toMatchObject({ code: 3, stdout: '' });
});
