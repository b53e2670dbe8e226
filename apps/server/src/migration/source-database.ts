import { Database } from '../db/sqlite/driver.ts';
import { storableText } from '../db/storable.ts';
import { createChangeLog, createChangeReader } from './change-log.ts';
import type { Value } from './column-rules.ts';
import type { Column, Table } from './tables.ts';

/** An object that a row of the database refers to. */
export interface ReferredObject {
  key: string;
  bytes: number;
}

/** The embedded database, read beside the service that writes to it. */
export interface SourceDatabase {
  /** Begins to record changed rows of these tables. The next `hold` sees everything from before. */
  follow(tables: readonly Table[]): void;
  /** Takes a snapshot: from now on, reads return the state of this moment. */
  hold(): void;
  /** Rows of a table in the form of the copy, by primary key. Nothing else can be read until the last one was taken. */
  rows(table: Table): IterableIterator<Value[]>;
  /** The row with this primary key in the form of the copy; null if there is none. */
  row(table: Table, key: readonly Value[]): Value[] | null;
  count(table: Table): number;
  /** The primary keys of rows that changed between the last two snapshots. */
  changedKeys(table: Table): Value[][];
  /** SHA-256 by the rows, in lower-case hex; null if no row has it. */
  recordedSha256(objectKey: string): string | null;
  /** Whether a row refers to the object. */
  refersTo(objectKey: string): boolean;
  /** Every original, and every object of ready renditions; some more than once. Nothing else can be read until the last one was taken. */
  referredObjects(): IterableIterator<ReferredObject>;
  /** The same for the media that changed between the last two snapshots. */
  changedObjects(): ReferredObject[];
  openUploads(): number;
  /** The largest number that a table has given to a row, which may be deleted by now; 0 if it has given none. */
  lastNumber(table: string): number;
  close(): void;
}

/** Opens the file once more, for reading. @param file the SQLite file of a running service */
export function openSourceDatabase(file: string): SourceDatabase {
  const open = () => new Database(file, { readonly: true, fileMustExist: true, timeout: 10_000 });
  const client = open();
  // A connection returns the rows of one query at a time.
  const lookups = open();
  const recorded = lookups
    .prepare<[string, string], string>(
      `SELECT sha256 FROM media_renditions WHERE object_key = ? AND sha256 IS NOT NULL
       UNION ALL SELECT sha256 FROM rendition_files WHERE object_key = ? LIMIT 1`,
    )
    .pluck();
  const changes = createChangeReader(client);
  const log = createChangeLog(file);
  let isFollowing = false;
  let isHeld = false;
  return {
    follow(tables) {
      log.begin(tables);
      isFollowing = true;
    },

    hold() {
      if (isHeld) {
        if (isFollowing) changes.advance();
        client.exec('COMMIT');
      }
      client.exec('BEGIN');
      isHeld = true;
      // The snapshot is taken at the first read.
      client.prepare('SELECT count(*) FROM versions').get();
    },

    *rows({ name, columns, primaryKey }) {
      const statement = client
        .prepare(`SELECT ${quoted(columns.map((column) => column.name))} FROM "${name}" ORDER BY ${quoted(primaryKey)}`)
        .raw();
      for (const row of statement.iterate() as IterableIterator<(string | number | Buffer | null)[]>) {
        yield columns.map((column, index) => carriedValue(column, row[index] ?? null));
      }
    },

    row({ name, columns, primaryKey }, key) {
      const found = client
        .prepare(
          `SELECT ${quoted(columns.map((column) => column.name))} FROM "${name}" WHERE ${primaryKey.map((part) => `"${part}" = ?`).join(' AND ')}`,
        )
        .raw()
        .get(...key) as (string | number | Buffer | null)[] | undefined;
      return found?.map((value, index) => carriedValue(columns[index] as Column, value)) ?? null;
    },

    count: ({ name }) => client.prepare(`SELECT count(*) FROM "${name}"`).pluck().get() as number,

    changedKeys: (table) => changes.keys(table),

    recordedSha256: (key) => /^originals\/..\/([0-9a-f]{64})$/.exec(key)?.[1] ?? recorded.get(key, key) ?? null,

    refersTo: (key) =>
      client
        .prepare(
          `SELECT 1 FROM media WHERE sha256 = substr(@key, ${'originals/00/'.length + 1}) AND @key LIKE 'originals/%'
           UNION ALL SELECT 1 FROM (${single} AND object_key = @key) UNION ALL SELECT 1 FROM (${several} AND f.object_key = @key) LIMIT 1`,
        )
        .get({ key }) !== undefined,

    *referredObjects() {
      yield* client.prepare<[], ReferredObject>(`${originals} UNION ALL ${single} UNION ALL ${several}`).iterate();
    },

    changedObjects: () => {
      const ofMedia = client.prepare<[string, string, string], ReferredObject>(
        `${originals} WHERE id = ? UNION ALL ${single} AND r.media_id = ? UNION ALL ${several} AND r.media_id = ?`,
      );
      return changes.mediaIds().flatMap((id) => ofMedia.all(id, id, id));
    },

    openUploads: () => client.prepare("SELECT count(*) FROM uploads WHERE state = 'open'").pluck().get() as number,

    lastNumber: (table) =>
      (client.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck().get(table) as number | undefined) ?? 0,

    close() {
      client.close();
      lookups.close();
      if (isFollowing) log.end();
    },
  };
}

/** Objects that rows refer to: of media, of renditions of one file, and of those of several. */
const originals = "SELECT 'originals/' || substr(sha256, 1, 2) || '/' || sha256 AS key, bytes FROM media";
const single = `SELECT object_key, bytes FROM media_renditions r WHERE state = 'ready' AND NOT EXISTS
  (SELECT 1 FROM rendition_files f WHERE f.media_id = r.media_id AND f.name = r.name AND f.revision = r.revision)`;
const several = `SELECT f.object_key, f.bytes FROM rendition_files f JOIN media_renditions r
  ON r.media_id = f.media_id AND r.name = f.name AND r.extension = f.extension AND r.revision = f.revision
  WHERE r.state = 'ready'`;

function carriedValue({ type, rule }: Column, value: string | number | Buffer | null): Value {
  const known = type === 'boolean' && value !== null ? value !== 0 : value;
  const kept = rule === null ? known : 'left' in rule ? rule.left : rule.made(known);
  return typeof kept === 'string' ? storableText(kept) : kept;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(', ');
}
