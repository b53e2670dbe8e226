import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createKeyedLock } from '../base/keyed-lock.ts';
import { originalKey } from '../base/object-key.ts';
import { describeOverPostgres, type PostgresFixture, silent } from '../db/postgres/postgres.fixture.ts';
import type { Repositories } from '../db/repositories.ts';
import { Database } from '../db/sqlite/driver.ts';
import { createRemovalSweep } from '../ingest/removal-sweep.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { openDestinationDatabase } from './destination.ts';
import { type Deployment, makeDeployment, temporaryFolder } from './migration.fixture.ts';
import { createMigration, type Migration } from './migration.ts';
import type { MigrationProgress } from './migration-progress.ts';
import { openSourceDatabase } from './source-database.ts';

/** Creates a migration of the deployment, with a list of its freezes. */
function migrationOf(deployment: Deployment, overrides: { store?: ObjectStore; onFreeze?: () => Promise<void> } = {}) {
  const froze: string[] = [];
  const migration = createMigration({
    store: overrides.store ?? deployment.store,
    openSource: () => openSourceDatabase(deployment.databaseFile),
    scratchDir: join(deployment.folder, 'scratch'),
    logger: silent,
    async freeze() {
      froze.push('freeze');
      await overrides.onFreeze?.();
    },
    async unfreeze() {
      froze.push('unfreeze');
    },
    moved: () => void froze.push('moved'),
  });
  onTestFinished(() => migration.stop());
  return { migration, froze };
}

/** @param before runs after the objects were copied and before a row is read */
async function moved(
  migration: Migration,
  url: string,
  store: ObjectStore,
  before: () => Promise<unknown> = async () => undefined,
): Promise<MigrationProgress> {
  const progress = await migration.begin(async () => {
    const database = await openDestinationDatabase(url);
    const { transaction } = database;
    database.transaction = async (work) => {
      await before();
      return transaction(work);
    };
    return { database, store, storageShown: 's3://bucket', close: () => database.close() };
  });
  await migration.settled();
  return progress;
}

async function keysOf(store: ObjectStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list('')) keys.push(key);
  return keys.sort();
}

/** Acts after all rows were copied and compared, while writes are still accepted: the store is listed again then. */
function onceCopied(store: ObjectStore, act: () => Promise<unknown>): ObjectStore {
  let lists = 0;
  return {
    ...store,
    async *list(prefix) {
      lists += 1;
      if (lists === 2) await act();
      yield* store.list(prefix);
    },
  };
}

async function localDestination(): Promise<ObjectStore> {
  return createLocalObjectStore({ root: await temporaryFolder() });
}

describeOverPostgres('the migration of a deployment', (fixture: PostgresFixture) => {
  it('copies every object and row, so that the new service answers like the old one', async () => {
    const deployment = await makeDeployment();
    const ids = await deployment.addMedia(120);
    const [deleted = ''] = await deployment.addMedia(1);
    await deployment.repositories.media.delete(deleted);
    await deployment.repositories.regions.put({ ...frankfurt });
    const to = await localDestination();
    const { migration, froze } = migrationOf(deployment);

    const progress = await moved(migration, fixture.url, to);
    expect(progress).toMatchObject({ state: 'done', phase: 'done', frozen: true, errors: [] });
    expect(progress.tables.find(({ name }) => name === 'media_renditions')?.rows).toBe(240);
    expect(froze).toEqual(['freeze', 'moved']);
    expect(await keysOf(to)).toEqual(await keysOf(deployment.store));

    const there = await fixture.open();
    for (const id of ids) {
      expect(await there.media.find(id)).toEqual(await deployment.repositories.media.find(id));
      expect(await there.media.renditions(id)).toEqual(await deployment.repositories.media.renditions(id));
    }
    // Events of deleted rows count too: the last event id of a listener must stay the last one.
    const before = await deployment.repositories.events.append(purge);
    expect(await there.events.append(purge)).toBe(before);
  });

  it('keeps a name with NUL in the form that PostgreSQL can store', async () => {
    const deployment = await makeDeployment();
    const [id = ''] = await deployment.addMedia(1, 'a\0b.jpg');
    const { migration } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, await localDestination())).toMatchObject({ state: 'done' });
    const there = await fixture.open();
    expect((await there.media.find(id))?.filename).toBe('a\uFFFDb.jpg');
  });

  it('moves no lease, so that running jobs start again at the destination', async () => {
    const deployment = await makeDeployment();
    const id = await deployment.addHeld();
    expect(await deployment.repositories.jobs.held()).toHaveLength(1);
    const { migration } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, await localDestination())).toMatchObject({ state: 'done' });
    const there = await fixture.open();
    expect(await there.jobs.held()).toEqual([]);
    expect((await there.jobs.claim('another'))?.mediaId).toBe(id);
  });

  it('copies media that arrive while it runs, up to the freeze', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(5);
    let late: string[] = [];
    const { migration } = migrationOf(deployment, {
      async onFreeze() {
        late = await deployment.addMedia(1);
      },
    });
    const to = await localDestination();
    expect(await moved(migration, fixture.url, to)).toMatchObject({ state: 'done' });
    expect(late).toHaveLength(1);
    expect(await keysOf(to)).toEqual(await keysOf(deployment.store));
    expect(await (await fixture.open()).media.find(late[0] ?? '')).not.toBeNull();
  });

  it('follows changes during the copy, and refuses writes only at its end', async () => {
    const deployment = await makeDeployment();
    const ids = await deployment.addMedia(60);
    const { repositories } = deployment;
    let added: string[] = [];
    const to = onceCopied(await localDestination(), async () => {
      for (const id of ids.slice(0, 5)) await repositories.media.delete(id);
      await repositories.regions.put(frankfurt);
      added = await deployment.addMedia(3);
    });
    let rowsAtFreeze = 0;
    const { migration } = migrationOf(deployment, {
      async onFreeze() {
        rowsAtFreeze = migration.current()?.copiedRows ?? 0;
        added.push(...(await deployment.addMedia(1)));
        await repositories.media.rederive([renditionOf(await repositories.media.renditions(ids[6] ?? ''))]);
      },
    });
    const progress = await moved(migration, fixture.url, to);
    expect(progress).toMatchObject({ state: 'done', errors: [] });
    // These are the rows of the last media object and of small tables. All 60 media have several hundred.
    expect(progress.copiedRows - rowsAtFreeze).toBeLessThan(60);
    expect(rowsAtFreeze).toBeGreaterThan(500);

    const there = await fixture.open();
    for (const id of [...ids, ...added]) {
      expect(await there.media.find(id)).toEqual(await repositories.media.find(id));
      expect(await there.media.renditions(id)).toEqual(await repositories.media.renditions(id));
    }
    expect(await there.regions.list()).toEqual([frankfurt]);
    const keys = await keysOf(to);
    for (const key of await keysOf(deployment.store)) expect(keys).toContain(key);
    expect(changeLogIn(deployment)).toEqual([]);
  });

  it('succeeds even if a media object is deleted before its objects were copied', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(2);
    const { repositories, store } = deployment;
    let [late = '']: string[] = [];
    const to = onceCopied(await localDestination(), async () => {
      const gone = await repositories.media.delete(late);
      for (const key of gone?.orphans ?? []) await store.delete(key);
    });
    const { migration } = migrationOf(deployment);
    const progress = await moved(migration, fixture.url, to, async () => {
      [late = ''] = await deployment.addMedia(1);
    });
    expect(progress).toMatchObject({ state: 'done', errors: [] });
    expect(late).not.toBe('');
    expect(await (await fixture.open()).media.find(late)).toBeNull();
  });

  it('removes copied objects of media that were deleted meanwhile', async () => {
    const deployment = await makeDeployment();
    const [remaining = '', early = '', late = ''] = await deployment.addMedia(3);
    const { media, contentRemovals } = deployment.repositories;
    await media.delete(early);
    const to = onceCopied(await localDestination(), () => media.delete(late));
    const { migration } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, to)).toMatchObject({ state: 'done' });
    expect((await keysOf(to)).length).toBe(9);

    const there = await fixture.open();
    const all = { untilMs: null, after: null, limit: 10 };
    expect(await there.contentRemovals.page(all)).toEqual(await contentRemovals.page(all));
    const lock = createKeyedLock();
    const sweep = createRemovalSweep({ ...there, store: to, lock, isMoving: () => false, logger: silent });
    await sweep.sweep('all');
    const { sha256 = '' } = (await there.media.find(remaining)) ?? {};
    const renditions = await there.media.renditions(remaining);
    const needed = [originalKey(sha256), ...renditions.map(({ objectKey }) => objectKey)];
    expect(await keysOf(to)).toEqual(needed.sort());
  });

  it('copies objects again that were removed at the destination meanwhile', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(2);
    const plain = await localDestination();
    const to = onceCopied(plain, async () => plain.delete((await keysOf(plain))[0] ?? ''));
    const { migration } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, to)).toMatchObject({
      state: 'done',
      objects: { verified: 6, copied: 7 },
    });
    expect(await keysOf(plain)).toEqual(await keysOf(deployment.store));
  });

  it('copies no intact object again if it is repeated after a failure', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(20);
    const to = await localDestination();
    let puts = 0;
    const breaking: ObjectStore = {
      ...to,
      async put(key, file) {
        puts += 1;
        if (puts > 30) throw new Error('the storage is gone');
        await to.put(key, file);
      },
    };
    const { migration, froze } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, breaking)).toMatchObject({ state: 'failed', frozen: false });
    expect(froze).toEqual([]);
    expect(await readdir(join(deployment.folder, 'scratch'))).toEqual([]);

    // It has the right size, so that a comparison of sizes would not find it.
    const [spoiled = ''] = await keysOf(to);
    const length = (await to.stat(spoiled))?.bytes ?? 0;
    await to.delete(spoiled);
    const staged = join(deployment.folder, 'spoiled');
    await writeFile(staged, Buffer.alloc(length));
    await to.put(spoiled, { path: staged, bytes: length, sha256: '' });

    const progress = await moved(migration, fixture.url, to);
    expect(progress).toMatchObject({ state: 'done', objects: { verified: 60, copied: 31 } });
    expect(await to.readAll(spoiled)).toEqual(await deployment.store.readAll(spoiled));
  });

  it('fails if an object is damaged, names it, and writes stay possible', async () => {
    const deployment = await makeDeployment();
    const ids = await deployment.addMedia(3);
    const mediaObject = await deployment.repositories.media.find(ids[1] ?? '');
    const key = originalKey(mediaObject?.sha256 ?? '');
    const file = join(deployment.objectsDir, key);
    const content = await readFile(file);
    content[7] = (content[7] ?? 0) ^ 1;
    await writeFile(file, content);
    const { migration, froze } = migrationOf(deployment);
    const to = await localDestination();
    expect(await moved(migration, fixture.url, to)).toMatchObject({
      state: 'failed',
      frozen: false,
      errors: [{ key }],
    });
    expect(froze).toEqual([]);
    expect(await to.stat(key)).toBeNull();
  });

  it('fails if an object is missing everywhere, and leaves the new database empty', async () => {
    const deployment = await makeDeployment();
    const [id = ''] = await deployment.addMedia(3);
    const key = originalKey((await deployment.repositories.media.find(id))?.sha256 ?? '');
    await rm(join(deployment.objectsDir, key));
    const { migration, froze } = migrationOf(deployment);
    const progress = await moved(migration, fixture.url, await localDestination());
    expect(progress).toMatchObject({ state: 'failed', phase: 'verify', frozen: false, errors: [{ key }] });
    // The migration never refused writes.
    expect(froze).toEqual([]);
    expect(await fixture.rows('SELECT 1 FROM media')).toEqual([]);
  });

  it('fails if the destination stored other rows than it received', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(2);
    // A trigger of another program changes the rows.
    await fixture.prepare();
    const client = await fixture.connect();
    await client.query(
      `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.width := 1; RETURN NEW; END $$`,
    );
    await client.query('CREATE TRIGGER spoil BEFORE INSERT ON media FOR EACH ROW EXECUTE FUNCTION spoil()');
    const { migration } = migrationOf(deployment);
    const progress = await moved(migration, fixture.url, await localDestination());
    expect(progress).toMatchObject({ state: 'failed', frozen: false });
    expect(progress.errors[0]?.message).toContain('media');
  });

  it('is refused if a service runs on the database, even without media', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(1);
    const to = await localDestination();
    const { migration, froze } = migrationOf(deployment);
    const there = await fixture.open();
    await there.regions.put(frankfurt);
    await expect(moved(migration, fixture.url, to)).rejects.toThrow('A service is running on the database');
    expect([froze, await keysOf(to), await there.regions.list()]).toEqual([[], [], [frankfurt]]);
  });

  it('fails if a service starts on the destination database meanwhile', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(1);
    const { migration } = migrationOf(deployment, {
      async onFreeze() {
        // A running service keeps this connection open to listen.
        await fixture.connect(`${fixture.url}?application_name=mds`);
      },
    });
    expect(await moved(migration, fixture.url, await localDestination())).toMatchObject({
      state: 'failed',
      frozen: false,
      errors: [{ message: expect.stringContaining('A service is running') }],
    });
    expect(await fixture.rows('SELECT id FROM media')).toEqual([]);
  });

  it('succeeds although a service was started too early at the destination', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(1);
    let opened: Promise<Repositories> | undefined;
    const { migration } = migrationOf(deployment, {
      async onFreeze() {
        const leaving = await fixture.connect(`${fixture.url}?application_name=mds`);
        setTimeout(() => void leaving.end(), 500);
        opened = fixture.open();
        const waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name <> 'mds' AND wait_event_type = 'Lock'";
        await expect.poll(() => fixture.rows(waiting)).not.toEqual([]);
      },
    });
    expect(await moved(migration, fixture.url, await localDestination())).toMatchObject({ state: 'done', errors: [] });
    const there = await opened;
    // It sees the migrated rows, not the database from before its wait.
    expect(there?.deployment).toEqual({ id: deployment.repositories.deployment.id, hasMedia: true });
  });

  it('is refused if the destination database already has media', async () => {
    const deployment = await makeDeployment();
    await deployment.addMedia(1);
    const to = await localDestination();
    const { migration, froze } = migrationOf(deployment);
    expect(await moved(migration, fixture.url, to)).toMatchObject({ state: 'done' });
    expect(await migration.cancel()).toMatchObject({ state: 'canceled', frozen: false });
    expect(froze).toEqual(['freeze', 'moved', 'unfreeze']);
    await expect(moved(migration, fixture.url, to)).rejects.toThrow('has media already');
    expect(await moved(migration, await fixture.server.createDatabase(), to)).toMatchObject({
      state: 'done',
      objects: { copied: 0, verified: 3 },
    });
  });
});

function renditionOf([first]: { objectKey: string | null }[]): string {
  return first?.objectKey ?? '';
}

/** The triggers and tables of the change log in the embedded database. */
function changeLogIn({ databaseFile }: Deployment): unknown[] {
  const client = new Database(databaseFile, { readonly: true });
  try {
    return client.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'migration_changes%'").all();
  } finally {
    client.close();
  }
}

const frankfurt = { code: 'fra1', name: 'Frankfurt', zone: 'eu', country: 'DE', maintenance: false };
const purge = { projectId: null, type: 'cache.purged', data: { media_id: null, path: null } } as const;
