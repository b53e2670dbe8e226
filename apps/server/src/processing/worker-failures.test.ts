import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Engine, findPrograms, parsePresets, type RenderJob } from '@mds/transcode';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { smallVolume } from '../../test/support/small-volume.ts';
import { AppError } from '../base/app-error.ts';
import { originalKey } from '../base/object-key.ts';
import type { MediaRecord } from '../db/media-repository.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { type Rendering, workerFixture } from './worker.fixture.ts';

const fixture = workerFixture();
const { engine, startWorker, add, ended, rendition, keys, around } = fixture;

describe('worker: failures', () => {
  it('fault 14: a media object that kills every decoder fails after 3 attempts', async () => {
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
    expect(await fixture.repositories.media.find(killer.id)).toMatchObject({
      attempts: 3,
      failure: { code: 'engine_crashed', retryable: true, message: expect.stringMatching(/SIGKILL/) },
    });
    expect((await fixture.repositories.media.renditions(killer.id)).map(({ state }) => state)).toEqual([
      'failed',
      'failed',
    ]);
    expect(await keys(`renditions/${killer.sha256.slice(0, 2)}/${killer.sha256}`)).toEqual([]);
    expect(await fixture.repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
  });

  it('fault 14: explain shows the programs that a dead process had run', async () => {
    const film = join(fixture.root, 'film.mp4');
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
      .poll(async () => (await fixture.repositories.jobs.attempts(id))[0]?.outcome, { timeout: 30_000 })
      .toBe('retried');
    await fixture.worker?.stop({ graceMs: 0 });
    const runs = (await fixture.repositories.jobs.attempts(id))[0]?.report?.runs ?? [];
    expect(runs).toContainEqual(expect.objectContaining({ step: 'poster', outcome: 'ok' }));
    expect(runs.at(-1)).toMatchObject({ step: 'ladder', outcome: expect.stringContaining('cut off') });
  }, 60_000);

  it('fault 14: after one crash by chance, the media object becomes ready', async () => {
    const { id } = await add(noisePng('a'));
    let first = true;
    const once = around((_, go) => {
      if (!first) return go();
      first = false;
      return dyingDecoder(go);
    });
    startWorker({ engine: once });
    await ended(id).toBe('ready');
    expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 2, failure: null });
  });

  it('fault 18: no rendition is made of an original with a flipped byte', async () => {
    const picture = noisePng('a', 200, 200);
    const { id, sha256 } = await add(picture);
    const path = (await fixture.store.localFile(originalKey(sha256)))?.path ?? '';
    const bytes = await readFile(path);
    bytes[60_000] = (bytes[60_000] ?? 0) ^ 1;
    await writeFile(path, bytes);
    startWorker();
    await ended(id).toBe('failed');
    expect(await fixture.repositories.media.find(id)).toMatchObject({
      attempts: 1,
      failure: { code: 'object_corrupt', retryable: false, message: expect.stringContaining('Upload the file again') },
    });
    expect(await keys('renditions/')).toEqual([]);
    await add(picture);
    await ended(id).toBe('ready');
  });

  it('fault 19: the attempt shows that a media object waits for the storage', async () => {
    const { id } = await add(noisePng('a'));
    let isAway = true;
    const away: ObjectStore = {
      ...fixture.store,
      localFile: (key) =>
        isAway ? Promise.reject(new AppError('unavailable', 'No answer from 10.0.0.7.')) : fixture.store.localFile(key),
    };
    startWorker({ store: away });
    await expect
      .poll(async () => (await fixture.repositories.jobs.attempts(id))[0], { timeout: 10_000 })
      .toMatchObject({ outcome: 'released', failure: { code: 'unavailable', retryable: true } });
    expect((await fixture.repositories.jobs.findJobViews([id]))[0]?.lastReason).toBe(
      'The storage or the database did not answer. Processing continues when they do.',
    );
    isAway = false;
    await ended(id).toBe('ready');
    expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 1 });
  });

  it('fault 18: a missing original is reported as object_missing', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    await fixture.store.delete(originalKey(sha256));
    startWorker();
    await ended(id).toBe('failed');
    expect(await fixture.repositories.media.find(id)).toMatchObject({
      attempts: 1,
      failure: { code: 'object_missing' },
    });
  });

  it('fault 22: damaged pixels give a warning or a failure at the first attempt', async () => {
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
      const mediaObject = await fixture.repositories.media.find(id);
      expect(mediaObject?.attempts).toBe(1);
      if (mediaObject?.status === 'ready') expect(mediaObject.warnings).not.toEqual([]);
      else expect(mediaObject?.failure?.message).toMatch(/^[A-Z].*\.$/);
    }
  });

  it('one failed rendition keeps its reason, and the media object is ready', async () => {
    const { id } = await add(noisePng('a'));
    let renders = 0;
    const blocked = around(async (job, go) => {
      renders++;
      // A folder has the name of the output file: a real failure to write this one rendition.
      await mkdir(join(job.outDir, 'small.jpg'), { recursive: true });
      return go();
    });
    startWorker({ engine: blocked });
    await ended(id).toBe('ready');
    // A write may fail by chance, so it was retried like any other failure.
    expect(renders).toBe(3);
    expect(await rendition(id, 'thumb', 'webp')).toMatchObject({ state: 'ready' });
    expect(await rendition(id, 'small', 'jpg')).toBeNull();
    const small = (await fixture.repositories.media.renditions(id)).find(({ name }) => name === 'small');
    expect(small).toMatchObject({ state: 'failed', reason: expect.stringMatching(/\w{5}/) });
  });

  it('an unexpected error is retried, then reported without its inner details', async () => {
    const { id } = await add(noisePng('a'));
    startWorker({ engine: around(() => Promise.reject(new Error(`secret ${fixture.root}`))) });
    await ended(id).toBe('failed');
    const mediaObject = await fixture.repositories.media.find(id);
    expect(mediaObject).toMatchObject({ attempts: 3, failure: { code: 'internal_error', retryable: true } });
    expect(mediaObject?.failure?.message).not.toContain('secret');
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
      expect((await fixture.repositories.media.find(id))?.status).toMatch(/queued|processing/);
      await rm(filler);
      await ended(id).toBe('ready');
      expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 1 });
    });
  });

  it.skipIf(!volume.available)('fault 17: a full store costs no attempt: the media object waits for room', async () => {
    await volume.use(async (small) => {
      const { id, sha256 } = await add(noisePng('a'));
      const cramped = createLocalObjectStore({ root: join(small, 'objects') });
      const copy = join(fixture.root, 'copy');
      await writeFile(copy, (await fixture.store.readAll(originalKey(sha256))) ?? '');
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
      expect((await fixture.repositories.media.find(id))?.status).toMatch(/queued|processing/);
      for (const name of await readdir(small)) if (name.startsWith('filler')) await rm(join(small, name));
      await ended(id).toBe('ready');
      expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 1 });
      await fixture.worker?.stop();
      fixture.worker = null;
    });
  });
});

/**
 * A render whose process dies by SIGKILL, as by a memory error in native code. It reads from a pipe without a
 * writer, so it cannot finish before the signal, however busy the machine is.
 */
async function dyingDecoder(go: (changed: Partial<RenderJob>) => Rendering): Rendering {
  const path = join(fixture.root, `endless-${randomUUID()}`);
  await promisify(execFile)('mkfifo', [path]);
  const outcome = go({ path });
  const hunt = setInterval(() => {
    for (const pid of engine.stats.render.busy > 0 ? engine.stats.render.pids : []) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        // The process was dead already, unnoticed so far.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }, 2);
  return outcome.finally(() => clearInterval(hunt));
}
