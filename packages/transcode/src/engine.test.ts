import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { createEngine, MediaRejectedError, RenderError } from '../test/engine-under-test.ts';
import { clipMaker, h264, picture, tone } from '../test/generated-media.ts';
import { flatPng, quarters, seededRandom, solidGif } from '../test/pictures.ts';
import { scratch } from '../test/scratch.ts';
import type { EngineOptions } from './engine.ts';
import { formats } from './formats.ts';
import { planRenditions } from './plan.ts';
import { defaultPresets, parsePresets } from './presets/presets.ts';
import { samplePath } from './prove.ts';
import type { RenderProgress } from './render/result.ts';

const { file, outDir } = scratch();
const engines: Array<{ stop(): Promise<void> }> = [];
afterAll(() => Promise.all(engines.map((engine) => engine.stop())));

function engineWith(options: EngineOptions = {}) {
  const engine = createEngine({ concurrency: 2, ...options });
  engines.push(engine);
  return engine;
}
const engine = engineWith();
const plain = defaultPresets.filter(({ container }) => container !== 'avif');

function sha256Of(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

async function outcomeOf(path: string): Promise<string> {
  try {
    const source = await engine.identify(path);
    const result = await engine.render({ path, source, plan: planRenditions(source, plain), outDir: outDir() });
    const failed = result.renditions.find((rendition) => rendition.state === 'failed');
    if (failed?.state === 'failed') return `failed ${failed.code}`;
    return result.warnings.length > 0 ? 'ready with warnings' : 'ready';
  } catch (error) {
    if (error instanceof MediaRejectedError) return `rejected ${error.code}`;
    if (error instanceof RenderError) return `failed ${error.code}`;
    throw error;
  }
}

test('an idle engine has no process, and it reports the versions of its parts', async () => {
  const idle = engineWith();
  expect(idle.stats.identify.pids).toEqual([]);
  expect(await idle.versions()).toMatchObject({
    ffmpeg: expect.stringMatching(/^\w/),
    sharp: expect.stringMatching(/^\d/),
    'libheif-js': expect.stringMatching(/^\d/),
  });
  expect(await idle.selfTest()).toEqual({ ok: true, detail: expect.stringContaining('libvips') });
});

test('every registered format decodes its bundled sample', async () => {
  expect(await engine.proveFormats()).toEqual(formats.map(({ id }) => ({ id, ok: true })));
});

test('one thread encodes one rendition at a time, slowest first, with the same bytes', async () => {
  const path = file(await quarters(2400, 1800).jpeg().toBuffer(), 'photo.jpg');
  const single = engineWith({ concurrency: 1, renderThreads: 1 });
  const source = await single.identify(path);
  const plan = planRenditions(source, plain);
  const renditionsBy = async (by: typeof single) => {
    const order: string[] = [];
    const onProgress = ({ rendition }: RenderProgress) =>
      rendition && order.push(`${rendition.name}.${rendition.extension}`);
    const { renditions } = await by.render({ path, source, plan, outDir: outDir() }, { onProgress });
    const bytes = renditions.flatMap((each) =>
      each.state === 'ready' && each.files === null ? [sha256Of(each.path)] : [],
    );
    return { order, bytes };
  };
  const one = await renditionsBy(single);
  expect(one.order).toEqual(['large.webp', 'medium.webp', 'medium.jpg', 'small.webp', 'thumb.webp']);
  expect(one.bytes).toEqual((await renditionsBy(engine)).bytes);
});

test('an uploaded image becomes its renditions, with progress', async () => {
  const path = file(await quarters(800, 600).jpeg().toBuffer(), 'photo.txt');
  const source = await engine.identify(path);
  const plan = planRenditions(source, [...defaultPresets]);
  const folder = outDir();
  const progress: number[] = [];
  const result = await engine.render(
    { path, source, plan, outDir: folder },
    { onProgress: ({ done }) => progress.push(done) },
  );
  expect(progress).toEqual([1, 2, 3, 4, 5, 6]);
  expect(result.renditions.map(({ name, extension, state }) => `${name}.${extension} ${state}`)).toEqual(
    plan.flatMap(({ name, extension, state }) => (state === 'make' ? `${name}.${extension} ready` : [])),
  );
  for (const rendition of result.renditions)
    expect(rendition.state === 'ready' && existsSync(rendition.path)).toBe(true);
});

test('video and audio become renditions, with progress and a report of the programs', async () => {
  const { clip } = clipMaker(outDir());
  const film = clip('film.mp4', [...picture('s=160x90:r=10:d=1'), ...tone(1), ...h264, '-c:a', 'aac']);
  const song = clip('song.mp3', [...tone(1), '-c:a', 'libmp3lame']);
  for (const [path, wanted] of [
    [film, ['poster.webp', 'mp4.mp4']],
    [song, ['audio.m4a']],
  ] as const) {
    const source = await engine.identify(path);
    const all = planRenditions(source, [...defaultPresets]);
    const plan = all.filter(({ name, extension }) => (wanted as readonly string[]).includes(`${name}.${extension}`));
    const fractions: number[] = [];
    const result = await engine.render(
      { path, source, plan, outDir: outDir() },
      { onProgress: ({ fraction }) => fractions.push(fraction) },
    );
    expect(result.renditions.map(({ name, extension, state }) => `${name}.${extension} ${state}`).sort()).toEqual(
      wanted.map((name) => `${name} ready`).sort(),
    );
    expect(fractions.at(-1)).toBe(1);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(result.runs.map(({ outcome }) => outcome)).toContain('ok');
    expect(JSON.stringify(result.runs)).not.toContain(path);
  }
});

test('the same bytes and presets give the same files, so a job may run twice', async () => {
  const path = file(await quarters(500, 300).png().toBuffer());
  const source = await engine.identify(path);
  const digests = [];
  for (const folder of [outDir(), outDir()]) {
    await engine.render({ path, source, plan: planRenditions(source, [...defaultPresets]), outDir: folder });
    digests.push(
      readdirSync(folder).map((name) =>
        createHash('sha256')
          .update(readFileSync(`${folder}/${name}`))
          .digest('hex'),
      ),
    );
  }
  expect(digests[0]).toEqual(digests[1]);
});

test('fault 6: a flat PNG of 17,000 x 17,000 is refused while memory stays small', async () => {
  // This cap is enough to start a child but not for 289 million pixels.
  const small = engineWith({ limits: { maxMemoryBytes: 300 * 2 ** 20 } });
  const path = file(flatPng(17_000, 17_000));
  await expect(small.identify(path)).rejects.toMatchObject({ code: 'too_many_pixels' });
  expect(small.stats.identify.restarts).toBe(0);
});

test('fault 7: a GIF of 5,000 frames is refused by its header', async () => {
  await expect(engine.identify(file(solidGif(4, 5_000)))).rejects.toMatchObject({ code: 'too_many_frames' });
});

test('fault 14 (engine): a child that dies fails only its own render, with the reason', async () => {
  const exits: string[] = [];
  const dying = engineWith({
    concurrency: 1,
    onChildExit: ({ pool, reason, signal }) => exits.push(`${pool} ${reason} ${signal}`),
  });
  const path = file(await quarters(3000, 2000).jpeg().toBuffer());
  const source = await dying.identify(path);
  const slow = parsePresets([{ name: 'slow', container: 'avif', width: 3000, effort: 9 }]);
  const folder = outDir();
  const render = dying.render({ path, source, plan: planRenditions(source, slow), outDir: folder });
  const ended = expect(render).rejects.toMatchObject({
    code: 'engine_crashed',
    retryable: true,
    message: expect.stringContaining('SIGSEGV'),
  });
  await expect.poll(() => dying.stats.render.busy, { timeout: 20_000 }).toBe(1);
  // Not before: each render makes its folder before it queues, so two simultaneous ones could start in any order.
  const next = dying.render({ path, source, plan: planRenditions(source, plain), outDir: outDir() });
  await expect.poll(() => dying.stats.render.queued, { timeout: 20_000 }).toBe(1);
  for (const pid of dying.stats.render.pids) process.kill(pid, 'SIGSEGV');
  await ended;
  expect(readdirSync(folder).filter((name) => !name.endsWith('.partial'))).toEqual([]);
  expect((await next).renditions.every(({ state }) => state === 'ready')).toBe(true);
  expect(exits).toEqual(['render crashed SIGSEGV']);
  expect(dying.stats.render.restarts).toBe(1);
});

test('fault 14 (engine): a render whose child dies still reports its programs', async () => {
  const { clip } = clipMaker(outDir());
  // 4:4:4, so that it is encoded, not copied.
  const path = clip('slow.mp4', [...picture('s=640x360:r=25:d=60'), ...h264, '-pix_fmt', 'yuv444p']);
  const presets = parsePresets([
    { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 320 },
    { type: 'hls', speed: 'slower' },
  ]);
  const dying = engineWith({ concurrency: 1 });
  const source = await dying.identify(path);
  let killed = false;
  const onProgress = ({ done, fraction }: RenderProgress) => {
    // The poster is at most a tenth of the work, so beyond that the ladder's ffmpeg is running.
    if (killed || done !== 1 || fraction < 0.1) return;
    killed = true;
    for (const pid of dying.stats.render.pids) process.kill(pid, 'SIGKILL');
  };
  const plan = planRenditions(source, presets);
  const render = dying.render({ path, source, plan, outDir: outDir() }, { onProgress });
  const error = await render.catch((thrown: unknown) => thrown);
  if (!(error instanceof RenderError)) throw new Error('The render continued without its process.');
  expect(error.code).toBe('engine_crashed');
  const poster = error.runs.filter(({ step }) => step === 'poster');
  expect(poster.length).toBeGreaterThan(0);
  expect(poster.map(({ outcome }) => outcome)).toEqual(poster.map(() => 'ok'));
  const ladder = error.runs.filter(({ step }) => step === 'ladder').at(-1);
  expect(ladder).toMatchObject({ outcome: 'was cut off: the process that ran it ended' });
  expect(ladder?.argv.slice(0, 1)).toEqual(['ffmpeg']);
  expect(ladder?.argv).toContain('SOURCE');
  expect(JSON.stringify(error.runs)).not.toContain(path);
}, 60_000);

test('fault 14 (engine): a render over its time or memory fails with that reason', async () => {
  const path = file(await quarters(3000, 2000).jpeg().toBuffer());
  const slow = parsePresets([{ name: 'slow', container: 'avif', width: 3000, effort: 9 }]);
  const source = await engine.identify(path);
  const job = () => ({ path, source, plan: planRenditions(source, slow), outDir: outDir() });
  await expect(engineWith({ limits: { renderTimeoutMs: 300 } }).render(job())).rejects.toMatchObject({
    code: 'render_timeout',
    retryable: true,
  });
  await expect(engineWith({ limits: { maxMemoryBytes: 150 * 2 ** 20 } }).render(job())).rejects.toMatchObject({
    code: 'out_of_memory',
    retryable: false,
  });
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 200);
  await expect(engine.render(job(), { signal: controller.signal })).rejects.toMatchObject({ code: 'aborted' });
});

const pictures = formats.filter(({ kind }) => kind === 'image');
const samples = pictures.map((format) => ({ id: format.id, bytes: readFileSync(samplePath(format)) }));

test('fault 22: a file cut anywhere ends ready with a warning, or fails with a reason', async () => {
  const outcomes: Record<string, string[]> = {};
  for (const { id, bytes } of samples) {
    outcomes[id] = [];
    for (const share of [0, 0.02, 0.3, 0.6, 0.9]) {
      outcomes[id].push(await outcomeOf(file(bytes.subarray(0, Math.floor(bytes.length * share)))));
    }
    expect(outcomes[id][0]).toBe('rejected empty_file');
    // An image that lost half of its bytes must not pass as complete.
    expect(outcomes[id].slice(1, 4), id).not.toContain('ready');
    expect(outcomes[id].join(), id).not.toMatch(/crashed|timeout/);
  }
});

test('fault 22: a photograph that lost its second half is shown with a warning', async () => {
  const noise = seededRandom(7);
  const pixels = Buffer.from(Array.from({ length: 300 * 200 * 3 }, () => noise() * 255));
  const { sharp } = await import('./vips.ts');
  const picture = () => sharp(pixels, { raw: { width: 300, height: 200, channels: 3 } });
  for (const bytes of [await picture().jpeg().toBuffer(), await picture().gif().toBuffer()]) {
    expect(await outcomeOf(file(bytes.subarray(0, bytes.length / 2)))).toBe('ready with warnings');
  }
});

test('fault 22: a PNG with wrong bytes fails: its decoder would invent pixels', async () => {
  const noise = seededRandom(8);
  const pixels = Buffer.from(Array.from({ length: 100 * 100 * 3 }, () => noise() * 255));
  const { sharp } = await import('./vips.ts');
  const png = await sharp(pixels, { raw: { width: 100, height: 100, channels: 3 } })
    .png()
    .toBuffer();
  png.fill(0x55, png.length / 2, png.length / 2 + 64);
  expect(await outcomeOf(file(png))).toBe('failed corrupt_media');
});

test('fault 22: a file of two formats counts as one of them or is refused', async () => {
  const of = (id: string) => samples.find((sample) => sample.id === id)?.bytes ?? Buffer.alloc(0);
  // The SVG after the image is ignored: the first bytes decide the format.
  expect(await outcomeOf(file(Buffer.concat([of('jpeg'), of('svg')])))).toBe('ready');
  expect(await outcomeOf(file(Buffer.concat([of('png'), Buffer.from('PK\x03\x04'), of('gif')])))).toBe('ready');
  expect(await outcomeOf(file(Buffer.concat([of('gif'), of('jpeg')])))).toMatch(/^ready/);
  expect(await outcomeOf(file(Buffer.concat([Buffer.from('%PDF-1.4\n'), of('png')])))).toBe(
    'rejected unsupported_format',
  );
  // The first bytes of one format on the body of another.
  for (const head of samples) {
    for (const body of samples) {
      if (head.id === body.id) continue;
      const chimera = Buffer.concat([head.bytes.subarray(0, 16), body.bytes.subarray(16)]);
      expect(await outcomeOf(file(chimera)), `${head.id} on ${body.id}`).toMatch(/^(rejected|failed|ready)/);
    }
  }
  expect(engine.stats.identify.restarts + engine.stats.render.restarts).toBe(0);
});

test('fault 22: 240 mutated files of all formats cause no crash and no hang', async () => {
  const random = seededRandom(20_261_120);
  const fixtures = ['alpha.heic', 'p3-profile.heic', 'ten-bit.heic'].map((name) => ({
    id: name,
    bytes: readFileSync(new URL(`../test/fixtures/${name}`, import.meta.url)),
  }));
  const originals = [...samples, ...fixtures, { id: 'animation', bytes: solidGif(16, 8) }];
  const outcomes = new Map<string, number>();
  const mutants = Array.from({ length: 240 }, (_, index) => {
    const { bytes } = originals[index % originals.length] ?? { bytes: Buffer.alloc(0) };
    const mutant = Buffer.from(bytes);
    const changes = 1 + Math.floor(random() * 8);
    for (let change = 0; change < changes; change++) {
      const at = Math.floor(random() * mutant.length);
      const extreme = [0, 1, 0x7f, 0x80, 0xff][Math.floor(random() * 5)] ?? 0;
      mutant[at] = random() < 0.5 ? Math.floor(random() * 256) : extreme;
    }
    return file(mutant);
  });
  const worker = async () => {
    for (let path = mutants.pop(); path !== undefined; path = mutants.pop()) {
      const outcome = await outcomeOf(path);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  };
  await Promise.all([worker(), worker()]);
  const counted = JSON.stringify([...outcomes]);
  expect([...outcomes.values()].reduce((sum, count) => sum + count, 0)).toBe(240);
  expect(counted).not.toMatch(/crashed|timeout|aborted/);
  expect(outcomes.get('ready')).toBeGreaterThan(10);
  expect(await engine.selfTest()).toMatchObject({ ok: true });
}, 60_000);
