import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Engine, RenderError } from '@mds/transcode';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import type { MediaRecord } from '../db/media-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { QUICK, workerFixture } from './worker.fixture.ts';

const fixture = workerFixture();
const { engine, startWorker, add, ended, removal } = fixture;

describe('worker: a media object that is deleted during its render', () => {
  /** A render that never ends by itself. @returns resolves when the render was aborted */
  const endless = (onStart: (progress: () => void) => void) => {
    let reportStop: (ms: number) => void = () => undefined;
    const stopped = new Promise<number>((resolve) => {
      reportStop = resolve;
    });
    const render: Engine['render'] = (_, { signal, onProgress } = {}) => {
      const began = performance.now();
      onStart(() => onProgress?.({ done: 0, total: 2, fraction: 0.5, rendition: null }));
      return new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          reportStop(performance.now() - began);
          reject(new RenderError('aborted', 'It was stopped.'));
        });
      });
    };
    return { stopped, engine: { identify: engine.identify, render } };
  };
  const NEVER = { heartbeatMs: 600_000, pollMs: 600_000, progressMs: 600_000 };

  it('is given up at the next check of its lease, even if the render is silent', async () => {
    let started = false;
    const { stopped, engine: silent } = endless(() => {
      started = true;
    });
    const { id } = await add(noisePng('a'));
    startWorker({ engine: silent, timing: { ...QUICK, ...NEVER, pollMs: 30 } });
    await expect.poll(() => started).toBe(true);
    await fixture.repositories.media.delete(id);
    expect(await stopped).toBeLessThan(5_000);
    await expect.poll(() => readdir(fixture.scratchDir)).toEqual([]);
  });

  it('is given up when its progress can no longer be recorded', async () => {
    const begun: { progress: (() => void) | null } = { progress: null };
    const { stopped, engine: reporting } = endless((progress) => {
      begun.progress = progress;
    });
    const { id } = await add(noisePng('a'));
    startWorker({ engine: reporting, timing: { ...QUICK, ...NEVER, progressMs: 0 } });
    await expect.poll(() => begun.progress).not.toBeNull();
    begun.progress?.();
    await expect.poll(async () => (await fixture.repositories.jobs.underWay())[0]?.progress).toBe(0.5);
    await fixture.repositories.media.delete(id);
    begun.progress?.();
    expect(await stopped).toBeLessThan(5_000);
  });
});

describe('worker: objects stored for a deleted media object', () => {
  /** Renders a media object that is deleted after its first rendition was stored. @returns keys the worker removed */
  const putTooLate = async (picture: Buffer<ArrayBuffer>, meanwhile: (deleted: MediaRecord) => Promise<unknown>) => {
    const removed: string[] = [];
    let isDeleted = false;
    const mediaObject = await add(picture);
    const store: ObjectStore = {
      ...fixture.store,
      put: async (key, file) => {
        await fixture.store.put(key, file);
        if (isDeleted) return;
        isDeleted = true;
        await removal().remove(mediaObject.id);
        await meanwhile(mediaObject);
        await fixture.store.put(key, await rendition());
      },
      delete: async (key) => {
        removed.push(key);
        await fixture.store.delete(key);
      },
    };
    const worker = startWorker({ store });
    await expect.poll(() => isDeleted, { timeout: 15_000 }).toBe(true);
    await worker.stop();
    return removed;
  };
  const rendition = async () => {
    const path = join(fixture.root, 'rendition');
    await writeFile(path, 'rendition');
    return { path, bytes: 9, sha256: '' };
  };

  it('are removed at the end of the run', async () => {
    const removed = await putTooLate(noisePng('a'), async () => undefined);
    expect(removed.length).toBeGreaterThan(0);
    expect(await fixture.keys()).toEqual([]);
  });

  it('stay if another media object has the same bytes, because its worker may use them', async () => {
    const removed = await putTooLate(noisePng('a'), ({ id, ...mediaObject }) =>
      fixture.repositories.media.accept(
        { ...mediaObject, id: `${id.slice(0, -1)}0` },
        { duplicate: 'allow', idempotencyKey: null },
      ),
    );
    expect(removed).toEqual([]);
    expect(await fixture.keys('renditions/')).not.toEqual([]);
  });
});

describe('worker: objects that others remove', () => {
  it('a rendition removed before its publication is made again, never a dead link', async () => {
    const { id } = await add(noisePng('a'));
    let taken = 0;
    const robbed: ObjectStore = {
      ...fixture.store,
      put: async (key, file) => {
        await fixture.store.put(key, file);
        if (taken++ === 0) await fixture.store.delete(key);
      },
    };
    startWorker({ store: robbed });
    await ended(id).toBe('ready');
    expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 2 });
    for (const { objectKey } of await fixture.repositories.media.renditions(id)) {
      expect(await fixture.store.stat(objectKey ?? '')).not.toBeNull();
    }
  });

  it('removing one media object keeps the renditions of another of the same bytes', async () => {
    const picture = noisePng('a');
    const first = await add(picture);
    startWorker();
    await ended(first.id).toBe('ready');
    const remover = removal();
    for (let round = 0; round < 5; round++) {
      const [existing] = await fixture.repositories.media.page({ projectId: 'default', limit: 1, before: null });
      await Promise.all([remover.remove(existing?.id ?? ''), add(picture)]);
      const { id } = await add(picture);
      await ended(id).toBe('ready');
      for (const { objectKey, state } of await fixture.repositories.media.renditions(id)) {
        expect(state).toBe('ready');
        expect(await fixture.store.stat(objectKey ?? ''), `round ${round}`).not.toBeNull();
      }
    }
  });
});
