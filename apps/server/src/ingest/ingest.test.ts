import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { NoAnswerError } from '../db/no-answer-error.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { ingestFixture, input, lossyLock, sha256 } from './ingest.fixture.ts';

const fixture = ingestFixture();
const { engine, makeIngest, objects, expectNothingKept } = fixture;

describe('ingest', () => {
  it('invariant 1: a returned media object is stored byte for byte and queued', async () => {
    const picture = noisePng('a', 80, 60);
    const before = Date.now();
    const { media, created } = await makeIngest().ingest(input(picture, { declaredBytes: picture.length }));
    expect(created).toBe(true);
    expect(media).toMatchObject({
      contentType: 'image/png',
      bytes: picture.length,
      width: 80,
      height: 60,
      status: 'queued',
      filename: 'picture.png',
      sha256: sha256(picture),
      kind: 'image',
      format: 'png',
      codecs: ['png'],
      durationMs: null,
    });
    expect(media.id).toMatch(/^med_[0-9a-z]{26}$/);
    expect(media.createdAtMs).toBeGreaterThanOrEqual(before);
    expect((await fixture.store.readAll(originalKey(media.sha256)))?.equals(picture)).toBe(true);
    expect(await fixture.repositories.media.find(media.id)).toEqual(media);
    expect(await fixture.repositories.jobs.counts()).toMatchObject({ queued: 1 });
    expect(fixture.accepted).toEqual([media.id]);
    expect(await readdir(join(fixture.root, 'staging'))).toEqual([]);
  });

  it.each(['at once', 'never'] as const)(
    'refuses bytes whose lock was lost (signalled %s): other nodes may remove them',
    async (signalled) => {
      const picture = noisePng('a');
      const losing = new AbortController();
      const store: ObjectStore = {
        ...fixture.store,
        async put(key, file) {
          await fixture.store.put(key, file);
          losing.abort();
        },
      };
      const ingest = makeIngest({ store, lock: lossyLock(losing.signal, signalled) });
      await expect(ingest.ingest(input(picture))).rejects.toMatchObject({ code: 'unavailable' });
      expect(await fixture.repositories.media.page({ projectId: 'default', limit: 10, before: null })).toEqual([]);
      // The objects stay: the lock's new holder may be about to accept the same bytes.
      expect(await objects()).toEqual([originalKey(sha256(picture))]);
      expect((await makeIngest().ingest(input(picture))).created).toBe(true);
    },
  );

  it('does not touch a damaged original after it lost the lock', async () => {
    const picture = noisePng('a');
    const { media } = await makeIngest().ingest(input(picture));
    const key = originalKey(media.sha256);
    const losing = new AbortController();
    const store: ObjectStore = {
      ...fixture.store,
      async read() {
        // The original was damaged when it was read; it is sound by now.
        losing.abort();
        return null;
      },
    };
    const ingest = makeIngest({ store, lock: lossyLock(losing.signal, 'never') });
    const deleted = vi.spyOn(store, 'delete');
    await expect(ingest.ingest(input(picture))).rejects.toMatchObject({ code: 'unavailable' });
    expect(deleted).not.toHaveBeenCalled();
    expect((await fixture.store.readAll(key))?.equals(picture)).toBe(true);
  });

  it('keeps the original if the database commits without an answer', async () => {
    const picture = noisePng('late');
    const { media } = fixture.repositories;
    let commit = async (): Promise<void> => undefined;
    const accept: typeof media.accept = async (...args) => {
      commit = async () => void (await media.accept(...args));
      throw new NoAnswerError(new Error('Query read timeout'));
    };
    await expect(makeIngest({ media: { ...media, accept } }).ingest(input(picture))).rejects.toMatchObject({
      code: 'unavailable',
    });
    await commit();
    expect(await media.findBySha256('default', sha256(picture))).not.toBeNull();
    expect(await objects()).toEqual([originalKey(sha256(picture))]);
  });

  it('ids sort by arrival, even within a millisecond', async () => {
    const ingest = makeIngest();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await ingest.ingest(input(noisePng(n)))).media.id);
    expect([...ids].sort()).toEqual(ids);
  });

  it('the same file twice gives one media object and is decoded once', async () => {
    const picture = noisePng('a');
    const ingest = makeIngest();
    const first = await ingest.ingest(input(picture));
    const tasks = engine.stats.identify.tasks;
    const again = await ingest.ingest(input(picture, { filename: 'other.png' }));
    expect(again).toMatchObject({ created: false, media: { id: first.media.id, filename: 'picture.png' } });
    expect(engine.stats.identify.tasks).toBe(tasks);
    expect(fixture.accepted).toEqual([first.media.id]);
    expect(ingest.stats).toMatchObject({ created: 1, existing: 1, receiving: 0, receivedBytes: 2 * picture.length });
  });

  it('an allowed duplicate gets its own media object and shares the stored original', async () => {
    const picture = noisePng('a');
    const first = await makeIngest().ingest(input(picture));
    const second = await makeIngest().ingest(input(picture, { duplicate: 'allow' }));
    expect(second).toMatchObject({ created: true });
    expect(second.media.id).not.toBe(first.media.id);
    expect(await objects()).toEqual([originalKey(sha256(picture))]);
  });

  it('simultaneous uploads of one file give one media object and one decode', async () => {
    const picture = noisePng('a');
    const tasks = engine.stats.identify.tasks;
    const ingest = makeIngest();
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => ingest.ingest(input(picture))));
    expect(new Set(outcomes.map(({ media }) => media.id)).size).toBe(1);
    expect(outcomes.filter(({ created }) => created)).toHaveLength(1);
    expect(engine.stats.identify.tasks - tasks).toBe(1);
    expect((await fixture.store.readAll(originalKey(sha256(picture))))?.equals(picture)).toBe(true);
  });

  it('a repeated Idempotency-Key returns its media object and refuses another file', async () => {
    const ingest = makeIngest();
    const keyed = { idempotencyKey: 'upload-1', duplicate: 'allow' } as const;
    const first = await ingest.ingest(input(noisePng('a'), keyed));
    expect(await ingest.ingest(input(noisePng('a'), keyed))).toMatchObject({ created: false, media: first.media });
    const other = noisePng('b');
    await expect(ingest.ingest(input(other, keyed))).rejects.toMatchObject({
      code: 'idempotency_conflict',
      status: 409,
      message: expect.stringContaining(first.media.id),
    });
    expect(await objects()).toEqual([originalKey(first.media.sha256)]);
  });

  it('of two simultaneous files under one Idempotency-Key, the loser leaves nothing', async () => {
    const ingest = makeIngest();
    const outcomes = await Promise.allSettled(
      ['a', 'b'].map((seed) => ingest.ingest(input(noisePng(seed), { idempotencyKey: 'upload-1' }))),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const lost = outcomes.find((outcome) => outcome.status === 'rejected');
    expect(lost?.reason).toMatchObject({ code: 'idempotency_conflict' });
    expect(await objects()).toHaveLength(1);
    expect(await readdir(join(fixture.root, 'staging'))).toEqual([]);
  });

  it('a database failure after the put leaves no orphan and removes no shared object', async () => {
    const full = Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' });
    const failing = makeIngest({ media: { ...fixture.repositories.media, accept: () => Promise.reject(full) } });
    await expect(failing.ingest(input(noisePng('a')))).rejects.toMatchObject({ code: 'insufficient_storage' });
    await expectNothingKept();
    const kept = await makeIngest().ingest(input(noisePng('a')));
    await expect(failing.ingest(input(noisePng('a'), { duplicate: 'allow' }))).rejects.toMatchObject({ status: 507 });
    expect(await objects()).toEqual([originalKey(kept.media.sha256)]);
  });
});

describe('fault 18: a lost or damaged original', () => {
  it('is restored by an upload of the same bytes, which retries the media object', async () => {
    const picture = noisePng('a');
    const ingest = makeIngest();
    const { media } = await ingest.ingest(input(picture));
    const key = originalKey(media.sha256);

    await fixture.store.delete(key);
    expect(await ingest.ingest(input(picture))).toMatchObject({ created: false, media: { id: media.id } });
    expect((await fixture.store.readAll(key))?.equals(picture)).toBe(true);

    const lease = await fixture.repositories.jobs.claim('worker');
    if (!lease) throw new Error('There is nothing to claim.');
    await fixture.repositories.media.fail(lease, { code: 'object_corrupt', message: 'Damaged.', retryable: false });
    const local = await fixture.store.localFile(key);
    await writeFile(local?.path ?? '', Buffer.alloc(picture.length));
    const mended = await ingest.ingest(input(picture));
    expect(mended).toMatchObject({ created: false, media: { id: media.id, status: 'queued' } });
    expect((await readFile(local?.path ?? '')).equals(picture)).toBe(true);
    expect(fixture.accepted).toEqual([media.id, media.id]);
  });
});
