import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, closeSync, constants, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createEngine, MediaRejectedError } from '../../../test/engine-under-test.ts';
import { clipMaker, h264, picture, tone } from '../../../test/generated-media.ts';
import { seededRandom } from '../../../test/pictures.ts';
import { scratch } from '../../../test/scratch.ts';
import type { EngineOptions } from '../../engine.ts';
import { findPrograms } from '../../ffmpeg/programs.ts';
import { formats } from '../../formats.ts';
import { demuxers } from '../../formats-av.ts';
import { defaultLimits } from '../../limits.ts';
import { samplePath } from '../../prove.ts';
import { createProber, seconds } from './probe.ts';

const { folder, file } = scratch();
const { clip, bytes } = clipMaker(join(folder, 'clips'));
// The environment can select a build of ffmpeg.
const programs = await findPrograms({ ffmpeg: process.env['FFMPEG_PATH'], ffprobe: process.env['FFPROBE_PATH'] });
const paths = { ffmpeg: programs.ffmpeg.path, ffprobe: programs.ffprobe.path };
const engines: Array<{ stop(): Promise<void> }> = [];
const servers: Server[] = [];
afterAll(async () => {
  await Promise.all(engines.map((engine) => engine.stop()));
  for (const server of servers) server.close();
});

function engineWith(options: EngineOptions = {}) {
  const engine = createEngine({ concurrency: 1, programs: paths, ...options });
  engines.push(engine);
  return engine;
}
const engine = engineWith();
const rejection = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) });

/** A named pipe that detects readers: it can be opened for writing only while somebody reads. */
function canary(name: string) {
  const path = join(folder, name);
  execFileSync('mkfifo', [path]);
  return {
    path,
    async openedBy(act: () => Promise<unknown>): Promise<boolean> {
      let opened = false;
      const watch = setInterval(() => {
        try {
          closeSync(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
          opened = true;
        } catch {
          // ENXIO: nobody reads.
        }
      }, 2);
      await act().catch(() => undefined);
      clearInterval(watch);
      return opened;
    },
  };
}

/** A server on this machine that counts connections and answers none. */
async function listener() {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}`, connections: () => connections };
}

/** ffprobe with only the given options: shows what would happen to a service that trusts the file. */
async function trustingProbe(path: string, options: readonly string[] = []): Promise<void> {
  const child = spawn(programs.ffprobe.path, ['-v', 'quiet', ...options, path], { stdio: 'ignore' });
  const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await new Promise((resolve) => child.once('close', resolve));
  clearTimeout(timer);
}

/** Runs our ffprobe with every demuxer, as if the file had passed sniffing by false first bytes. */
async function probeAsEverything(path: string): Promise<void> {
  for (const demuxer of new Set(Object.values(demuxers))) {
    const prober = createProber(path, demuxer, programs, { ...defaultLimits, identifyTimeoutMs: 3_000 });
    await prober.probe().catch(() => undefined);
  }
}

const playlist = (segment: string) =>
  `#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n${segment}\n#EXT-X-ENDLIST\n`;

test('fault 1: an HLS playlist named .mp4 is refused, and its segment is not opened', async () => {
  const secret = canary('secret.ts');
  const path = file(playlist(secret.path), 'film.mp4');
  expect(
    await secret.openedBy(() => trustingProbe(path, ['-f', 'hls', '-allowed_extensions', 'ALL'])),
    'a trusting program opens it',
  ).toBe(true);
  expect(await secret.openedBy(() => engine.identify(path))).toBe(false);
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_format', /HLS playlist/));
  expect(await secret.openedBy(() => probeAsEverything(path))).toBe(false);
});

test.each(['\ufeff', '\n\n', ' \r\n\ufeff'])('fault 1: a playlist after %j is recognized', async (before) => {
  const path = file(before + playlist('secret.ts'), 'film.mp4');
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_format', /HLS playlist/));
});

test('fault 2: an ffconcat script named .mp4 is refused, and its sibling is not opened', async () => {
  const sibling = canary('sibling.mp4');
  const path = file(`ffconcat version 1.0\nfile sibling.mp4\n`, 'film.mp4');
  const trusting = () => trustingProbe(path, ['-protocol_whitelist', 'file,pipe']);
  expect(await sibling.openedBy(trusting), 'a trusting program opens it').toBe(true);
  expect(await sibling.openedBy(() => engine.identify(path))).toBe(false);
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_format', /names other files/));
  expect(await sibling.openedBy(() => probeAsEverything(path))).toBe(false);
});

test('fault 3: a DASH manifest named .mp4 is refused, and no server is contacted', async () => {
  const { url, connections } = await listener();
  const manifest = `<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT10S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011">
<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1000" codecs="avc1.42c01e" width="64" height="36">
<BaseURL>${url}/film.mp4</BaseURL><SegmentBase indexRange="0-100"><Initialization range="0-50"/></SegmentBase>
</Representation></AdaptationSet></Period></MPD>`;
  const path = file(manifest, 'film.mp4');
  await trustingProbe(path, ['-protocol_whitelist', 'file,http,tcp']);
  expect(connections(), 'a trusting program connects').toBeGreaterThan(0);
  const before = connections();
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_format', /DASH manifest/));
  await probeAsEverything(path);
  await expect(engine.identify(file(playlist(`${url}/a.ts`), 'film.mp4'))).rejects.toBeInstanceOf(MediaRejectedError);
  expect(connections()).toBe(before);
});

test('fault 4: a playlist that names itself is refused at once', async () => {
  const path = join(folder, 'snake.mp4');
  writeFileSync(path, playlist(path));
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_format', /HLS playlist/));
});

/** A script that answers `-version` like ffprobe, and otherwise runs an ffmpeg that never ends. */
function endlessProbe(name: string): { path: string; pidFile: string } {
  const path = join(folder, name);
  const pidFile = `${path}.pid`;
  const endless = `'${programs.ffmpeg.path}' -nostdin -v quiet -f lavfi -i testsrc -f null -`;
  writeFileSync(
    path,
    `#!/bin/sh\n[ "$1" = -version ] && exec '${programs.ffprobe.path}' -version\necho $$ > '${pidFile}'\nexec ${endless}\n`,
  );
  chmodSync(path, 0o755);
  return { path, pidFile };
}

test('fault 4: an endless program is killed with its group, and the file is refused', async () => {
  const { path: ffprobe, pidFile } = endlessProbe('endless');
  const limited = engineWith({
    programs: { ffprobe, ffmpeg: programs.ffmpeg.path },
    limits: { identifyTimeoutMs: 2_000 },
  });
  const path = clip('plain.mp4', [...picture(), ...tone(), ...h264]);
  const began = Date.now();
  await expect(limited.identify(path)).rejects.toMatchObject({ code: 'identify_timeout' });
  expect(Date.now() - began).toBeLessThan(15_000);
  const pid = Number(readFileSync(pidFile, 'utf8'));
  expect(pid).toBeGreaterThan(1);
  await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 5_000 }).toBe(false);
});

test('fault 4: a source that never delivers bytes is refused after the timeout', async () => {
  const limited = engineWith({ limits: { identifyTimeoutMs: 1_000 } });
  const path = join(folder, 'endless.fifo');
  execFileSync('mkfifo', [path]);
  await expect(limited.identify(path)).rejects.toMatchObject({ code: 'identify_timeout' });
});

test.each([
  ['avi', /Cinepak/, [...picture('s=64x48:r=5:d=1'), '-c:v', 'cinepak']],
  ['ogv', /Theora/, [...picture('s=64x48:r=5:d=1'), '-c:v', 'libtheora']],
  ['mkv', /WMV2/, [...picture('s=64x48:r=5:d=1'), '-c:v', 'wmv2']],
  ['mov', /QuickTime Animation/, [...picture('s=64x48:r=5:d=1'), '-c:v', 'qtrle']],
  ['mkv', /TrueHD|truehd/, [...tone(1), '-c:a', 'truehd', '-strict', '-2', '-ar', '48000']],
  ['wav', /ADPCM/, [...tone(1), '-c:a', 'adpcm_ms']],
])('fault 5: a rare codec in a known container (%s) is refused by name: %s', async (ending, name, argv) => {
  const path = clip(`exotic-${String(name).replaceAll(/\W/g, '')}.${ending}`, argv);
  await expect(engine.identify(path)).rejects.toMatchObject(rejection('unsupported_codec', name));
});

const moving = formats.filter(({ kind }) => kind !== 'image');

/** The outcome for a file. Any other error is a crash or a hang. */
async function outcomeOf(path: string): Promise<string> {
  try {
    const { format, warnings } = await engine.identify(path);
    return warnings.length > 0 ? `${format} with warnings` : format;
  } catch (error) {
    if (!(error instanceof MediaRejectedError)) throw error;
    expect(error.message).toMatch(/^[A-Z].*\.$/s);
    expect(error.message).not.toContain(folder);
    return error.code;
  }
}

const refused = ['corrupt_media', 'unsupported_format', 'unsupported_codec', 'empty_file', 'too_long', 'unsafe_media'];

test.each(moving.map((format) => [format.id, format] as const))(
  'fault 22: %s, cut off and corrupted, is accepted or refused with a sentence',
  async (id, format) => {
    const whole = readFileSync(samplePath(format));
    const random = seededRandom(id.length * 7_919 + (id.codePointAt(0) ?? 0));
    const mutants = [0.03, 0.6].map((share) => whole.subarray(0, Math.floor(whole.length * share)));
    for (const flips of [2, 20, 200]) {
      const mutant = Buffer.from(whole);
      for (let flip = 0; flip < flips; flip++) {
        // The first bytes stay intact, because otherwise only sniffing would be tested.
        mutant[16 + Math.floor(random() * (mutant.length - 16))] = Math.floor(random() * 256);
      }
      mutants.push(mutant);
    }
    const outcomes = await Promise.all(mutants.map((mutant) => outcomeOf(file(mutant, 'mutant'))));
    for (const outcome of outcomes) {
      const accepted = moving.some((candidate) => outcome.startsWith(candidate.id));
      expect(accepted || refused.includes(outcome), outcome).toBe(true);
    }
    expect(engine.stats.identify.restarts).toBe(0);
  },
);

test('fault 22: two formats in one file count as the first one, or are refused', async () => {
  const mp4 = bytes('plain.mp4', [...picture(), ...tone(), ...h264]);
  const outcomes = await Promise.all(
    moving.map((format) => outcomeOf(file(Buffer.concat([readFileSync(samplePath(format)), mp4]), 'both'))),
  );
  for (const [index, outcome] of outcomes.entries()) {
    const id = moving[index]?.id ?? '';
    expect([id, `${id} with warnings`, ...refused], `${id} and MP4`).toContain(outcome);
  }
  // A page or a script before a video makes the file not a video.
  const page = Buffer.from('<html><script>alert(1)</script></html>');
  expect(await outcomeOf(file(Buffer.concat([page, mp4]), 'film.mp4'))).toBe('unsupported_format');
});

test.each([
  ['invalid JSON', '{"streams":[{'],
  ['streams without an index', '{"streams":[{"index":-1}]}'],
  ['tags that are not text', '{"streams":[{"index":0,"tags":{"title":7}}]}'],
])('fault 22: a file with nonsense output from ffprobe (%s) is refused with a sentence', async (_, output) => {
  const ffprobe = join(folder, `probe-${output.length}`);
  const script = `[ "$1" = -version ] && exec '${programs.ffprobe.path}' -version\nprintf '%s' '${output}'\n`;
  writeFileSync(ffprobe, `#!/bin/sh\n${script}`, { mode: 0o755 });
  const confused = engineWith({ programs: { ffprobe, ffmpeg: programs.ffmpeg.path } });
  const path = clip('plain.mp4', [...picture(), ...tone(), ...h264]);
  await expect(confused.identify(path)).rejects.toMatchObject(rejection('identify_crashed', /contradictory/));
  // A missing file is a different error, which does not reject a media object.
  await expect(confused.identify(join(folder, 'none'))).rejects.toMatchObject({ code: 'ENOENT' });
});

test('fault 22: a time that no clock can show counts as unknown', () => {
  for (const text of ['N/A', undefined, '', 'inf', '9223372036854.775807', '-1e300']) expect(seconds(text)).toBeNull();
  expect([seconds('0.5'), seconds('-12'), seconds('1e12')]).toEqual([0.5, -12, 1e12]);
});

test('fault 22: an empty file is refused as empty, and a few bytes are refused', async () => {
  expect(await outcomeOf(file('', 'film.mp4'))).toBe('empty_file');
  for (const format of moving) {
    const first = readFileSync(samplePath(format)).subarray(0, 12);
    expect(refused, format.id).toContain(await outcomeOf(file(first, 'stub')));
  }
});

test('without ffmpeg, images are accepted; video and audio are refused with the reason', async () => {
  const none = engineWith({ programs: { ffmpeg: join(folder, 'none') } });
  const path = clip('plain.mp4', [...picture(), ...tone(), ...h264]);
  await expect(none.identify(path)).rejects.toMatchObject(
    rejection('unsupported_format', /until its operator installs ffmpeg/),
  );
  const png = formats.find(({ id }) => id === 'png');
  expect(await none.identify(png ? samplePath(png) : '')).toMatchObject({ format: 'png' });
  const proven = await none.proveFormats();
  expect(proven.filter(({ ok }) => ok).map(({ id }) => id)).toEqual(
    formats.filter(({ kind }) => kind === 'image').map(({ id }) => id),
  );
  expect(proven.find(({ id }) => id === 'mp4')?.reason).toMatch(/FFMPEG_PATH names/);
  expect(await none.versions()).toMatchObject({ ffmpeg: 'none', ffprobe: 'none' });
  expect(await engine.versions()).toMatchObject({
    ffmpeg: programs.ffmpeg.version,
    sharp: expect.stringMatching(/^\d/),
  });
});
