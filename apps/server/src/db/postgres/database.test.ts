import { describe, expect, it } from 'vitest';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { openPostgresRepositories } from './open-repositories.ts';
import { describeOverPostgres, newMedia, silent } from './postgres.fixture.ts';

describeOverPostgres('on a PostgreSQL server', (fixture) => {
  const { open, rows } = fixture;

  describe('the PostgreSQL database', () => {
    it('keeps committed rows when it is closed and opened again', async () => {
      const first = await openPostgresRepositories(fixture.url, { logger: silent });
      await first.media.accept(newMedia(1), EXISTING);
      await first.close();
      expect(await (await open()).media.find(newMedia(1).id)).toMatchObject({ status: 'queued' });
    });

    it('is marked as shared between processes', async () => {
      expect((await open()).shared).toBe(true);
    });

    it('accepts heartbeats of an older worker, which sends no host or region', async () => {
      const { jobs } = await open();
      for (let n = 0; n < 2; n++) {
        await rows(
          `INSERT INTO workers (id, pid, concurrency, beat) VALUES ('vm:1:a', 1, 2, 1)
           ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, concurrency = excluded.concurrency, beat = workers.beat + 1`,
        );
      }
      const silent = { host: null, region: null, sinceMs: null };
      expect(await jobs.workers()).toEqual([{ id: 'vm:1:a', pid: 1, concurrency: 2, beat: 2, ...silent }]);
    });

    it('stores names and paths with NUL, which PostgreSQL rejects, with a replacement', async () => {
      const { media, assets, projects } = await open();
      const strange = newMedia(1, { filename: 'a\0b.png', warnings: ['It says "\0".'], identified: { '\0': '\0' } });
      await media.accept(strange, EXISTING);
      expect(await media.find(strange.id)).toMatchObject({
        filename: 'a\uFFFDb.png',
        warnings: ['It says "\0".'],
        identified: { '\0': '\0' },
      });
      expect(await media.find('med_\0')).toBeNull();
      const selector = { mediaId: strange.id, name: 'th\0umb', extension: 'webp', revision: null };
      expect(await media.findRendition(selector)).toBeNull();
      expect(await media.findFile({ mediaId: strange.id, name: 'hls', revision: null, file: '1\0.m4s' })).toBeNull();
      expect(await media.renditions('med_\0')).toEqual([]);
      expect(await projects.byHost('a\0')).toMatchObject({ id: 'default' });
      await expect(media.isReferenced('a\0')).resolves.toBe(false);
      expect(await media.publicPage({ projectId: '\0', limit: 10, before: 'med_\0' })).toEqual([]);
      const delivered = { region: 'fra1', bytes: 1, cacheStatus: 'HIT' as const, atMs: 1 };
      // Two paths become equal in one statement.
      const both = ['/a\0', '/a\uFFFD'].map((path) => ({ ...delivered, path }));
      await assets.record(both, 10);
      expect(await assets.latest({ limit: 10, region: null })).toMatchObject([{ path: '/a\uFFFD' }]);
    });

    it('returns JSON documents as they were written, with the order of their keys', async () => {
      const { media } = await open();
      const identified = { zebra: 1, a: { longer: [], b: null }, media: 'x' };
      await media.accept(newMedia(1, { identified }), EXISTING);
      expect(JSON.stringify((await media.find(newMedia(1).id))?.identified)).toBe(JSON.stringify(identified));
    });

    it('returns file sizes beyond 2^31 as numbers', async () => {
      const { media } = await open();
      const bytes = 5_000_000_000_000;
      await media.accept(newMedia(1, { bytes, durationMs: 2 ** 40 }), EXISTING);
      expect(await media.find(newMedia(1).id)).toMatchObject({ bytes, durationMs: 2 ** 40 });
      const [first] = await media.publicPage({ projectId: 'default', limit: 1, before: null });
      expect(first).toEqual({
        ...{ id: newMedia(1).id, createdAtMs: 1_750_000_000_001, contentType: 'image/png', bytes },
        ...{ width: 640, height: 480, status: 'queued' },
      });
    });

    it('gives media that lost their job a new one, once each, if nodes look at once', async () => {
      const [one, two] = await fixture.openMany(2);
      if (!one || !two) throw new Error('Nothing is open.');
      for (const n of [1, 2, 3]) await one.media.accept(newMedia(n), EXISTING);
      await rows("DELETE FROM jobs; UPDATE media SET status = 'processing'");
      expect(await one.jobs.claim('worker')).toBeNull();
      const adopted = await Promise.all([one.jobs.adoptStranded(), two.jobs.adoptStranded()]);
      expect(adopted[0] + adopted[1]).toBe(3);
      expect(await one.media.find(newMedia(1).id)).toMatchObject({ status: 'queued' });
      expect((await one.jobs.counts()).queued).toBe(3);
    });

    it('opens for a user without the right to create tables if it is up to date', async () => {
      await fixture.prepare();
      await rows(`DROP ROLE IF EXISTS mds_node`);
      await rows(`CREATE ROLE mds_node LOGIN PASSWORD 'another-password'`);
      await rows('REVOKE CREATE ON SCHEMA public FROM public');
      for (const kind of ['TABLES', 'SEQUENCES']) await rows(`GRANT ALL ON ALL ${kind} IN SCHEMA public TO mds_node`);
      const url = new URL(fixture.url);
      url.username = 'mds_node';
      url.password = 'another-password';
      const node = await open(url.href);
      await node.media.accept(newMedia(1), EXISTING);
      expect(await node.media.find(newMedia(1).id)).not.toBeNull();
    });

    it('leaves other schemas alone if it has one of its own', async () => {
      const elsewhere = await open(`${fixture.url}?schema=media_delivery`);
      await elsewhere.media.accept(newMedia(1), EXISTING);
      expect(await rows("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")).toEqual([]);
      const here = await open();
      expect(await here.media.find(newMedia(1).id)).toBeNull();
      expect(await elsewhere.media.find(newMedia(1).id)).not.toBeNull();
    });
  });
});
