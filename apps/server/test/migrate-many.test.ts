import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, createClient } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { fillForMove } from './support/migrate-filling.ts';
import { type KnownAnswer, readKnown, startReadLoad } from './support/migrate-reading.ts';
import { describeMoves, type MoveServers, startMoveServers } from './support/migrate-servers.ts';
import { bucketObjects, digestOf, folderObjects, postgresRows, sqliteRows } from './support/migrate-sides.ts';
import { png } from './support/pictures.ts';
import type { ServiceProcess } from './support/service-process.ts';

/** 10,000 in the long version. */
const MEDIA = Number(process.env['MDS_TEST_MIGRATE_MEDIA'] ?? 24);
const TIMEOUT_MS = 600_000 + MEDIA * 600;
/** The number of media to read. All media are compared at the end. */
const READ_MEDIA = 200;
/** Tables that change with every delivery, even during the move. */
const OF_DELIVERIES = ['assets', 'versions'];
const WRITE_EVERY_MS = 1_000;

describeMoves('a deployment that is moved while it is read and written', (bin) => {
  let servers: MoveServers;
  beforeEach(async () => {
    servers = await startMoveServers(bin);
  });
  afterEach(() => servers.stop());

  it(
    'serves every request, even during the switch, and ends with equal checksums',
    async () => {
      const dataDir = join(servers.folder, 'old');
      const began = performance.now();
      const ids = await fillForMove(dataDir, MEDIA, servers.env);
      const filledMs = performance.now() - began;
      const old = await servers.start('old');
      const paths = sample(ids, READ_MEDIA).flatMap((id) => [`/media/${id}/thumb.webp`, `/media/${id}/manifest.json`]);
      const known = await readPages(old.url);
      for (const path of [...paths, '/api/v1/renditions', '/api/v1/formats'])
        known.push(await readKnown(old.url, path));
      const reading = startReadLoad(old.url, known);
      await reading.more(100);
      const writing = startWriter(old);

      const to = await servers.createDestination();
      const moving = performance.now();
      const { code, stdout, stderr } = await servers.migrateTo(old, to).done;
      expect([code, stderr]).toEqual([0, expect.stringContaining('Moved and equal')]);
      const movedMs = performance.now() - moving;
      const oldClient = createClient({ baseUrl: old.url, token: old.token });
      const migration = await oldClient.control.migrations.current();
      expect(migration).toMatchObject({ state: 'done', errors: [] });
      const frozenMs = Date.parse(migration.ended_at ?? '') - Date.parse(migration.frozen_at ?? '');

      // Both sides, before any write at the destination.
      const [there, here] = [await postgresRows(to.database), sqliteRows(join(dataDir, 'mds.sqlite'))];
      expect([...there.keys()].sort()).toEqual([...here.keys()].sort());
      for (const [table, rows] of here) {
        if (OF_DELIVERIES.includes(table)) continue;
        expect([table, there.get(table)?.length, digestOf(there.get(table) ?? [])]).toEqual([
          table,
          rows.length,
          digestOf(rows),
        ]);
      }
      const objects = await folderObjects(join(dataDir, 'objects'));
      expect(objects.length).toBeGreaterThanOrEqual(2 * MEDIA);
      const copied = await bucketObjects(servers.s3.client, to.bucket, 'media/');
      expect(copied).toEqual(objects);

      const moved = await servers.start('new', { ...settingsIn(stdout), MDS_DATABASE_URL: to.database });
      // As a load balancer does.
      await expect.poll(async () => (await fetch(`${moved.url}/readyz`)).status, { timeout: 60_000 }).toBe(200);
      reading.goTo(moved.url);
      writing.goTo(moved);
      expect(await old.end('SIGTERM')).toEqual({ code: 0, signal: null });
      await reading.more(known.length);
      const reads = await reading.stop();
      const writes = await writing.stop();
      expect(reads.wrong).toEqual([]);
      // Other tests may overload the machine. The long version runs alone.
      if (MEDIA >= 1_000) expect(reads.shed).toBe(0);
      expect(writes.wrong).toEqual([]);

      // Media that were acknowledged during the move are there, and become ready.
      const client = createClient({ baseUrl: moved.url, token: old.token });
      for (const id of writes.acknowledged) await client.control.media.waitUntilReady(id, { timeoutMs: 60_000 });
      process.stderr.write(
        `\n${MEDIA} media, ${objects.length} objects, ${migration.rows.copied} rows (filled in ${s(filledMs)}): moved in ${s(movedMs)}, ` +
          `frozen for ${s(frozenMs)}; ` +
          `${reads.requests} reads, ${reads.wrong.length} wrong, ${reads.shed} asked again of a busy machine, longest ${Math.round(reads.longestMs)} ms; ` +
          `${writes.acknowledged.length} written meanwhile, refused for ${s(writes.refusedMs)} until the new one took them; ` +
          `objects ${digestOf(copied).slice(0, 12)} on both sides\n`,
      );
    },
    TIMEOUT_MS,
  );
});

/** The environment that the command prints for the destination, with a placeholder for the password. */
function settingsIn(printed: string): Record<string, string> {
  return Object.fromEntries(
    printed
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/s).slice(0, 2)),
  );
}

/** The present pages of the list except the first: pages after a cursor do not change with new media. */
async function readPages(url: string): Promise<KnownAnswer[]> {
  const pages: KnownAnswer[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await readKnown(url, `/api/v1/media?limit=100${cursor === '' ? '' : `&cursor=${cursor}`}`);
    if (cursor !== '') pages.push(page);
    cursor = (JSON.parse(page.bytes.toString()) as { next_cursor: string | null }).next_cursor;
  }
  return pages;
}

/** So many of them, evenly spread. */
function sample(ids: readonly string[], count: number): string[] {
  const step = Math.max(1, ids.length / count);
  return Array.from({ length: Math.min(count, ids.length) }, (_, n) => ids[Math.floor(n * step)] ?? '');
}

function s(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Uploads pictures, and repeats each that is refused during or after the move: here, then at the destination. */
function startWriter(service: ServiceProcess) {
  let at = service.url;
  let stopping = false;
  const acknowledged: string[] = [];
  const wrong: string[] = [];
  let refusedAt: number | null = null;
  let refusedMs = 0;
  const send = async (seed: number): Promise<void> => {
    while (!stopping) {
      const client = createClient({ baseUrl: at, token: service.token, maxRetries: 0 });
      try {
        const { media } = await client.control.media.ingest(png(seed), { idempotencyKey: `picture-${seed}` });
        acknowledged.push(media.id);
        if (refusedAt !== null) refusedMs = performance.now() - refusedAt;
        return;
      } catch (error) {
        const asked = error instanceof ApiError && ['unavailable', 'deployment_moved'].includes(error.code ?? '');
        if (!asked) {
          wrong.push(String(error));
          return;
        }
        refusedAt ??= performance.now();
        await sleep(WRITE_EVERY_MS);
      }
    }
  };
  const writer = (async () => {
    for (let seed = 1_000_000; !stopping; seed += 1) {
      await send(seed);
      await sleep(WRITE_EVERY_MS);
    }
  })();
  return {
    goTo(other: ServiceProcess) {
      at = other.url;
    },
    async stop() {
      // At least one at the destination.
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 60_000 }).toBeGreaterThan(before);
      stopping = true;
      await writer;
      return { acknowledged, wrong, refusedMs };
    },
  };
}
