import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../needs.ts';
import { toText } from '../table.ts';

// `tsx bench/simulation/database-size.ts MEDIA [URL [MIGRATIONS]]` fills the service's own tables with MEDIA media in upload order,
// in SQLite or in the empty PostgreSQL at URL. It prints the size of a row in each table with its indexes, as used in docs/scale.md.

/** A database that has the service's tables. */
interface Filled {
  insert(table: string, rows: readonly Readonly<Record<string, unknown>>[]): Promise<void>;
  /** Bytes on disk: a table and its indexes. */
  sizes(): Promise<ReadonlyMap<string, { readonly table: number; readonly indexes: number }>>;
  close(): Promise<void>;
}

const RENDITIONS = ['thumb.webp', 'small.webp', 'medium.webp', 'medium.avif', 'medium.jpg', 'large.webp'] as const;
/** One in this many media is a video of a minute, with 4 rungs of 15 segments and their playlists. */
const VIDEO_EVERY = 50;
const FILES = 65;
const BATCH = 1000;
const servers = createRequire(join(root, 'apps/server/package.json'));

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const digits = (value: number, length: number) => value.toString(32).padStart(length, '0');

/** Rows of one media object by table, as ingest and rendering write them. */
function rowsOf(index: number): Record<string, Record<string, unknown>[]> {
  const createdAtMs = 1_750_000_000_000 + index * 250;
  // A time, and a random part.
  const id = `med_${digits(createdAtMs, 10)}${sha256(`id ${index}`).slice(0, 16)}`;
  const source = sha256(`medium ${index}`);
  const [revision, updated] = ['0a1b2c3d', createdAtMs + 700];
  const common = { media_id: id, revision };
  const folder = `renditions/${source.slice(0, 2)}/${source}`;
  const identified = JSON.stringify({ kind: 'image', format: 'jpeg', width: 4000, height: 3000, orientation: 1 });
  const mediaObject = {
    ...{ id, project_id: 'default', created_at_ms: createdAtMs, content_type: 'image/jpeg', bytes: 3_145_728 + index },
    ...{ width: 4000, height: 3000, status: 'ready', filename: `IMG_${index}.jpg`, sha256: source, kind: 'image' },
    ...{ format: 'jpeg', codecs: '["jpeg"]', warnings: '[]', identified, attempts: 1 },
    thumbhash: sha256(source).slice(0, 32),
  };
  const renditions = RENDITIONS.map((file) => {
    const [name = '', extension = ''] = file.split('.');
    return {
      ...{ ...common, name, extension, content_type: `image/${extension}`, state: 'ready', files: 1 },
      ...{ object_key: `${folder}/${name}.${revision}.${extension}`, sha256: sha256(`${index} ${file}`) },
      ...{ bytes: 16_384 + index, width: 960, height: 720, updated_at_ms: updated, current: true },
    };
  });
  if (index % VIDEO_EVERY !== 0) return { media: [mediaObject], media_renditions: renditions };
  const hls = { ...renditions[0], name: 'hls', extension: 'm3u8', content_type: 'application/vnd.apple.mpegurl' };
  const files = Array.from({ length: FILES }, (_, segment) => ({
    ...{
      ...common,
      name: 'hls',
      extension: 'm3u8',
      file: `1080p/segment-${segment}.m4s`,
      content_type: 'video/iso.segment',
    },
    ...{ object_key: `${folder}/hls.${revision}/1080p/segment-${segment}.m4s`, sha256: sha256(`${index} ${segment}`) },
    bytes: 700_000,
  }));
  return { media: [mediaObject], media_renditions: [...renditions, hls], rendition_files: files };
}

/** The latest requests of regions, 10,000 of each: all that the request log keeps. */
function assetsOf(index: number): Record<string, unknown> {
  return {
    ...{ id: `ast_${digits(1_750_000_000_000 + index, 10)}${sha256(`asset ${index}`).slice(0, 16)}`, region: 'fra1' },
    ...{ path: `/media/med_${sha256(`path ${index}`).slice(0, 26)}/thumb.webp`, created_at_ms: 1_750_000_000_000 },
    ...{ bytes: 16_384, cache_status: 'HIT', request_seq: index },
  };
}

async function migrationsIn(folder: string): Promise<string[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return texts.flatMap((text) => text.split('--> statement-breakpoint'));
}

interface Sqlite {
  exec(sql: string): void;
  pragma(text: string): unknown;
  prepare(sql: string): { run(...values: unknown[]): void; all(): { name: string; tbl: string; bytes: number }[] };
  close(): void;
}

async function openSqlite(): Promise<Filled> {
  const [major = 0] = process.versions.node.split('.').map(Number);
  const Database = servers(major >= 22 ? 'better-sqlite3' : 'better-sqlite3-node20') as new (file: string) => Sqlite;
  const folder = await mkdtemp(join(tmpdir(), 'mds-rows-'));
  const database = new Database(join(folder, 'rows.sqlite'));
  database.pragma('journal_mode = OFF');
  database.pragma('synchronous = OFF');
  database.pragma('cache_size = -1000000');
  for (const sql of await migrationsIn(join(root, 'apps/server/src/db/sqlite/migrations'))) database.exec(sql);
  return {
    async insert(table, rows) {
      const names = Object.keys(rows[0] ?? {});
      const insert = database.prepare(
        `INSERT INTO ${table} (${names.map((name) => `"${name}"`)}) VALUES (${names.map(() => '?')})`,
      );
      database.exec('BEGIN');
      for (const row of rows) insert.run(...names.map((name) => (row[name] === true ? 1 : row[name])));
      database.exec('COMMIT');
    },
    async sizes() {
      const found = database
        .prepare(
          `SELECT d.name, m.tbl_name AS tbl, sum(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_schema m ON m.name = d.name GROUP BY d.name`,
        )
        .all();
      const sizes = new Map<string, { table: number; indexes: number }>();
      for (const { name, tbl, bytes } of found) {
        const { table, indexes } = sizes.get(tbl) ?? { table: 0, indexes: 0 };
        sizes.set(tbl, name === tbl ? { table: table + bytes, indexes } : { table, indexes: indexes + bytes });
      }
      return sizes;
    },
    async close() {
      database.close();
      await rm(folder, { recursive: true });
    },
  };
}

interface Postgres {
  connect(): Promise<void>;
  query(sql: string, values?: unknown[]): Promise<{ rows: { name: string; table: string; indexes: string }[] }>;
  end(): Promise<void>;
}

async function openPostgres(url: string, migrations: string): Promise<Filled> {
  const { Client } = servers('pg') as { Client: new (url: string) => Postgres };
  const client = new Client(url);
  await client.connect();
  for (const sql of await migrationsIn(migrations)) await client.query(sql);
  return {
    async insert(table, rows) {
      await client.query(`INSERT INTO ${table} SELECT * FROM json_populate_recordset(null::${table}, $1)`, [
        JSON.stringify(rows.map((row) => ({ ...defaultsOf(table), ...row }))),
      ]);
    },
    async sizes() {
      await client.query('VACUUM ANALYZE');
      const { rows } = await client.query(
        `SELECT relname AS name, pg_table_size(oid) AS table, pg_indexes_size(oid) AS indexes FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
      );
      return new Map(
        rows.map(({ name, table, indexes }) => [name, { table: Number(table), indexes: Number(indexes) }]),
      );
    },
    close: () => client.end(),
  };
}

/** Columns that `json_populate_recordset` would otherwise set to null. */
function defaultsOf(table: string): Record<string, unknown> {
  return table === 'media' ? { attempts: 1 } : {};
}

async function main(): Promise<void> {
  const [count = '200000', url, migrations = join(root, 'apps/server/src/db/postgres/migrations')] =
    process.argv.slice(2);
  const media = Number(count);
  const database = url === undefined ? await openSqlite() : await openPostgres(url, migrations);
  const counts = new Map<string, number>();
  const add = async (table: string, rows: readonly Record<string, unknown>[]) => {
    if (rows.length === 0) return;
    await database.insert(table, rows);
    counts.set(table, (counts.get(table) ?? 0) + rows.length);
  };
  await add('projects', [{ id: 'default', name: 'default', created_at_ms: 0 }]);
  for (let from = 0; from < media; from += BATCH) {
    const made = Array.from({ length: Math.min(BATCH, media - from) }, (_, index) => rowsOf(from + index));
    for (const table of ['media', 'media_renditions', 'rendition_files'])
      await add(
        table,
        made.flatMap((rows) => rows[table] ?? []),
      );
    await add(
      'assets',
      made.map((_, index) => assetsOf(from + index)),
    );
  }
  const sizes = await database.sizes();
  const perRow = (bytes: number, rows: number) => (bytes / rows).toFixed(0);
  const rows = [...counts]
    .filter(([table]) => table !== 'projects')
    .map(([table, count]) => {
      const { table: own, indexes } = sizes.get(table) ?? { table: 0, indexes: 0 };
      return [
        table,
        count.toLocaleString('en'),
        perRow(own, count),
        perRow(indexes, count),
        perRow(own + indexes, count),
      ];
    });
  console.log(toText({ title: 'bytes a row', head: ['table', 'rows', 'table', 'indexes', 'both'], rows }));
  await database.close();
}

await main();
