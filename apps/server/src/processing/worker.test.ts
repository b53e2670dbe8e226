import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { defaultPresets, planRenditions } from '@mds/transcode';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { renditionKey } from '../base/object-key.ts';
import { presets, QUICK, workerFixture } from './worker.fixture.ts';

const fixture = workerFixture();
const { engine, startWorker, add, ended, rendition, keys, around } = fixture;

describe('a worker', () => {
  it('makes every planned rendition as recorded and leaves no scratch files', async () => {
    const { id, sha256 } = await add(noisePng('a', 400, 300));
    startWorker({ presets: defaultPresets });
    await ended(id).toBe('ready');
    const mediaObject = await fixture.repositories.media.find(id);
    expect(mediaObject).toMatchObject({ attempts: 1, failure: null });
    expect(mediaObject?.thumbhash).toMatch(/^[\w+/]{10,}=*$/);
    const rows = await fixture.repositories.media.renditions(id);
    expect(rows.map(({ name, extension }) => `${name}.${extension}`).sort()).toEqual(
      defaultPresets
        .filter(({ source_kinds }) => source_kinds.some((kind) => kind === 'image'))
        .map(({ name, extension }) => `${name}.${extension}`)
        .sort(),
    );
    for (const row of rows) {
      const bytes = await fixture.store.readAll(row.objectKey ?? '');
      expect(row, row.name).toMatchObject({ state: 'ready', current: true, bytes: bytes?.length });
      expect(
        createHash('sha256')
          .update(bytes ?? '')
          .digest('hex'),
      ).toBe(row.sha256);
      expect(row.objectKey).toBe(renditionKey({ ...row, sourceSha256: sha256 }));
    }
    expect(rows.find(({ name }) => name === 'thumb')).toMatchObject({ width: 320, height: 240 });
    expect(await readdir(fixture.scratchDir)).toEqual([]);
    expect(await fixture.repositories.jobs.held()).toEqual([]);
  });

  it('starts at once when woken, without waiting for its next poll', async () => {
    startWorker({ timing: { ...QUICK, pollMs: 60_000 } });
    const { id } = await add(noisePng('a'));
    await ended(id).toBe('ready');
  });

  it('finds media that another process queued', async () => {
    startWorker();
    const awake = fixture.worker;
    fixture.worker = null;
    const { id } = await add(noisePng('a'));
    await ended(id).toBe('ready');
    fixture.worker = awake;
  });

  it('runs no more jobs at once than configured, and all of them in the end', async () => {
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

  it('invariant 5: in a second run writes the same keys, and makes only missing ones', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    const made: string[][] = [];
    const watched = around(async (job, go) => {
      made.push(job.plan.map(({ name }) => name));
      return go();
    });
    let broken = true;
    const media = {
      ...fixture.repositories.media,
      publish: async (...args: Parameters<typeof fixture.repositories.media.publish>) => {
        if (!broken) return fixture.repositories.media.publish(...args);
        broken = false;
        // One rendition is published, as by an earlier run with other presets; then that process dies.
        const [lease, { renditions }] = args;
        await fixture.repositories.media.start(
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
    expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 2 });
    expect((await rendition(id, 'thumb', 'webp'))?.objectKey).toContain(sha256);
  });

  it('fault 18: makes a ready rendition again if its object was lost', async () => {
    const { id, sha256 } = await add(noisePng('a'));
    const lease = await fixture.repositories.jobs.claim('before');
    if (!lease) throw new Error('There is nothing to claim.');
    const source = await engine.identify((await fixture.store.localFile((await keys())[0] ?? ''))?.path ?? '');
    const [planned] = planRenditions(source, presets);
    const { name = '', extension = '', contentType = '', revision = '' } = planned ?? {};
    const objectKey = renditionKey({ sourceSha256: sha256, name, extension, revision });
    const lost = { current: true, state: 'ready' as const, reason: null, objectKey, sha256: 'x', bytes: 3 };
    const row = { name, extension, contentType, revision, ...lost, files: 1, width: 1, height: 1 };
    await fixture.repositories.media.start(lease, [row]);
    await fixture.repositories.jobs.release(lease, { kind: 'released' });
    startWorker();
    await ended(id).toBe('ready');
    const again = await rendition(id, 'thumb', 'webp');
    expect((await fixture.store.readAll(again?.objectKey ?? ''))?.length).toBe(again?.bytes);
  });
});
