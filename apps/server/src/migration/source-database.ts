import { storableText } from '../db/postgres/columns.ts';
import { Database } from '../db/sqlite/driver.ts';
import type { Column, Table, Value } from './tables.ts';

/** An object that a row of the database refers to. */
export interface ReferredObject {
  key: string;
  bytes: number;
}

/** The embedded database, read beside the service that writes to it. */
export interface SourceDatabase {
  /** From now on, all that is read is as it is at this moment, whatever is written. */
  hold(): void;
  /** Rows of a table as they are to be in the copy, by primary key. Nothing else can be asked until the last one was taken. */
  rows(table: Table): IterableIterator<Value[]>;
  /** Lower-case hex; null where no row tells. */
  recordedSha256(objectKey: string): string | null;
  /** Every original, and every object of what is ready. Some more than once. */
  referredObjects(): IterableIterator<ReferredObject>;
  openUploads(): number;
  /** The largest number that a table has given to a row of its own, which may be gone by now; 0 where it has given none. */
  lastNumber(table: string): number;
  close(): void;
}

/** Opens the file once more, for reading. @param file the SQLite file of a running service */
export function openSourceDatabase(file: string): SourceDatabase {
  const client = new Database(file, { readonly: true, fileMustExist: true, timeout: 10_000 });
  const recorded = client
    .prepare<[string, string], string>(
      `SELECT sha256 FROM media_renditions WHERE object_key = ? AND sha256 IS NOT NULL
       UNION ALL SELECT sha256 FROM rendition_files WHERE object_key = ? LIMIT 1`,
    )
    .pluck();
  return {
    hold() {
      client.exec('BEGIN');
      // The moment is that of the first look.
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

    recordedSha256: (key) => /^originals\/..\/([0-9a-f]{64})$/.exec(key)?.[1] ?? recorded.get(key, key) ?? null,

    *referredObjects() {
      yield* client
        .prepare<[], ReferredObject>(
          `SELECT 'originals/' || substr(sha256, 1, 2) || '/' || sha256 AS key, bytes FROM media
           UNION ALL SELECT object_key, bytes FROM media_renditions r WHERE state = 'ready' AND NOT EXISTS
             (SELECT 1 FROM rendition_files f WHERE f.media_id = r.media_id AND f.name = r.name AND f.revision = r.revision)
           UNION ALL SELECT f.object_key, f.bytes FROM rendition_files f JOIN media_renditions r
             ON r.media_id = f.media_id AND r.name = f.name AND r.extension = f.extension AND r.revision = f.revision
             WHERE r.state = 'ready'`,
        )
        .iterate();
    },

    openUploads: () => client.prepare("SELECT count(*) FROM uploads WHERE state = 'open'").pluck().get() as number,

    lastNumber: (table) =>
      (client.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck().get(table) as number | undefined) ?? 0,

    close: () => client.close(),
  };
}

function carriedValue({ type, carried }: Column, value: string | number | Buffer | null): Value {
  const known = type === 'boolean' && value !== null ? value !== 0 : value;
  const kept = carried === null ? known : carried(known);
  return typeof kept === 'string' ? storableText(kept) : kept;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(', ');
}
