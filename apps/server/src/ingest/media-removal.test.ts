import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { deletingSlowly, ingestFixture, input, lossyLock, sha256 } from './ingest.fixture.ts';

const fixture = ingestFixture();
const { makeIngest, makeRemoval, makeSweep, objects, expectNothingKept } = fixture;

describe('the removal of a media object', () => {
  it('leaves all caches before its objects are deleted, and leaves nothing behind', async () => {
    const { media } = await makeIngest().ingest(input(noisePng('a')));
    const seen: unknown[] = [];
    const remover = makeRemoval({
      onRemoved: (id) => {
        seen.push(id);
        void objects().then((keys) => seen.push(keys.length));
      },
    });
    expect(await remover.remove(media.id)).toBe(true);
    expect(seen[0]).toBe(media.id);
    expect(await remover.remove(media.id)).toBe(false);
    await expectNothingKept();
  });

  it.each(['at once', 'never'] as const)(
    'stops if its lock is lost (signalled %s) and leaves the rest to the sweep',
    async (signalled) => {
      const { media } = await makeIngest().ingest(input(noisePng('a')));
      const losing = new AbortController();
      const onRemoved = () => losing.abort();
      const remover = makeRemoval({ onRemoved, lock: lossyLock(losing.signal, signalled) });
      expect(await remover.remove(media.id)).toBe(true);
      expect(await objects()).toEqual([originalKey(media.sha256)]);
      await makeSweep({ settledMs: 0 }).sweep('settled');
      await expectNothingKept();
    },
  );

  it('keeps the bytes that a second media object shares', async () => {
    const first = await makeIngest().ingest(input(noisePng('a')));
    const second = await makeIngest().ingest(input(noisePng('a'), { duplicate: 'allow' }));
    await makeRemoval().remove(first.media.id);
    expect(await objects()).toEqual([originalKey(second.media.sha256)]);
    await makeRemoval().remove(second.media.id);
    await expectNothingKept();
  });

  it('keeps an object that a new media object of the same bytes needs', async () => {
    const picture = noisePng('a');
    const { media } = await makeIngest().ingest(input(picture));
    const key = 'renditions/aa/shared.webp';
    const row = {
      name: 'thumb',
      extension: 'webp',
      contentType: 'image/webp',
      revision: '0000000a',
      current: true,
      state: 'pending' as const,
      reason: null,
      objectKey: key,
      sha256: null,
      bytes: null,
      files: null,
      width: null,
      height: null,
    };
    const begin = async () => {
      const lease = await fixture.repositories.jobs.claim('worker');
      if (lease) await fixture.repositories.media.start(lease, [row]);
    };
    await begin();
    await writeFile(join(fixture.root, 'rendition'), 'rendition');
    await fixture.store.put(key, { path: join(fixture.root, 'rendition'), bytes: 9, sha256: '' });
    // Another process accepts the same bytes and starts on them just after the first row is gone.
    const meanwhile = async (id: string) => {
      const deleted = await fixture.repositories.media.delete(id);
      await fixture.repositories.media.accept(
        { ...media, id: `${media.id.slice(0, -1)}0` },
        { duplicate: 'allow', idempotencyKey: null },
      );
      await begin();
      return deleted;
    };
    const remover = makeRemoval({ media: { ...fixture.repositories.media, delete: meanwhile } });
    expect(await remover.remove(media.id)).toBe(true);
    expect(await fixture.store.stat(key)).toEqual({ bytes: 9 });
    expect(await fixture.store.stat(originalKey(media.sha256))).toEqual({ bytes: picture.length });
  });

  it('never removes the bytes of a simultaneous upload of the same file', async () => {
    const picture = noisePng('a');
    const key = originalKey(sha256(picture));
    const ingest = makeIngest();
    for (const ms of [0, 5, 30, 60]) {
      const { media } = await ingest.ingest(input(picture));
      const remover = makeRemoval({ store: deletingSlowly(fixture.store, ms) });
      const [again] = await Promise.all([ingest.ingest(input(picture)), remover.remove(media.id)]);
      const survivor = await fixture.repositories.media.find(again.media.id);
      expect(await fixture.store.stat(key), `delay ${ms}`).toEqual(survivor ? { bytes: picture.length } : null);
      if (survivor) await makeRemoval().remove(survivor.id);
    }
  });
});
