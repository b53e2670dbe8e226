import { describe, expect, it } from 'vitest';
import { originalKey } from '../../base/object-key.ts';
import type { NewRendition, NewRenditionFile } from '../media-repository.ts';
import { ALLOW, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** Renditions that consist of several files. */
export function renditionFilesConformance({ repositories, newMedia, accept, claim }: RepositoriesFixture): void {
  describe('renditions of several files', () => {
    const hls = (overrides: Partial<NewRendition> = {}): NewRendition =>
      row({
        name: 'hls',
        extension: 'm3u8',
        contentType: 'application/vnd.apple.mpegurl',
        objectKey: 'renditions/hls.0000000a/master.m3u8',
        ...overrides,
      });
    const readyHls = (overrides: Partial<NewRendition> = {}) =>
      hls({ state: 'ready', sha256: 'a'.repeat(64), bytes: 30, files: 2, width: 320, height: 240, ...overrides });
    const file = (name: string, revision = '0000000a'): NewRenditionFile => ({
      file: name,
      contentType: name.endsWith('m3u8') ? 'application/vnd.apple.mpegurl' : 'video/mp4',
      objectKey: `renditions/hls.${revision}/${name}`,
      sha256: 'a'.repeat(64),
      bytes: 15,
    });
    const both = (revision?: string) => [file('master.m3u8', revision), file('720p/00001.m4s', revision)];
    const find = (mediaId: string, name: string, revision: string | null = null) =>
      repositories.media.findFile({ mediaId, name: 'hls', revision, file: name });

    it('invariant 2: deliver no file before all of them are stored', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const { media } = repositories;
      await media.start(lease, [hls()]);
      expect(await media.reserveFiles(lease, hls(), both())).toBe(true);
      for (const revision of [null, '0000000a']) expect(await find(id, 'master.m3u8', revision)).toBeNull();
      expect(await media.publishRendition(lease, readyHls())).toBe(true);
      expect(await media.find(id)).toMatchObject({ status: 'processing' });
      for (const revision of [null, '0000000a']) {
        expect(await find(id, '720p/00001.m4s', revision)).toMatchObject(file('720p/00001.m4s'));
      }
      expect(await find(id, '720p/00002.m4s')).toBeNull();
      expect(await find(id, '720p/00001.m4s', '0000000b')).toBeNull();
      expect((await media.renditions(id))[0]).toMatchObject({ state: 'ready', files: 2, bytes: 30 });
    });

    it('stay unchanged by the final publication if they were published early', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [hls(), row()]);
      await repositories.media.reserveFiles(lease, hls(), both());
      await repositories.media.publishRendition(lease, readyHls());
      const [early] = (await repositories.media.renditions(id)).filter(({ name }) => name === 'hls');
      await new Promise((resolve) => setTimeout(resolve, 5));
      await repositories.media.publish(lease, result(readyHls(), ready()));
      const rows = await repositories.media.renditions(id);
      expect(rows.find(({ name }) => name === 'hls')).toEqual(early);
      expect(rows.find(({ name }) => name === 'thumb')).toMatchObject({ state: 'ready' });
    });

    it('keep no file names of an earlier attempt that made other files', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [hls()]);
      await repositories.media.reserveFiles(lease, hls(), [...both(), file('720p/00002.m4s')]);
      await repositories.media.reserveFiles(lease, hls(), both());
      const names = (await repositories.media.files(id)).map((found) => found.file);
      expect(names.sort()).toEqual(['720p/00001.m4s', 'master.m3u8']);
    });

    it('deliver the old revision until the new one is ready, and by its name for ever', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const b = { revision: '0000000b', objectKey: 'renditions/hls.0000000b/master.m3u8' };
      await repositories.media.start(lease, [hls()]);
      await repositories.media.reserveFiles(lease, hls(), both());
      await repositories.media.publishRendition(lease, readyHls());
      await repositories.media.start(lease, [hls(b)]);
      await repositories.media.reserveFiles(lease, hls(b), both('0000000b'));
      expect((await find(id, 'master.m3u8'))?.revision).toBe('0000000a');
      expect(await find(id, 'master.m3u8', '0000000b')).toBeNull();
      await repositories.media.publishRendition(lease, readyHls(b));
      expect((await find(id, 'master.m3u8'))?.revision).toBe('0000000b');
      expect((await find(id, 'master.m3u8', '0000000a'))?.objectKey).toBe('renditions/hls.0000000a/master.m3u8');
    });

    it('refer to files from before their storage until the last media object is deleted', async () => {
      const first = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [hls()]);
      await repositories.media.reserveFiles(lease, hls(), both());
      const keys = both().map(({ objectKey }) => objectKey);
      for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(true);
      await repositories.media.publish(lease, result(readyHls()));

      const second = await repositories.media.accept(newMedia('a'), ALLOW);
      const another = await claim();
      await repositories.media.start(another, [hls()]);
      const found = await repositories.media.findReadyObject('renditions/hls.0000000a/master.m3u8');
      expect(found?.rendition).toMatchObject({ mediaId: first.id, name: 'hls', bytes: 30 });
      expect(found?.files).toHaveLength(2);
      await repositories.media.reserveFiles(another, hls(), both());

      expect((await repositories.media.delete(first.id))?.orphans).toEqual([]);
      expect((await repositories.media.delete(second.media.id))?.orphans.sort()).toEqual(
        [originalKey(first.sha256), ...keys].sort(),
      );
      for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(false);
      expect(await repositories.media.findReadyObject('renditions/hls.0000000a/master.m3u8')).toBeNull();
    });

    it('fault 18: are made again as a whole if one file is lost', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [hls(), row()]);
      await repositories.media.reserveFiles(lease, hls(), both());
      await repositories.media.publish(lease, result(readyHls(), ready()));
      expect(await repositories.media.rederive([file('720p/00001.m4s').objectKey])).toEqual([id]);
      expect(await find(id, 'master.m3u8')).toBeNull();
      expect(await repositories.media.renditions(id)).toMatchObject(
        expect.arrayContaining([
          expect.objectContaining({ name: 'hls', state: 'pending', files: null }),
          expect.objectContaining({ name: 'thumb', state: 'ready' }),
        ]),
      );
      expect(await claim()).toMatchObject({ mediaId: id });
    });

    it('are made again, or deleted, even with very many files', async () => {
      const { media } = repositories;
      const { id } = await accept('long');
      const lease = await claim();
      await media.start(lease, [hls()]);
      // More than the parameters of a statement in either database.
      const files = Array.from({ length: 66_000 }, (_, n) => file(`720p/${n}.m4s`));
      expect(await media.reserveFiles(lease, hls(), files)).toBe(true);
      await media.publish(lease, result(readyHls({ files: files.length })));
      expect(await media.rederive(files.map(({ objectKey }) => objectKey))).toEqual([id]);
      // The other two are the original and the object of the rendition itself.
      expect((await media.delete(id))?.orphans).toHaveLength(files.length + 2);
      expect(await media.find(id)).toBeNull();
    });

    it('take no files and no publication under a lost lease', async () => {
      const { id } = await accept('a');
      const late = await claim();
      await repositories.media.start(late, [hls()]);
      await repositories.jobs.reclaim(late.token, { counted: true });
      expect(await repositories.media.reserveFiles(late, hls(), both())).toBe(false);
      expect(await repositories.media.publishRendition(late, readyHls())).toBe(false);
      expect(await repositories.media.files(id)).toEqual([]);
      expect((await repositories.media.renditions(id))[0]?.state).toBe('pending');
    });
  });
}
