import { describe, expect, it } from 'vitest';
import { type RepositoriesFixture, ready, result } from './repositories.fixture.ts';

/** The data of delivery: piece digests and the request log. */
export function deliveryConformance({ repositories, tick, accept, claim }: RepositoriesFixture): void {
  describe('piece digests', () => {
    const LARGE = 3 * 1024 * 1024;
    const digests = Buffer.alloc(96, 7);
    const large = (sha256: string, name = 'mp4') =>
      ready({ name, sha256, bytes: LARGE, objectKey: `renditions/${name}` });
    const shaA = 'a'.repeat(64);

    it('are found by content, even if written twice; unknown content has none', async () => {
      await repositories.pieceDigests.put(shaA, digests);
      await repositories.pieceDigests.put(shaA, digests);
      expect((await repositories.pieceDigests.find(shaA))?.equals(digests)).toBe(true);
      expect(await repositories.pieceDigests.find('b'.repeat(64))).toBeNull();
    });

    it('are deleted with the last media object of that content', async () => {
      const ids: string[] = [];
      for (const content of ['a', 'b']) {
        ids.push((await accept(content)).id);
        const lease = await claim();
        await repositories.pieceDigests.put(shaA, digests);
        await repositories.media.publish(lease, result(large(shaA)));
      }
      await repositories.media.delete(ids[0] as string);
      expect(await repositories.pieceDigests.find(shaA)).not.toBeNull();
      await repositories.media.delete(ids[1] as string);
      expect(await repositories.pieceDigests.find(shaA)).toBeNull();
    });

    it('stay while a rendition file has that content', async () => {
      const first = await accept('a');
      await repositories.pieceDigests.put(shaA, digests);
      await repositories.media.publish(await claim(), result(large(shaA)));
      const second = await accept('b');
      const lease = await claim();
      const hls = ready({ name: 'hls', extension: 'm3u8', objectKey: 'hls/master.m3u8', bytes: LARGE });
      await repositories.media.start(lease, [hls]);
      const file = { file: '1.m4s', contentType: 'video/mp4', objectKey: 'hls/1.m4s', sha256: shaA, bytes: LARGE };
      await repositories.media.reserveFiles(lease, hls, [file]);
      await repositories.media.publish(lease, result(hls));
      await repositories.media.delete(first.id);
      expect(await repositories.pieceDigests.find(shaA)).not.toBeNull();
      await repositories.media.delete(second.id);
      expect(await repositories.pieceDigests.find(shaA)).toBeNull();
    });

    it('of unneeded content are dropped, but not while a worker may publish it', async () => {
      const [shaB, shaC, shaD] = ['b', 'c', 'd'].map((letter) => letter.repeat(64)) as [string, string, string];
      await accept('a');
      const lease = await claim();
      for (const sha256 of [shaA, shaB, shaC, shaD]) await repositories.pieceDigests.put(sha256, digests);
      expect(await repositories.pieceDigests.dropUnneeded()).toBe(0);
      const hls = ready({ name: 'hls', extension: 'm3u8', objectKey: 'hls/master.m3u8', bytes: 10 });
      await repositories.media.start(lease, [hls]);
      const file = { file: '1.m4s', contentType: 'video/mp4', objectKey: 'hls/1.m4s', sha256: shaB, bytes: LARGE };
      await repositories.media.reserveFiles(lease, hls, [file]);
      await repositories.media.publish(lease, result(large(shaA), hls, large(shaD, 'preview')));
      // It is damaged and is made again, perhaps with other bytes.
      await repositories.media.rederive(['renditions/preview']);
      expect(await repositories.pieceDigests.dropUnneeded()).toBe(2);
      const left = await Promise.all([shaA, shaB, shaC, shaD].map((sha256) => repositories.pieceDigests.find(sha256)));
      expect(left.map((found) => found !== null)).toEqual([true, true, false, false]);
    });
  });

  describe('assets', () => {
    const delivered = (path: string, overrides = {}) => ({
      region: 'fra1',
      path,
      bytes: 10,
      cacheStatus: 'MISS' as const,
      atMs: tick(10),
      ...overrides,
    });
    const paths = async (query: { limit: number; region: string | null }) =>
      (await repositories.assets.latest(query)).map(({ path }) => path);

    it('have one record per path and region, dated by the first request', async () => {
      await repositories.assets.record([delivered('/media/a'), delivered('/media/b')], 100);
      const [, first] = await repositories.assets.latest({ limit: 10, region: null });
      await repositories.assets.record([delivered('/media/a', { bytes: 20, cacheStatus: 'HIT' })], 100);
      const [a, b, ...rest] = await repositories.assets.latest({ limit: 10, region: null });
      expect(rest).toEqual([]);
      expect(b?.path).toBe('/media/b');
      expect(a).toMatchObject({ path: '/media/a', bytes: 20, cacheStatus: 'HIT' });
      expect(a).toMatchObject({ id: first?.id, createdAtMs: first?.createdAtMs });
      expect(a?.id).toMatch(/^ast_[0-9a-z]+$/);
    });

    it('are listed latest first, for all regions or for one', async () => {
      const london = { region: 'lon1' };
      await repositories.assets.record([delivered('/1'), delivered('/2', london), delivered('/1', london)], 100);
      expect(await paths({ limit: 10, region: null })).toEqual(['/1', '/2', '/1']);
      expect(await paths({ limit: 10, region: 'lon1' })).toEqual(['/1', '/2']);
      expect(await paths({ limit: 1, region: 'lon1' })).toEqual(['/1']);
      expect(await paths({ limit: 10, region: 'ams1' })).toEqual([]);
    });

    it('are kept up to a limit per region, and the oldest requests are dropped first', async () => {
      await repositories.assets.record([delivered('/5', { region: 'lon1' })], 3);
      await repositories.assets.record([delivered('/1'), delivered('/2'), delivered('/3')], 3);
      await repositories.assets.record([delivered('/1'), delivered('/4')], 3);
      expect(await paths({ limit: 10, region: 'fra1' })).toEqual(['/4', '/1', '/3']);
      expect(await paths({ limit: 10, region: 'lon1' })).toEqual(['/5']);
    });

    it('have a version that changes with every record', async () => {
      const before = await repositories.assets.version();
      await repositories.assets.record([], 3);
      expect(await repositories.assets.version()).toBe(before);
      await repositories.assets.record([delivered('/1')], 3);
      expect(await repositories.assets.version()).not.toBe(before);
    });
  });
}
