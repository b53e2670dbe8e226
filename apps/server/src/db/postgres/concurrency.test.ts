import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ALLOW, EXISTING } from '../conformance/repositories.fixture.ts';
import type { NewFetch } from '../fetch-repository.ts';
import type { NewUpload } from '../upload-repository.ts';
import { openPostgresRepositories } from './open-repositories.ts';
import { describeOverPostgres, newMedia, silent } from './postgres.fixture.ts';

const PROCESSES = 6;

describeOverPostgres(
  'many processes on one PostgreSQL',
  (fixture) => {
    const { open, openMany, connect, rows } = fixture;
    /** The number of deadlocks that the server found in this database. */
    const deadlocks = async () => {
      const text = 'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()';
      return (await rows<{ n: number }>(text))[0]?.n;
    };

    it('start at once on an empty database, and one of them creates the tables', async () => {
      const all = await openMany(5);
      await Promise.all(all.map(({ media }, n) => media.accept(newMedia(n), EXISTING)));
      const [applied] = await rows<{ n: number; different: number }>(
        'SELECT count(*)::int AS n, count(DISTINCT created_at)::int AS different FROM __drizzle_migrations',
      );
      expect(applied?.n).toBeGreaterThan(0);
      expect(applied?.n).toBe(applied?.different);
      expect((await all[0]?.media.page({ projectId: 'default', limit: 10, before: null }))?.length).toBe(5);
    });

    it('number events in the order of commits, so that no reader misses one', async () => {
      const all = await openMany(4);
      // Commits take different times: without an order, later numbers become visible before earlier ones.
      await rows(`
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(random() * 0.01); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION dawdle()`);
      const each = 40;
      const data = { code: 'fra1', status: 'operational' };
      let writing = true;
      const writers = all.flatMap(({ events }) =>
        [1, 2].map(async () => {
          for (let n = 0; n < each; n++) await events.append({ projectId: null, type: 'region.status_changed', data });
        }),
      );
      const seen: number[] = [];
      const reader = (async () => {
        const { events } = await open();
        for (let last = false; !last; ) {
          last = !writing;
          const next = await events.after(seen.at(-1) ?? 0, { projectId: null, limit: 1000 });
          seen.push(...next.map(({ seq }) => seq));
        }
      })();
      await Promise.all(writers);
      writing = false;
      await reader;
      expect(seen.length).toBe(writers.length * each);
    });

    it('claim jobs at once, and each job is claimed once', async () => {
      const all = await openMany(PROCESSES);
      const jobs = 60;
      for (let n = 0; n < jobs; n++) await all[0]?.media.accept(newMedia(n), EXISTING);
      const claimed: string[] = [];
      const workers = all.flatMap((repositories, process) =>
        [1, 2].map(async (thread) => {
          for (;;) {
            const lease = await repositories.jobs.claim(`worker-${process}-${thread}`);
            if (lease === null) return;
            claimed.push(lease.mediaId);
          }
        }),
      );
      await Promise.all(workers);
      // A claim returns null while all remaining jobs are locked, so claim again.
      for (let lease = await all[0]?.jobs.claim('last'); lease; lease = await all[0]?.jobs.claim('last')) {
        claimed.push(lease.mediaId);
      }
      expect([claimed.length, new Set(claimed).size]).toEqual([jobs, jobs]);
      expect(await all[0]?.jobs.counts()).toMatchObject({ queued: 0, running: jobs });
    });

    it('accept the same bytes at once as one media object with one job', async () => {
      const all = await openMany(PROCESSES);
      for (let round = 0; round < 5; round++) {
        const sha256 = String(round).repeat(64);
        const accepted = await Promise.all(
          all.map(({ media }, n) => media.accept(newMedia(round * 100 + n, { sha256 }), EXISTING)),
        );
        expect(accepted.filter(({ created }) => created)).toHaveLength(1);
        expect(new Set(accepted.map(({ media }) => media.id)).size).toBe(1);
      }
      expect(await all[0]?.jobs.counts()).toMatchObject({ queued: 5 });
    });

    it('accept one idempotency key at once as one media object', async () => {
      const all = await openMany(PROCESSES);
      const keyed = { ...ALLOW, idempotencyKey: 'k' };
      const accepted = await Promise.all(all.map(({ media }, n) => media.accept(newMedia(n), keyed)));
      expect(accepted.filter(({ created }) => created)).toHaveLength(1);
    });

    it('begin uploads and fetches at once, and the limits hold', async () => {
      const all = await openMany(PROCESSES);
      const upload = (n: number): NewUpload => ({
        ...{ id: `upl_${n}`, projectId: 'default', tokenSha256: 'a', createdAtMs: 0, expiresAtMs: 1, metadata: null },
        ...{ filename: null, duplicate: 'existing', idempotencyKey: null, expectedSha256: null, length: 1 },
      });
      const fetch = (n: number): NewFetch => ({
        ...{ id: `fch_${n}`, projectId: 'default', createdAtMs: 0, sourceUrl: 'https://example.org/' },
        ...{ filename: null, duplicate: 'existing', idempotencyKey: null, requestSha256: String(n) },
      });
      const uploads = await Promise.all(all.map((each, n) => each.uploads.create(upload(n), { maxOpen: 2 })));
      expect(uploads.filter((created) => created)).toHaveLength(2);
      const fetches = await Promise.all(all.map((each, n) => each.fetches.add(fetch(n), { maxWaiting: 2 })));
      expect(fetches.filter(({ outcome }) => outcome === 'created')).toHaveLength(2);
      const claims = await Promise.all(all.map((each) => each.fetches.claim()));
      const claimed = claims.flatMap((lease) => (lease === null ? [] : [lease.fetch.id]));
      expect(new Set(claimed).size).toBe(claimed.length);
    });

    it('record deliveries at once, each with its own place in the order', async () => {
      const all = await openMany(PROCESSES);
      const delivered = (path: string) => ({ region: 'fra1', path, bytes: 1, cacheStatus: 'HIT' as const, atMs: 1 });
      await Promise.all(all.map(({ assets }, n) => assets.record([delivered('/shared'), delivered(`/${n}`)], 100)));
      expect(
        await rows('SELECT count(*)::int AS assets, count(DISTINCT request_seq)::int AS places FROM assets'),
      ).toEqual([{ assets: PROCESSES + 1, places: PROCESSES + 1 }]);
    });

    it('delete media while others process them, without a deadlock', async () => {
      const all = await Promise.all([1, 2, 3, 4].map(() => openPostgresRepositories(fixture.url, { logger: silent })));
      const [first] = all;
      if (!first) throw new Error('Nothing is open.');
      const media = 40;
      for (let n = 0; n < media; n++) await first.media.accept(newMedia(n), EXISTING);
      const workers = all.slice(1).map(async ({ jobs, media: own }) => {
        for (let lease = await jobs.claim('w'); lease !== null; lease = await jobs.claim('w')) {
          await own.start(lease, []);
          await jobs.renew(lease);
          if (Math.random() < 0.3) await jobs.reclaim(lease.token, { counted: false });
          else await own.publish(lease, { renditions: [], thumbhash: null, warnings: [] });
        }
      });
      for (let n = 0; n < media; n++) await first.media.delete(newMedia(n).id);
      await Promise.all(workers);
      expect(await first.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
      await Promise.all(all.map((repositories) => repositories.close()));
      // A connection reports its deadlocks when it ends.
      const connected =
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mds'";
      await expect.poll(() => rows(connected), { timeout: 20_000 }).toEqual([]);
      expect(await deadlocks()).toBe(0);
    });

    it('retry a write that lost a deadlock, and its caller sees no error', async () => {
      const { projects } = await open();
      await projects.put({ id: 'other', name: 'Other', hosts: ['other.test'] });
      const stranger = await connect();
      await stranger.query("BEGIN; SELECT 1 FROM project_hosts WHERE host = 'other.test' FOR UPDATE");
      const put = projects.put({ id: 'other', name: 'New', hosts: ['new.test'] });
      const waiting = () =>
        rows("SELECT 1 FROM pg_stat_activity WHERE application_name = 'mds' AND wait_event_type = 'Lock'");
      while ((await waiting()).length === 0) await sleep(5);
      // Now each waits for the other. The server cancels the one that waited first.
      await stranger.query("SELECT 1 FROM projects WHERE id = 'other' FOR UPDATE");
      await stranger.query('COMMIT');
      await put;
      await expect.poll(deadlocks, { timeout: 20_000 }).toBe(1);
      expect(await projects.byHost('new.test')).toEqual({ id: 'other', name: 'New' });
    });
  },
  { settings: { deadlock_timeout: '200ms' } },
);
