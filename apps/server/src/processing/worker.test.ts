import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import {
  createEngine,
  defaultPresets,
  type Engine,
  findPrograms,
  parsePresets,
  planRenditions,
  RenderError,
  type RenderJob,
} from '@mds/transcode';
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { noisePng } from '../../test/pictures.ts';
import { smallVolume } from '../../test/small-volume.ts';
import type { MediaRecord } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createIngest, type Ingest } from '../ingest/ingest.ts';
import { createKeyedLock } from '../ingest/keyed-lock.ts';
import { createMediaRemoval } from '../ingest/media-removal.ts';
import { createLogger } from '../logger.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import { type ObjectStore, originalKey, renditionKey } from '../storage/object-store.ts';
import { createWorker, type Worker, type WorkerParts, type WorkerTiming } from './worker.ts';

const engine = createEngine({ concurrency: 2 });
afterAll(() => engine.stop());
type Rendering = ReturnType<Engine['render']>;
const logger = createLogger('silent');
/** Quick to make, so that tests are about the worker and not about encoders. */
const presets = parsePresets([
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  { name: 'small', container: 'jpeg', width: 48, height: 48 },
]);
const QUICK: WorkerTiming = { beatMs: 50, pollMs: 50, progressMs: 20, retryMs: 5, storagePauseMs: 50 };

let root: string;
let scratchDir: string;
let repositories: Repositories;
let store: ObjectStore;
let ingest: Ingest;
let worker: Worker | null;
const lock = createKeyedLock();

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-worker-'));
  scratchDir = join(root, 'scratch');
  await mkdir(join(root, 'staging'));
  await mkdir(scratchDir);
  repositories = openSqliteRepositories(join(root, 'mds.sqlite'));
  store = createLocalObjectStore({ root: join(root, 'objects') });
  ingest = createIngest({
    media: repositories.media,
    store,
    engine,
    lock,
    stagingDir: join(root, 'staging'),
    maxUploadBytes: 50_000_000,
    logger,
    onAccepted: () => worker?.wake(),
  });
  worker = null;
});
afterEach(async () => {
  await worker?.stop({ graceMs: 0 });
  await repositories.close();
  await rm(root, { recursive: true });
});

const startWorker = (overrides: Partial<WorkerParts> = {}) => {
  const { jobs, media, pieceDigests } = repositories;
  const parts = {
    id: 'w1',
    jobs,
    media,
    pieceDigests,
    store,
    engine,
    presets,
    scratchDir,
    concurrency: 1,
    logger,
    timing: QUICK,
  };
  worker = createWorker({ ...parts, ...overrides });
  worker.start();
  return worker;
};
const add = async (picture: Buffer): Promise<MediaRecord> => {
  const { media } = await ingest.ingest({
    projectId: 'default',
    body: Readable.from([picture]),
    filename: null,
    idempotencyKey: null,
    duplicate: 'existing',
    declaredBytes: null,
  });
  return media;
};
const ended = (id: string) =>
  expect.poll(async () => (await repositories.media.find(id))?.status, { interval: 10, timeout: 15_000 });
const rendition = (mediaId: string, name: string, extension: string) =>
  repositories.media.findRendition({ mediaId, name, extension, revision: null });
const keys = async (prefix = '') => {
  const found: string[] = [];
  for await (const { key } of store.list(prefix)) found.push(key);
  return found.sort();
};
/** The engine, with something done around each of its renders. */
const around = (
  render: (job: RenderJob, go: (changed?: Partial<RenderJob>) => Rendering) => Rendering,
): Pick<Engine, 'identify' | 'render'> => ({
  identify: engine.identify,
  render: (job, options) => render(job, (changed) => engine.render({ ...job, ...changed }, options)),
});
/**
 * A render whose process dies by SIGKILL, as it would by a memory error in native code. It reads from a pipe that nobody
 * writes to, so that it cannot be done before the signal comes, however busy the machine is.
 */
async function dyingDecoder(go: (changed: Partial<RenderJob>) => Rendering): Rendering {
  const path = join(root, `endless-${randomUUID()}`);
  await promisify(execFile)('mkfifo', [path]);
  const outcome = go({ path });
  const hunt = setInterval(() => {
    for (const pid of engine.stats.render.busy > 0 ? engine.stats.render.pids : []) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        // It was dead already, and nobody had noticed.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }, 2);
  return outcome.finally(() => clearInterval(hunt));
}

describe('worker', () => {
  it('makes every planned rendition of a medium, byte for byte as recorded, and leaves no scratch behind', async () => {
    const { id, sha256 } = await add(noisePng('a', 400, 300));
    startWorker({ presets: defaultPresets });
    await ended(id).toBe('ready');
    const medium = await repositories.media.find(id);
    expect(medium).toMatchObject({ attempts: 1, failure: null });
    expect(medium?.thumbhash).toMatch(/^[\w+/]{10,}=*$/);
    const rows = await repositories.media.renditions(id);
    expect(rows.map(({ name, extension }) => `${name}.${extension}`).sort()).toEqual(
      defaultPresets
        .filter(({ source_kinds }) => source_kinds.some((kind) => kind === 'image'))
        .map(({ name, extension }) => `${name}.${extension}`)
        .sort(),
    );
    for (const row of rows) {
      const bytes = await store.readAll(row.objectKey ?? '');
      expect(row, row.name).toMatchObject({ state: 'ready', current: true, bytes: bytes?.length });
      expect(
        createHash('sha256')
          .update(bytes ?? '')
          .digest('hex'),
      ).toBe(row.sha256);
      expect(row.objectKey).toBe(renditionKey({ ...row, sourceSha256: sha256 }));
    }
    expect(rows.find(({ name }) => name === 'thumb')).toMatchObject({ width: 320, height: 240 });
    expect(await readdir(scratchDir)).toEqual([]);
    expect(await repositories.jobs.held()).toEqual([]);
  });

  it('starts at once when woken, without waiting for its next look at the queue', async () => {
    startWorker({ timing: { ...QUICK, pollMs: 60_000 } });
    const { id } = await add(noisePng('a'));
    await ended(id).toBe('ready');
  });

  it('finds by itself what another process put into the queue', async () => {
    startWorker();
    const awake = worker;
    worker = null;
    const { id } = await add(noisePng('a'));
    await ended(id).toBe('ready');
    worker = awake;
  });

  it('does no more at once than it is told, and all of it in the end', async () => {
    let now = 0;
    let most = 0;
    const counting = around(async (_, go) => {
      most = Math.max(most, ++now);
      return go().finally(() => now--);
    });
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push((await add(noisePng(n))).id);
    startWorker({ engine: counting, concurrency: 2 });
    for (const id of ids) await ended(id).toBe('ready');
    expect(most).toBe(2);
  });

  it('invariant 5: a second run writes the same keys, and makes only what is missing', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    const made: string[][] = [];
    const watched = around(async (job, go) => {
      made.push(job.plan.map(({ name }) => name));
      return go();
    });
    let broken = true;
    const media = {
      ...repositories.media,
      publish: async (...args: Parameters<typeof repositories.media.publish>) => {
        if (!broken) return repositories.media.publish(...args);
        broken = false;
        // One is published, as by an earlier run of other presets; then the process that did it is gone.
        const [lease, { renditions }] = args;
        await repositories.media.start(
          lease,
          renditions.filter(({ name }) => name === 'thumb'),
        );
        throw new Error('gone');
      },
    };
    startWorker({ engine: watched, media });
    await ended(id).toBe('ready');
    expect(made).toEqual([['thumb', 'small'], ['small']]);
    expect(await keys('renditions/')).toHaveLength(2);
    expect(await repositories.media.find(id)).toMatchObject({ attempts: 2 });
    expect((await rendition(id, 'thumb', 'webp'))?.objectKey).toContain(sha256);
  });

  it('fault 18: a rendition whose object was lost is made again by the next run, though its row says ready', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    const lease = await repositories.jobs.claim('before');
    if (!lease) throw new Error('There is nothing to claim.');
    const source = await engine.identify((await store.localFile((await keys())[0] ?? ''))?.path ?? '');
    const [planned] = planRenditions(source, presets);
    const { name = '', extension = '', contentType = '', revision = '' } = planned ?? {};
    const objectKey = renditionKey({ sourceSha256: sha256, name, extension, revision });
    const lost = { current: true, state: 'ready' as const, reason: null, objectKey, sha256: 'x', bytes: 3 };
    const row = { name, extension, contentType, revision, ...lost, files: 1, width: 1, height: 1 };
    await repositories.media.start(lease, [row]);
    await repositories.jobs.giveBack(lease, { kind: 'released' });
    startWorker();
    await ended(id).toBe('ready');
    const again = await rendition(id, 'thumb', 'webp');
    expect((await store.readAll(again?.objectKey ?? ''))?.length).toBe(again?.bytes);
  });
});

describe('worker: a film', () => {
  it('whose MP4 was lost gets the same bytes again, though it is now made alone beside a copied ladder', async () => {
    const film = join(root, 'film.mp4');
    const { ffmpeg } = await findPrograms({});
    const x264 = ['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-b:v', '200k'];
    const keys = ['-g', '1000', '-sc_threshold', '0', '-force_key_frames', '1.6,3.8'];
    const input = ['-v', 'error', '-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=25:d=6'];
    await promisify(execFile)(ffmpeg.path, [...input, ...x264, ...keys, film]);
    const small = parsePresets([
      { type: 'hls', segment_seconds: 2, rungs: [{ name: '180p', width: 320, height: 180, bitrate: 1_000_000 }] },
      { type: 'mp4', name: 'mp4', width: 160, height: 90 },
    ]);
    const { id } = await add(await readFile(film));
    // With a lookahead in a thread of its own, x264 gives other bytes in a few of a hundred equal runs.
    const script = join(root, 'steady-ffmpeg');
    const words = [
      ...['#!/bin/sh', 'for word do', 'shift', 'set -- "$@" "$word"'],
      'if [ "$word" = libx264 ]; then set -- "$@" -x264-params sync-lookahead=0; fi',
      ...['done', `exec "${ffmpeg.path}" "$@"`],
    ];
    await writeFile(script, words.join('\n'), { mode: 0o755 });
    const steady = createEngine({ concurrency: 1, programs: { ffmpeg: script } });
    onTestFinished(() => steady.stop());
    startWorker({ presets: small, engine: steady });
    await ended(id).toBe('ready');
    const notes = (await repositories.jobs.attempts(id))[0]?.report?.notes ?? [];
    expect(notes.join()).toMatch(/180p: copied/);
    const first = await rendition(id, 'mp4', 'mp4');
    await store.delete(first?.objectKey ?? '');
    await repositories.media.rederive([first?.objectKey ?? '']);
    expect(await rendition(id, 'mp4', 'mp4')).toBeNull();
    worker?.wake();
    await expect.poll(() => rendition(id, 'mp4', 'mp4'), { timeout: 15_000 }).not.toBeNull();
    const again = await rendition(id, 'mp4', 'mp4');
    expect([again?.sha256, again?.bytes]).toEqual([first?.sha256, first?.bytes]);
  }, 60_000);
});

describe('worker: a film of which only the sound can be made', () => {
  it('fails with the reason, for nothing of it can be watched', async () => {
    const film = join(root, 'film.mp4');
    const { ffmpeg } = await findPrograms({});
    const inputs = ['-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=25:d=2', '-f', 'lavfi', '-i', 'sine=d=2'];
    const codecs = ['-c:v', 'mpeg4', '-c:a', 'aac'];
    await promisify(execFile)(ffmpeg.path, ['-v', 'error', ...inputs, ...codecs, film]);
    const script = join(root, 'ffmpeg-without-pictures');
    const words = `#!/bin/sh\ncase "$*" in *libx264*) exit 1 ;; *) exec "${ffmpeg.path}" "$@" ;; esac\n`;
    await writeFile(script, words, { mode: 0o755 });
    const blind = createEngine({ concurrency: 1, programs: { ffmpeg: script } });
    onTestFinished(() => blind.stop());
    const heard = parsePresets([
      { type: 'audio', name: 'speech', source_kinds: ['audio', 'video'] },
      { type: 'mp4', name: 'mp4' },
    ]);
    const { id } = await add(await readFile(film));
    startWorker({ engine: blind, presets: heard });
    await ended(id).toBe('failed');
    expect(await repositories.media.find(id)).toMatchObject({ failure: { code: 'corrupt_media' } });
    expect((await rendition(id, 'speech', 'm4a'))?.state).toBe('ready');
  }, 60_000);
});

describe('worker: a medium that is deleted while it is rendered', () => {
  /** A render that would never end by itself. @returns resolves when it was told to stop */
  const endless = (onStart: (progress: () => void) => void) => {
    let told: (ms: number) => void = () => undefined;
    const stopped = new Promise<number>((resolve) => {
      told = resolve;
    });
    const render: Engine['render'] = (_, { signal, onProgress } = {}) => {
      const began = performance.now();
      onStart(() => onProgress?.({ done: 0, total: 2, fraction: 0.5, rendition: null }));
      return new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          told(performance.now() - began);
          reject(new RenderError('aborted', 'It was stopped.'));
        });
      });
    };
    return { stopped, engine: { identify: engine.identify, render } };
  };
  const NEVER = { beatMs: 600_000, pollMs: 600_000, progressMs: 600_000 };

  it('is given up at the next look at its lease, however silent the render is', async () => {
    let started = false;
    const { stopped, engine: silent } = endless(() => {
      started = true;
    });
    const { id } = await add(noisePng('a'));
    startWorker({ engine: silent, timing: { ...QUICK, ...NEVER, pollMs: 30 } });
    await expect.poll(() => started).toBe(true);
    await repositories.media.delete(id);
    expect(await stopped).toBeLessThan(5_000);
    await expect.poll(() => readdir(scratchDir)).toEqual([]);
  });

  it('is given up when its progress has nowhere to be noted', async () => {
    const begun: { progress: (() => void) | null } = { progress: null };
    const { stopped, engine: telling } = endless((progress) => {
      begun.progress = progress;
    });
    const { id } = await add(noisePng('a'));
    startWorker({ engine: telling, timing: { ...QUICK, ...NEVER, progressMs: 0 } });
    await expect.poll(() => begun.progress).not.toBeNull();
    begun.progress?.();
    await expect.poll(async () => (await repositories.jobs.underWay())[0]?.progress).toBe(0.5);
    await repositories.media.delete(id);
    begun.progress?.();
    expect(await stopped).toBeLessThan(5_000);
  });
});

describe('worker: what fails', () => {
  it('fault 14: a medium that kills every process that decodes it fails after 3 attempts, and the next one is made', async () => {
    const killer = await add(noisePng('killer', 99, 99));
    const next = await add(noisePng('next'));
    let deaths = 0;
    const deadly = around((job, go) => {
      if (job.source.width !== 99) return go();
      return dyingDecoder(go).finally(() => deaths++);
    });
    startWorker({ engine: deadly });
    await ended(killer.id).toBe('failed');
    await ended(next.id).toBe('ready');
    expect(deaths).toBe(3);
    expect(await repositories.media.find(killer.id)).toMatchObject({
      attempts: 3,
      failure: { code: 'engine_crashed', retryable: true, message: expect.stringMatching(/SIGKILL/) },
    });
    expect((await repositories.media.renditions(killer.id)).map(({ state }) => state)).toEqual(['failed', 'failed']);
    expect(await keys(`renditions/${killer.sha256.slice(0, 2)}/${killer.sha256}`)).toEqual([]);
    expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
  });

  it('fault 14: explain shows which programs a process had run when it died, and which one it was running', async () => {
    const film = join(root, 'film.mp4');
    const source = 'testsrc2=s=640x360:r=25:d=40';
    const x264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'];
    const { ffmpeg } = await findPrograms({});
    await promisify(execFile)(ffmpeg.path, ['-v', 'error', '-f', 'lavfi', '-i', source, ...x264, film]);
    const { id } = await add(await readFile(film));
    let killed = false;
    const deadly: Pick<Engine, 'identify' | 'render'> = {
      identify: engine.identify,
      render: (job, options) =>
        engine.render(job, {
          ...options,
          onProgress: (progress) => {
            options?.onProgress?.(progress);
            if (killed || progress.fraction < 0.1) return;
            killed = true;
            for (const pid of engine.stats.render.pids) process.kill(pid, 'SIGKILL');
          },
        }),
    };
    const slow = parsePresets([
      { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 320 },
      { type: 'hls', speed: 'slower' },
    ]);
    startWorker({ engine: deadly, presets: slow });
    await expect
      .poll(async () => (await repositories.jobs.attempts(id))[0]?.outcome, { timeout: 30_000 })
      .toBe('retried');
    await worker?.stop({ graceMs: 0 });
    const runs = (await repositories.jobs.attempts(id))[0]?.report?.runs ?? [];
    expect(runs).toContainEqual(expect.objectContaining({ step: 'poster', outcome: 'ok' }));
    expect(runs.at(-1)).toMatchObject({ step: 'ladder', outcome: expect.stringContaining('cut off') });
  }, 60_000);

  it('fault 14: one crash by chance costs nothing: the medium is ready after the second attempt', async () => {
    const { id } = await add(noisePng('a'));
    let first = true;
    const once = around((_, go) => {
      if (!first) return go();
      first = false;
      return dyingDecoder(go);
    });
    startWorker({ engine: once });
    await ended(id).toBe('ready');
    expect(await repositories.media.find(id)).toMatchObject({ attempts: 2, failure: null });
  });

  it('fault 18: a flipped byte in the original is told as such, at once, and no rendition is made of it', async () => {
    const picture = noisePng('a', 200, 200);
    const { id, sha256 } = await add(picture);
    const path = (await store.localFile(originalKey(sha256)))?.path ?? '';
    const bytes = await readFile(path);
    bytes[60_000] = (bytes[60_000] ?? 0) ^ 1;
    await writeFile(path, bytes);
    startWorker();
    await ended(id).toBe('failed');
    expect(await repositories.media.find(id)).toMatchObject({
      attempts: 1,
      failure: { code: 'object_corrupt', retryable: false, message: expect.stringContaining('Upload the file again') },
    });
    expect(await keys('renditions/')).toEqual([]);
    await add(picture);
    await ended(id).toBe('ready');
  });

  it('fault 18: a missing original is told as such', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    await store.delete(originalKey(sha256));
    startWorker();
    await ended(id).toBe('failed');
    expect(await repositories.media.find(id)).toMatchObject({ attempts: 1, failure: { code: 'object_missing' } });
  });

  it('fault 22: damaged pixels end in ready with a warning or in failed with a reason, at the first attempt', async () => {
    const picture = noisePng('a', 200, 200);
    const damaged = [
      Buffer.from(picture).fill(0xa5, 50_000, 50_500),
      picture.subarray(0, Math.floor(picture.length * 0.8)),
      Buffer.concat([picture.subarray(0, 80_000), picture.subarray(80_007)]),
    ];
    const ids: string[] = [];
    for (const bytes of damaged) {
      const accepted = await add(bytes).catch((error: unknown) => error);
      if (accepted instanceof Error) expect(accepted).toMatchObject({ status: 422 });
      else ids.push((accepted as MediaRecord).id);
    }
    const whole = await add(picture);
    startWorker();
    await ended(whole.id).toBe('ready');
    for (const id of ids) {
      await ended(id).toMatch(/^(ready|failed)$/);
      const medium = await repositories.media.find(id);
      expect(medium?.attempts).toBe(1);
      if (medium?.status === 'ready') expect(medium.warnings).not.toEqual([]);
      else expect(medium?.failure?.message).toMatch(/^[A-Z].*\.$/);
    }
  });

  it('a rendition that fails alone is failed with its reason, and the medium is ready with the others', async () => {
    const { id } = await add(noisePng('a'));
    let renders = 0;
    const blocked = around(async (job, go) => {
      renders++;
      // A folder stands where the file has to go: a real failure to write this one rendition.
      await mkdir(join(job.outDir, 'small.jpg'), { recursive: true });
      return go();
    });
    startWorker({ engine: blocked });
    await ended(id).toBe('ready');
    // Writing may fail by chance, so it was tried as often as anything.
    expect(renders).toBe(3);
    expect(await rendition(id, 'thumb', 'webp')).toMatchObject({ state: 'ready' });
    expect(await rendition(id, 'small', 'jpg')).toBeNull();
    const small = (await repositories.media.renditions(id)).find(({ name }) => name === 'small');
    expect(small).toMatchObject({ state: 'failed', reason: expect.stringMatching(/\w{5}/) });
  });

  it('what nobody foresaw is tried again and then told without its inner details', async () => {
    const { id } = await add(noisePng('a'));
    startWorker({ engine: around(() => Promise.reject(new Error(`secret ${root}`))) });
    await ended(id).toBe('failed');
    const medium = await repositories.media.find(id);
    expect(medium).toMatchObject({ attempts: 3, failure: { code: 'internal_error', retryable: true } });
    expect(medium?.failure?.message).not.toContain('secret');
  });

  const volume = smallVolume({ mebibytes: 1 });
  it.skipIf(!volume.available)('fault 17: a full scratch volume costs no attempt either', async () => {
    await volume.use(async (small) => {
      const { id } = await add(noisePng('a', 500, 500));
      const filler = join(small, 'filler');
      await writeFile(filler, Buffer.alloc(1_020_000));
      let renders = 0;
      const counting = around((_, go) => {
        renders++;
        return go();
      });
      const large = parsePresets([{ name: 'large', container: 'webp', width: 500, height: 500, quality: 100 }]);
      startWorker({ scratchDir: small, engine: counting, presets: large });
      await expect.poll(() => renders, { timeout: 10_000 }).toBeGreaterThan(4);
      expect((await repositories.media.find(id))?.status).toMatch(/queued|processing/);
      await rm(filler);
      await ended(id).toBe('ready');
      expect(await repositories.media.find(id)).toMatchObject({ attempts: 1 });
    });
  });

  it.skipIf(!volume.available)(
    'fault 17: a full store costs no attempt: the medium waits, and is ready when there is room',
    async () => {
      await volume.use(async (small) => {
        const { id, sha256 } = await add(noisePng('a'));
        const cramped = createLocalObjectStore({ root: join(small, 'objects') });
        const copy = join(root, 'copy');
        await writeFile(copy, (await store.readAll(originalKey(sha256))) ?? '');
        await cramped.put(originalKey(sha256), { path: copy, bytes: (await readFile(copy)).length, sha256 });
        const filler = join(small, 'filler');
        for (let size = 1_048_576; size >= 4096; size /= 2) {
          await writeFile(filler + size, Buffer.alloc(size)).catch((error: NodeJS.ErrnoException) =>
            expect(error.code).toBe('ENOSPC'),
          );
        }
        let renders = 0;
        const counting = around((_, go) => {
          renders++;
          return go();
        });
        startWorker({ store: cramped, engine: counting });
        await expect.poll(() => renders, { timeout: 10_000 }).toBeGreaterThan(4);
        expect((await repositories.media.find(id))?.status).toMatch(/queued|processing/);
        for (const name of await readdir(small)) if (name.startsWith('filler')) await rm(join(small, name));
        await ended(id).toBe('ready');
        expect(await repositories.media.find(id)).toMatchObject({ attempts: 1 });
        await worker?.stop();
        worker = null;
      });
    },
  );
});

describe('worker: objects that others take away', () => {
  it('a rendition that a late removal took before it was published is made again, never published as a dead link', async () => {
    const { id } = await add(noisePng('a'));
    let taken = 0;
    const robbed: ObjectStore = {
      ...store,
      put: async (key, file) => {
        await store.put(key, file);
        if (taken++ === 0) await store.delete(key);
      },
    };
    startWorker({ store: robbed });
    await ended(id).toBe('ready');
    expect(await repositories.media.find(id)).toMatchObject({ attempts: 2 });
    for (const { objectKey } of await repositories.media.renditions(id)) {
      expect(await store.stat(objectKey ?? '')).not.toBeNull();
    }
  });

  it('a medium of the same bytes as one that is removed keeps its renditions while they are made', async () => {
    const picture = noisePng('a');
    const first = await add(picture);
    startWorker();
    await ended(first.id).toBe('ready');
    const remover = createMediaRemoval({ media: repositories.media, store, lock, onRemoved: () => undefined, logger });
    for (let round = 0; round < 5; round++) {
      const [existing] = await repositories.media.page({ projectId: 'default', limit: 1, before: null });
      await Promise.all([remover.remove(existing?.id ?? ''), add(picture)]);
      const { id } = await add(picture);
      await ended(id).toBe('ready');
      for (const { objectKey, state } of await repositories.media.renditions(id)) {
        expect(state).toBe('ready');
        expect(await store.stat(objectKey ?? ''), `round ${round}`).not.toBeNull();
      }
    }
  });
});

describe('worker: leases', () => {
  /** A render that begins, and goes on when it is told to. */
  const gate = () => {
    let begin: () => void = () => undefined;
    let open: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    let first = true;
    const gated = around(async (_, go) => {
      if (!first) return go();
      first = false;
      begin();
      await opened;
      return go();
    });
    return { begun, open, gated };
  };

  it('a worker whose lease was taken away stops, publishes nothing, and the job runs again', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated, timing: { ...QUICK, pollMs: 60_000 } });
    await begun;
    const [held] = await repositories.jobs.held();
    await repositories.jobs.reclaim(held?.token ?? '', { counted: true });
    const second = createWorker({
      id: 'w2',
      jobs: repositories.jobs,
      media: repositories.media,
      pieceDigests: repositories.pieceDigests,
      store,
      engine,
      presets,
      scratchDir,
      concurrency: 1,
      logger,
      timing: QUICK,
    });
    second.start();
    await ended(id).toBe('ready');
    const before = await repositories.media.version();
    open();
    await worker?.stop();
    expect(await repositories.media.version()).toBe(before);
    expect((await repositories.media.renditions(id)).map(({ state }) => state)).toEqual(['ready', 'ready']);
    expect(await readdir(scratchDir)).toEqual([]);
    await second.stop();
  });

  it('a lease that is renewed is never taken away, however long the render', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated });
    await begun;
    const beat = async () => (await repositories.jobs.held())[0]?.beat ?? 0;
    const first = await beat();
    await expect.poll(beat).toBeGreaterThan(first + 1);
    open();
    await ended(id).toBe('ready');
  });

  it('a medium that is removed while it is rendered leaves no object behind', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    // Renewals and looks far apart: the worker learns of the removal only when it wants to publish.
    startWorker({
      engine: gated,
      timing: { beatMs: 60_000, pollMs: 60_000, progressMs: 60_000, retryMs: 5, storagePauseMs: 50 },
    });
    await begun;
    const original = (await store.readAll((await keys())[0] ?? '')) ?? Buffer.alloc(0);
    const remover = createMediaRemoval({ media: repositories.media, store, lock, onRemoved: () => undefined, logger });
    expect(await remover.remove(id)).toBe(true);
    // The render had the file open already.
    const path = join(root, 'objects', ...originalKey(createHash('sha256').update(original).digest('hex')).split('/'));
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, original);
    open();
    await worker?.stop();
    expect(await keys('renditions/')).toEqual([]);
    expect(await repositories.media.find(id)).toBeNull();
  });

  it('announces itself while it lives and signs off when it stops', async () => {
    startWorker();
    await expect
      .poll(() => repositories.jobs.workers())
      .toMatchObject([{ id: 'w1', pid: process.pid, concurrency: 1 }]);
    await worker?.stop();
    expect(await repositories.jobs.workers()).toEqual([]);
  });

  it('fault 15: a stop lets what runs finish, and claims nothing more', async () => {
    const running = await add(noisePng('a'));
    const waiting = await add(noisePng('b'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated });
    await begun;
    const stopped = worker?.stop({ graceMs: 10_000 });
    open();
    await stopped;
    expect((await repositories.media.find(running.id))?.status).toBe('ready');
    expect((await repositories.media.find(waiting.id))?.status).toBe('queued');
  });

  it('fault 15: a stop that cannot wait gives its jobs back, uncounted, and leaves no scratch', async () => {
    const { id } = await add(noisePng('a', 1200, 900));
    startWorker({ presets: defaultPresets });
    await ended(id).toBe('processing');
    const began = performance.now();
    await worker?.stop({ graceMs: 0 });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(await repositories.media.find(id)).toMatchObject({ status: 'queued', failure: null });
    expect(await repositories.jobs.held()).toEqual([]);
    expect(await readdir(scratchDir)).toEqual([]);
    expect(await repositories.jobs.claim('next')).toMatchObject({ attempt: 1 });
  });
});
