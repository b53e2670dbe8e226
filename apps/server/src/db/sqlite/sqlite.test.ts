import { statSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { repositoriesConformance } from '../conformance/repositories.conformance.ts';
import { DatabaseRefusedError } from '../database-refused-error.ts';
import { openDatabase } from './database.ts';
import { Database } from './driver.ts';
import { openSqliteRepositories } from './open-repositories.ts';

repositoriesConformance('SQLite', async () => openSqliteRepositories(':memory:'));

const MEDIA_OBJECT = {
  id: 'med_01k0c4s6q8y2v4w6x8z0a2c4e6',
  projectId: 'default',
  createdAtMs: 0,
  contentType: 'image/png',
  bytes: 1,
  width: 1,
  height: 1,
  filename: null,
  sha256: 'a'.repeat(64),
  kind: 'image' as const,
  format: 'png',
  durationMs: null,
  codecs: [],
  warnings: [],
  identified: {},
};
const EXISTING = { duplicate: 'existing', idempotencyKey: null } as const;

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-sqlite-'));
  file = join(folder, 'mds.sqlite');
});
afterEach(() => rm(folder, { recursive: true }));

describe('the SQLite file', () => {
  it('keeps committed rows when it is closed and opened again', async () => {
    const first = openSqliteRepositories(file);
    await first.media.accept(MEDIA_OBJECT, EXISTING);
    await first.close();
    const second = openSqliteRepositories(file);
    expect(await second.media.find(MEDIA_OBJECT.id)).toMatchObject({ id: MEDIA_OBJECT.id, status: 'queued' });
    await second.close();
  });

  it('invariant 1: syncs a commit to disk before it is acknowledged', async () => {
    const db = openDatabase(file);
    expect(db.$client.pragma('journal_mode', { simple: true })).toBe('wal');
    // 2 is FULL: fsync of the log at every commit. NORMAL may lose the last commits in a power cut.
    expect(db.$client.pragma('synchronous', { simple: true })).toBe(2);
    db.$client.close();
  });

  it('shares one queue between processes: one claims a job, the other sees its writes', async () => {
    const service = openSqliteRepositories(file);
    const worker = openSqliteRepositories(file);
    await service.media.accept(MEDIA_OBJECT, EXISTING);
    const version = await service.media.version();
    const [one, two] = await Promise.all([worker.jobs.claim('a'), service.jobs.claim('b')]);
    expect([one, two].filter((lease) => lease !== null)).toHaveLength(1);
    const lease = one ?? two;
    if (!lease) throw new Error('Nobody got the job.');
    await worker.media.start(lease, []);
    expect((await service.media.find(MEDIA_OBJECT.id))?.status).toBe('processing');
    expect(await service.media.version()).not.toBe(version);
    await service.close();
    await worker.close();
  });

  it('accepts heartbeats of an older worker, which sends no host or region', async () => {
    const { jobs, close } = openSqliteRepositories(file);
    const earlier = new Database(file);
    const beat = earlier.prepare(
      `INSERT INTO workers (id, pid, concurrency, beat) VALUES ('vm:1:a', 1, 2, 1)
       ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, concurrency = excluded.concurrency, beat = beat + 1`,
    );
    for (let n = 0; n < 2; n++) beat.run();
    const silent = { host: null, region: null, sinceMs: null };
    expect(await jobs.workers()).toEqual([{ id: 'vm:1:a', pid: 1, concurrency: 2, beat: 2, ...silent }]);
    earlier.close();
    await close();
  });
});

it('finds known bytes by an index, so that uploads stay fast among a million media', async () => {
  const prepared = vi.spyOn(Database.prototype, 'prepare');
  const { media, close } = openSqliteRepositories(file);
  await media.findBySha256('default', 'a'.repeat(64));
  const byContent = prepared.mock.calls.map(([text]) => text).filter((text) => text.includes('"sha256" = ?'));
  prepared.mockRestore();
  expect(byContent).not.toEqual([]);
  const client = new Database(file);
  for (const text of byContent) {
    const plan = client.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${text}`).all(null, null, null);
    expect(plan.map(({ detail }) => detail).join()).toContain('media_by_content');
  }
  client.close();
  await close();
});

it('gives back the disk space that a long read made its log take', async () => {
  const { $client: writer } = openDatabase(file);
  const reader = new Database(file);
  reader.exec('BEGIN; SELECT count(*) FROM media');
  writer.exec('CREATE TABLE ballast (bytes BLOB)');
  const insert = writer.prepare('INSERT INTO ballast VALUES (zeroblob(10000000))');
  for (let count = 0; count < 10; count += 1) insert.run();
  expect(statSync(`${file}-wal`).size).toBeGreaterThan(100_000_000);
  reader.close();
  // The first write copies the log into the database, and the second one begins it anew.
  for (let count = 0; count < 2; count += 1) insert.run();
  expect(statSync(`${file}-wal`).size).toBeLessThanOrEqual(64 * 1024 * 1024);
  writer.close();
});

describe('events', () => {
  it('are kept up to a limit, so that the table does not grow for ever', async () => {
    const { events, close } = openSqliteRepositories(':memory:', { keptEvents: 3 });
    const data = { code: 'fra1', status: 'operational' };
    for (let n = 0; n < 7; n++) await events.append({ projectId: null, type: 'region.status_changed', data });
    const stored = await events.after(0, { projectId: null, limit: 100 });
    expect(stored.map(({ seq }) => seq)).toEqual([5, 6, 7]);
    await close();
  });

  it('are not sent for a change that was rolled back', async () => {
    const { media, events, close } = openSqliteRepositories(file);
    await media.accept(MEDIA_OBJECT, EXISTING);
    // Events are written first; then the job cannot be written.
    const client = new Database(file);
    client.exec('DROP TABLE jobs');
    client.close();
    await expect(media.accept({ ...MEDIA_OBJECT, id: 'med_2', sha256: 'b' }, EXISTING)).rejects.toThrow();
    expect(await events.latest()).toBe(1);
    await close();
  });
});

describe('media that lost their job', () => {
  it('get a new one at the start of the service, so that none stays queued for ever', async () => {
    const repositories = openSqliteRepositories(file);
    await repositories.media.accept(MEDIA_OBJECT, EXISTING);
    const client = new Database(file);
    client.exec("DELETE FROM jobs; UPDATE media SET status = 'processing'");
    client.close();
    expect(await repositories.jobs.claim('worker')).toBeNull();
    expect(await repositories.jobs.adoptStranded()).toBe(1);
    expect(await repositories.media.find(MEDIA_OBJECT.id)).toMatchObject({ status: 'queued' });
    expect(await repositories.jobs.claim('worker')).toMatchObject({ mediaId: MEDIA_OBJECT.id });
    await repositories.close();
  });
});

describe('fault 23: a wall clock that jumps', () => {
  it('does not delay a retry for hours if it is set back', async () => {
    let nowMs = Date.UTC(2026, 0, 31);
    const { media, jobs, close } = openSqliteRepositories(':memory:', { now: () => nowMs });
    await media.accept(MEDIA_OBJECT, EXISTING);
    const lease = await jobs.claim('worker');
    if (!lease) throw new Error('There is nothing to claim.');
    await jobs.release(lease, {
      kind: 'retry',
      delayMs: 1000,
      failure: { code: 'engine_crashed', message: 'It crashed.', retryable: true },
    });
    expect(await jobs.claim('worker')).toBeNull();
    nowMs -= 24 * 60 * 60 * 1000;
    expect(await jobs.claim('worker')).toMatchObject({ attempt: 2 });
    expect((await jobs.counts()).oldestDueMs).toBe(0);
    await close();
  });
});

describe('fault 24: a database file that must not be touched', () => {
  const refusalOf = (path: string): string => {
    try {
      openDatabase(path).$client.close();
    } catch (error) {
      if (error instanceof DatabaseRefusedError) return error.message;
      throw error;
    }
    return 'It was opened.';
  };
  const sameBytesAfter = async (work: () => void) => {
    const before = await readFile(file);
    work();
    expect(before.equals(await readFile(file)), 'the file was changed').toBe(true);
  };
  const makeDatabase = async (media = 0) => {
    const repositories = openSqliteRepositories(file);
    for (let n = 0; n < media; n++) {
      const id = `med_${String(n).padStart(26, '0')}`;
      await repositories.media.accept({ ...MEDIA_OBJECT, id, sha256: id.padStart(64, '0') }, EXISTING);
    }
    await repositories.close();
  };

  it('is refused, and not migrated down, if it is of a newer version', async () => {
    await makeDatabase();
    const client = new Database(file);
    client
      .prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)')
      .run('future', 99_999_999_999_999);
    client.exec('ALTER TABLE media ADD COLUMN from_the_future text');
    client.close();
    await sameBytesAfter(() => expect(refusalOf(file)).toMatch(/written by a newer version.*Start that version/));
  });

  it('is refused, and not changed, if it belongs to another program', async () => {
    const client = new Database(file);
    client.exec("CREATE TABLE bookmarks (url text); INSERT INTO bookmarks VALUES ('https://example.org')");
    client.close();
    await sameBytesAfter(() => expect(refusalOf(file)).toMatch(/belongs to another program.*MDS_DATA_DIR/));
  });

  it('is refused, and not changed, if it is no database', async () => {
    await writeFile(file, 'This is a shopping list, not a database.\n'.repeat(100));
    await sameBytesAfter(() => expect(refusalOf(file)).toMatch(/damaged or not a database.*backup/));
  });

  it.each([
    ['overwritten pages', (bytes: Buffer) => bytes.fill(0xa5, 4096, 4096 * 3)],
    ['a cut-off end', (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length / 2))],
    ['a page overwritten deep inside', (bytes: Buffer) => bytes.fill(0xa5, bytes.length - 4096)],
    ['a flipped header', (bytes: Buffer) => bytes.fill(0x5a, 0, 40)],
  ])('is refused, with the fix, and not changed if it is damaged: %s', async (_, damage) => {
    await makeDatabase(60);
    await writeFile(file, damage(await readFile(file)));
    await sameBytesAfter(() => expect(refusalOf(file)).toMatch(/damaged or not a database.*backup/));
  });

  it('is refused if its folder does not exist', () => {
    expect(refusalOf(join(folder, 'none', 'mds.sqlite'))).toMatch(/cannot be opened/);
  });
});
