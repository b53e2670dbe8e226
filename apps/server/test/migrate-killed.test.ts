import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, isNotFoundError, type Migration } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Database } from '../src/db/sqlite/driver.ts';
import { fillForMove } from './support/migrate-filling.ts';
import { describeMoves, type MoveServers, startMoveServers } from './support/migrate-servers.ts';
import { bucketObjects, folderObjects, postgresRows, sqliteRows } from './support/migrate-sides.ts';
import { seededRandom } from './support/seeded-random.ts';
import type { ServiceProcess } from './support/service-process.ts';

const MEDIA = 40;
const KILLS = Number(process.env['MDS_TEST_KILLS'] ?? 3);
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 6);
/** The number of objects in flight, which may be copied again. */
const ON_THEIR_WAY = 16;
const LOOK_MS = 5;
const OF_DELIVERIES = ['assets', 'versions'];

describeMoves('a move that was killed', (bin) => {
  let servers: MoveServers;
  beforeEach(async () => {
    servers = await startMoveServers(bin);
  });
  afterEach(() => servers.stop());

  it(
    'is continued by the same command, copies nothing twice, and ends equal',
    async () => {
      const dataDir = join(servers.folder, 'old');
      await fillForMove(dataDir, MEDIA, servers.env, { throughApi: 8 });
      const total = (await folderObjects(join(dataDir, 'objects'))).length;
      const to = await servers.createDestination();
      const random = seededRandom(SEED);

      let verified = 0;
      for (let kills = 0; kills < KILLS; kills += 1) {
        const service = await servers.start('old');
        expect(changeLogOf(dataDir)).toEqual([]);
        const { done, child } = servers.migrateTo(service, to);
        // The last kill comes while rows are written.
        const until = kills === KILLS - 1 ? total + 1 : Math.floor(random() * total);
        const seen = await reached(service, ({ objects, phase }) => phase !== 'objects' || objects.verified >= until);
        expect(seen.objects.copied).toBeLessThanOrEqual(total - verified + ON_THEIR_WAY);
        verified = Math.max(verified, seen.objects.verified);
        await service.end('SIGKILL');
        child.kill('SIGKILL');
        await done;
      }

      // Only the command is killed. The service continues, and the next command learns the result.
      const service = await servers.start('old');
      const first = servers.migrateTo(service, to);
      const begun = await reached(service, () => true);
      first.child.kill('SIGKILL');
      await first.done;
      const last = await servers.migrateTo(service, to).done;
      const client = createClient({ baseUrl: service.url, token: service.token });
      const migration = await client.control.migrations.current();
      expect(migration).toMatchObject({ state: 'done', started_at: begun.started_at });
      // The move may have ended before the command ran again, which it reports then.
      expect(last.code === 0 || last.stderr.includes('was moved')).toBe(true);
      expect(migration.objects.verified).toBe(total);
      expect(migration.objects.copied).toBeLessThanOrEqual(total - verified);
      expect(await service.end('SIGTERM')).toMatchObject({ code: 0 });
      expect(changeLogOf(dataDir)).toEqual([]);

      const [there, here] = [await postgresRows(to.database), sqliteRows(join(dataDir, 'mds.sqlite'))];
      for (const table of OF_DELIVERIES) for (const side of [there, here]) side.delete(table);
      expect(there).toEqual(here);
      expect(await bucketObjects(servers.s3.client, to.bucket, 'media/')).toEqual(
        await folderObjects(join(dataDir, 'objects')),
      );
    },
    300_000 + KILLS * 60_000,
  );
});

/** Resolves with the progress of the move, once it is that far or over. */
async function reached(service: ServiceProcess, isFar: (migration: Migration) => boolean): Promise<Migration> {
  const { migrations } = createClient({ baseUrl: service.url, token: service.token }).control;
  for (;;) {
    const migration = await migrations.current().catch((error: unknown) => {
      if (isNotFoundError(error)) return null;
      throw error;
    });
    if (migration !== null && (migration.state !== 'running' || isFar(migration))) return migration;
    await sleep(LOOK_MS);
  }
}

/** The tables and triggers of the embedded database that record changes. */
function changeLogOf(dataDir: string): string[] {
  const client = new Database(join(dataDir, 'mds.sqlite'), { readonly: true });
  try {
    return client
      .prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'migration_changes%'")
      .pluck()
      .all() as string[];
  } finally {
    client.close();
  }
}
