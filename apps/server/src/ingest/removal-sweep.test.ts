import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey, renditionFileKey, renditionKey } from '../base/object-key.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { deletingSlowly, ingestFixture, input, lossyLock, sha256 } from './ingest.fixture.ts';

const fixture = ingestFixture();
/** The awaited events take less than a second on an idle machine. */
const PATIENT = { timeout: 20_000 };
const { makeIngest, makeRemoval, makeSweep, objects, expectNothingKept } = fixture;

/** Stores an object as a worker would, whether or not a row refers to it. @returns its key */
async function put(key: string): Promise<string> {
  const path = join(fixture.root, 'rendition');
  await writeFile(path, 'rendition');
  await fixture.store.put(key, { path, bytes: 9, sha256: '' });
  return key;
}
const thumbOf = (sourceSha256: string, revision = '0000000a') =>
  renditionKey({ sourceSha256, name: 'thumb', revision, extension: 'webp' });
const segmentOf = (sourceSha256: string) =>
  renditionFileKey({ sourceSha256, name: 'hls', revision: '0000000a', file: '720p/00001.m4s' });
const noted = () => fixture.repositories.contentRemovals.page({ untilMs: null, after: null, limit: 100 });
/** Deletes only the row, as if the process died there: all objects of the media object remain. */
const deleteRowAlone = async (picture: Buffer) => {
  const { media } = await makeIngest().ingest(input(picture));
  await put(thumbOf(media.sha256));
  await put(segmentOf(media.sha256));
  await fixture.repositories.media.delete(media.id);
  return media;
};

describe('the sweep of removals', () => {
  it('removes all leftovers of an interrupted deletion and none of its neighbours', async () => {
    const { media: neighbour } = await makeIngest().ingest(input(noisePng('b')));
    const kept = [originalKey(neighbour.sha256), await put(thumbOf(neighbour.sha256))];
    await deleteRowAlone(noisePng('a'));
    expect((await objects()).length).toBe(5);
    await makeSweep().sweep('all');
    expect((await objects()).sort()).toEqual(kept.sort());
    // A worker may still be writing.
    expect((await noted()).length).toBe(1);
  });

  it('forgets a settled deletion after one sweep and looks at younger ones again', async () => {
    const { sha256: hash } = await deleteRowAlone(noisePng('a'));
    const early = makeSweep();
    await early.sweep('settled');
    expect((await objects()).length).toBe(3);
    await early.sweep('all');
    await expectNothingKept();
    // A worker put this and was killed before it could notice the deletion.
    await put(thumbOf(hash));
    await makeSweep({ settledMs: 0 }).sweep('settled');
    await expectNothingKept();
    expect(await noted()).toEqual([]);
  });

  it('sweeps all noted deletions at startup, and settled ones on its own later', async () => {
    await deleteRowAlone(noisePng('a'));
    const [{ sinceMs } = { sinceMs: 0 }] = await noted();
    const sweep = makeSweep({ settledMs: 300, intervalMs: 20 });
    sweep.start();
    await expect.poll(objects, PATIENT).toEqual([]);
    await expect.poll(noted, PATIENT).toEqual([]);
    expect(Date.now()).toBeGreaterThanOrEqual(sinceMs + 300);
    const { sha256: hash } = await deleteRowAlone(noisePng('b'));
    await expect.poll(noted, PATIENT).toEqual([]);
    expect(await fixture.store.stat(originalKey(hash))).toBeNull();
    await sweep.stop();
    await deleteRowAlone(noisePng('c'));
    await sweep.sweep('settled');
    await sweep.sweep('all');
    expect((await objects()).length).toBe(3);
  });

  it('removes nothing while a media object has the bytes, and then forgets them', async () => {
    const picture = noisePng('a');
    const { sha256: hash } = await deleteRowAlone(picture);
    const { media: again } = await makeIngest().ingest(input(picture));
    // The new media object's worker has put this; its row does not record it yet.
    const made = await put(thumbOf(hash, '0000000b'));
    await makeSweep({ settledMs: 0 }).sweep('settled');
    const kept = [originalKey(hash), thumbOf(hash), made, segmentOf(hash)];
    expect((await objects()).sort()).toEqual(kept.sort());
    expect(await noted()).toEqual([]);
    // Everything goes with the last media object, including the leftovers of the first.
    await makeRemoval().remove(again.id);
    await makeSweep({ settledMs: 0 }).sweep('settled');
    await expectNothingKept();
  });

  it('never removes the bytes of a simultaneous upload of the same file', async () => {
    const picture = noisePng('a');
    const key = originalKey(sha256(picture));
    const ingest = makeIngest();
    for (const ms of [0, 5, 30, 60]) {
      await deleteRowAlone(picture);
      const sweep = makeSweep({ settledMs: 0, store: deletingSlowly(fixture.store, ms) });
      const [again] = await Promise.all([ingest.ingest(input(picture)), sweep.sweep('settled'), sweep.sweep('all')]);
      expect(again.created).toBe(true);
      expect(await fixture.store.stat(key), `delay ${ms}`).toEqual({ bytes: picture.length });
      await makeRemoval().remove(again.media.id);
    }
  });

  it.each(['at once', 'never'] as const)(
    'stops if its lock is lost (signalled %s) or a new media object has the bytes',
    async (signalled) => {
      const picture = noisePng('a');
      const hash = sha256(picture);
      const losing = new AbortController();
      const lossy = lossyLock(losing.signal, signalled);
      await deleteRowAlone(picture);
      const afterOne = (then: () => Promise<unknown>): Partial<ObjectStore> => {
        let deleted = 0;
        return {
          delete: async (key) => {
            await fixture.store.delete(key);
            if (deleted++ === 0) await then();
          },
        };
      };
      // The new holder of the lock ingests the bytes.
      const takenIn = afterOne(() => makeIngest().ingest(input(picture)));
      await makeSweep({ settledMs: 0, lock: lossy, store: { ...fixture.store, ...takenIn } }).sweep('settled');
      expect((await objects()).sort()).toEqual([originalKey(hash), segmentOf(hash), thumbOf(hash)].sort());
      // It stays noted because its end was not seen.
      expect((await noted()).length).toBe(1);
      const [mediaObject] = await fixture.repositories.media.page({ projectId: 'default', limit: 1, before: null });
      await fixture.repositories.media.delete(mediaObject?.id ?? '');
      const lost = afterOne(async () => losing.abort());
      await makeSweep({ settledMs: 0, lock: lossy, store: { ...fixture.store, ...lost } }).sweep('settled');
      expect((await objects()).length).toBe(2);
      expect((await noted()).length).toBe(1);
      await makeSweep({ settledMs: 0 }).sweep('settled');
      await expectNothingKept();
    },
  );

  it('sweeps the others if the store fails for one, and retries that one later', async () => {
    const hashes: string[] = [];
    for (const name of ['a', 'b', 'c']) hashes.push((await deleteRowAlone(noisePng(name))).sha256);
    const [first = '', ...others] = hashes.sort();
    const failing: ObjectStore = {
      ...fixture.store,
      stat: async (key) => {
        if (key === originalKey(first)) throw new Error('It does not answer.');
        return fixture.store.stat(key);
      },
    };
    await makeSweep({ settledMs: 0, store: failing }).sweep('settled');
    expect((await noted()).map((removal) => removal.sha256)).toEqual([first]);
    for (const hash of others) expect(await fixture.store.stat(originalKey(hash))).toBeNull();
    await makeSweep({ settledMs: 0 }).sweep('settled');
    await expectNothingKept();
  });

  it('finishes a list of many deletions', async () => {
    const picture = noisePng('a');
    const { media } = await makeIngest().ingest(input(picture));
    for (let n = 0; n < 230; n++) {
      const id = `med_${String(n).padStart(26, '0')}`;
      await fixture.repositories.media.accept(
        { ...media, id, sha256: sha256(Buffer.from(String(n))) },
        { duplicate: 'allow', idempotencyKey: null },
      );
      await fixture.repositories.media.delete(id);
    }
    expect((await noted()).length).toBe(100);
    await makeSweep({ settledMs: 0 }).sweep('settled');
    expect(await noted()).toEqual([]);
    expect(await objects()).toEqual([originalKey(media.sha256)]);
  });

  it('leaves deletions to the destination during a migration', async () => {
    await deleteRowAlone(noisePng('a'));
    let isMoving = true;
    const sweep = makeSweep({ settledMs: 0, isMoving: () => isMoving });
    await sweep.sweep('all');
    await sweep.sweep('settled');
    expect([(await objects()).length, (await noted()).length]).toEqual([3, 1]);
    isMoving = false;
    await sweep.sweep('settled');
    await expectNothingKept();
    expect(await noted()).toEqual([]);
  });

  it('does each deletion once if several nodes sweep simultaneously', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await deleteRowAlone(noisePng(name));
    let looked = 0;
    const counting: ObjectStore = {
      ...fixture.store,
      list: (prefix) => {
        looked += 1;
        return fixture.store.list(prefix);
      },
    };
    await Promise.all([1, 2, 3].map(() => makeSweep({ settledMs: 0, store: counting }).sweep('settled')));
    // Each node visited each deletion and found it already done.
    expect(looked).toBe(4);
    await expectNothingKept();
    expect(await noted()).toEqual([]);
  });
});
