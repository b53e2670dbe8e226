import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ApiError, createClient, type Migration } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { endWithUs } from './end-with-us.ts';
import { fillForMove } from './migrate-filling.ts';
import { type KnownAnswer, readKnown, startReadLoad } from './migrate-reading.ts';
import { bucketObjects, digestOf, folderObjects, postgresRows, sqliteRows } from './migrate-sides.ts';
import { png } from './pictures.ts';
import { findPostgres, type PostgresServer, startPostgresServer } from './postgres-server.ts';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from './s3-server.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';
import { describeWith } from './system-program.ts';

const CLI = fileURLToPath(new URL('../../cli/src/main.ts', import.meta.url));
const bin = findPostgres();
/** Of the source: whatever the run is about, its database is the embedded one. */
const isEmbedded = process.env['MDS_TEST_POSTGRES'] === undefined;
/** 10,000 in its long form. */
const MEDIA = Number(process.env['MDS_TEST_MIGRATE_MEDIA'] ?? 40);
const TIMEOUT_MS = 120_000 + MEDIA * 600;
/** As many of the media are read, and all of them are compared at the end. */
const READ_MEDIA = 400;
/** What the rows of these are changes with every delivery, and goes on while the deployment is moved. */
const OF_DELIVERIES = ['assets', 'versions'];
const WRITE_EVERY_MS = 200;

describeWith(
  isEmbedded && findS3Server() !== null ? bin : null,
  `PostgreSQL, with ${S3_SERVER}, and an embedded service`,
)('a deployment that is moved while it is read and written', () => {
  let folder: string;
  let postgres: PostgresServer;
  let s3: S3Server;
  let services: ServiceProcess[] = [];
  let env: Record<string, string>;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-migrate-'));
    [postgres, s3] = await Promise.all([startPostgresServer(bin ?? ''), startS3Server()]);
    const presets = join(folder, 'presets.json');
    await writeFile(presets, JSON.stringify([{ name: 'thumb', container: 'webp', width: 32, height: 32 }]));
    const { MDS_S3_ENDPOINT: _of, ...credentials } = s3.environment;
    env = { ...credentials, MDS_PRESETS: presets, MDS_PUBLIC_URL: 'https://media.example.org' };
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.end('SIGKILL')));
    services = [];
    await Promise.all([postgres.stop(), s3.stop()]);
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });

  const start = async (name: string, settings: Record<string, string> = {}) => {
    const service = await spawnService({ dataDir: join(folder, name), env: { ...env, ...settings } });
    services.push(service);
    return service;
  };

  it(
    'serves every request, also those that are on their way when clients are sent to the new one, and ends with equal checksums',
    async () => {
      const began = performance.now();
      const ids = await fillForMove(join(folder, 'old'), MEDIA, env);
      const filledMs = performance.now() - began;
      const old = await start('old');
      const paths = sample(ids, READ_MEDIA).flatMap((id) => [`/media/${id}/thumb.webp`, `/media/${id}/manifest.json`]);
      const known: KnownAnswer[] = [];
      for (const path of [...paths, ...(await listPages(old.url)), '/api/v1/renditions', '/api/v1/formats'])
        known.push(await readKnown(old.url, path));
      const reading = startReadLoad(old.url, known);
      await reading.more(100);
      const writing = startWriter(old);

      const bucket = await s3.createBucket();
      const database = await postgres.createDatabase();
      const moving = performance.now();
      const settings = await migrateTo(old, { database, storage: `s3://${bucket}/media`, endpoint: s3.endpoint });
      const movedMs = performance.now() - moving;
      const oldClient = createClient({ baseUrl: old.url, token: old.token });
      const migration: Migration = await oldClient.control.migrations.current();
      expect(migration).toMatchObject({ state: 'done', errors: [] });
      const frozenMs = Date.parse(migration.ended_at ?? '') - Date.parse(migration.frozen_at ?? '');

      // Both sides, before anybody writes at the new one.
      const [there, here] = [await postgresRows(database), sqliteRows(join(folder, 'old', 'mds.sqlite'))];
      expect([...there.keys()].sort()).toEqual([...here.keys()].sort());
      for (const [table, rows] of here) {
        if (OF_DELIVERIES.includes(table)) continue;
        expect([table, there.get(table)?.length, digestOf(there.get(table) ?? [])]).toEqual([
          table,
          rows.length,
          digestOf(rows),
        ]);
      }
      const objects = await folderObjects(join(folder, 'old', 'objects'));
      expect(objects.length).toBeGreaterThanOrEqual(2 * MEDIA);
      const copied = await bucketObjects(s3.client, bucket, 'media/');
      expect(copied).toEqual(objects);

      const moved = await start('new', { ...settings, MDS_DATABASE_URL: database });
      reading.goTo(moved.url);
      writing.goTo(moved);
      expect(await old.end('SIGTERM')).toEqual({ code: 0, signal: null });
      await reading.more(known.length);
      const reads = await reading.stop();
      const writes = await writing.stop();
      expect(reads.wrong).toEqual([]);
      expect(writes.wrong).toEqual([]);

      // What was acknowledged while it was moved is there, and becomes ready.
      const client = createClient({ baseUrl: moved.url, token: old.token });
      for (const id of writes.acknowledged) await client.control.media.waitUntilReady(id, { timeoutMs: 60_000 });
      process.stderr.write(
        `\n${MEDIA} media, ${objects.length} objects, ${migration.rows.copied} rows (filled in ${s(filledMs)}): moved in ${s(movedMs)}, ` +
          `frozen for ${s(frozenMs)}; ` +
          `${reads.requests} reads, ${reads.wrong.length} wrong, longest ${Math.round(reads.longestMs)} ms; ` +
          `${writes.acknowledged.length} written meanwhile, refused for ${s(writes.refusedMs)} until the new one took them; ` +
          `objects ${digestOf(copied).slice(0, 12)} on both sides\n`,
      );
    },
    TIMEOUT_MS,
  );

  /** The operator's command, to its end. @returns the settings that it prints */
  async function migrateTo(
    service: ServiceProcess,
    { database, storage, endpoint }: { database: string; storage: string; endpoint: string },
  ): Promise<Record<string, string>> {
    const argv = ['--conditions=@mds/source', '--import', import.meta.resolve('tsx'), CLI, 'migrate-to'];
    const child = spawn(process.execPath, [...argv, '--storage', storage, '--s3-endpoint', endpoint], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'] ?? '',
        MDS_URL: service.url,
        MDS_TOKEN: service.token,
        MDS_TARGET_DATABASE_URL: database,
      },
    });
    endWithUs(child);
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('Moved and equal')]);
    return Object.fromEntries(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/=(.*)/s).slice(0, 2)),
    );
  }
});

/** All pages of the list as it is now: those that follow a cursor stay as they are, whatever comes. */
async function listPages(url: string): Promise<string[]> {
  const pages: string[] = [];
  let cursor: string | null = null;
  do {
    const path: string = `/api/v1/media?limit=100${cursor === null ? '' : `&cursor=${cursor}`}`;
    if (cursor !== null) pages.push(path);
    const page = (await (await fetch(url + path)).json()) as { next_cursor: string | null };
    cursor = page.next_cursor;
  } while (cursor !== null);
  return pages;
}

/** As many of them, from all over. */
function sample(ids: readonly string[], count: number): string[] {
  const step = Math.max(1, ids.length / count);
  return Array.from({ length: Math.min(count, ids.length) }, (_, n) => ids[Math.floor(n * step)] ?? '');
}

function s(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Sends pictures, and each that is refused with 503 again, as its sender is asked to. */
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
        const asked = error instanceof ApiError && error.status === 503 && error.code === 'unavailable';
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
      // One that came through at the new one, at least.
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 60_000 }).toBeGreaterThan(before);
      stopping = true;
      await writer;
      return { acknowledged, wrong, refusedMs };
    },
  };
}
