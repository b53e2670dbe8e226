import { Database } from '../db/sqlite/driver.ts';
import type { Value } from './column-rules.ts';
import type { Table } from './tables.ts';

/** A table in the source that exists during a move. Every process that writes to the file fills it. */
const LOG = 'migration_changes';
/** As many columns as the longest primary key has. */
const KEYS = ['key_1', 'key_2', 'key_3', 'key_4'];

/** Records the changed rows of the embedded database, through any connection, from its beginning on. */
export interface ChangeLog {
  begin(tables: readonly Table[]): void;
  /** Removes it from the file. */
  end(): void;
}

/**
 * {@link ChangeLog} by triggers: the worker is another process, so recording the writes of this process alone would not suffice.
 * @param file the SQLite file of a running service
 */
export function createChangeLog(file: string): ChangeLog {
  const change = (work: (client: Database) => void) => {
    const client = new Database(file, { fileMustExist: true, timeout: 10_000 });
    try {
      client.transaction(() => work(client)).immediate();
    } finally {
      client.close();
    }
  };
  return {
    begin: (tables) =>
      change((client) => {
        drop(client);
        client.exec(
          `CREATE TABLE ${LOG} (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, ${KEYS.join(', ')})`,
        );
        for (const table of tables) for (const trigger of triggers(table)) client.exec(trigger);
      }),
    end: () => change(drop),
  };
}

/** Removes the log of a move that was killed with its service. */
export function removeChangeLog(file: string): void {
  const client = new Database(file, { readonly: true, fileMustExist: true });
  const isThere = client.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(LOG) !== undefined;
  client.close();
  if (isThere) createChangeLog(file).end();
}

function drop(client: Database): void {
  const names = client
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE ?")
    .pluck()
    .all(`${LOG}%`) as string[];
  for (const name of names) client.exec(`DROP TRIGGER "${name}"`);
  client.exec(`DROP TABLE IF EXISTS ${LOG}`);
}

function triggers({ name, primaryKey, columns }: Table): string[] {
  // Columns with a fixed value in the copy, such as leases, do not count as changes.
  const moving = columns.filter(({ rule }) => rule === null || 'made' in rule).map((column) => `"${column.name}"`);
  const note = (row: 'OLD' | 'NEW') =>
    `INSERT INTO ${LOG} (name, ${KEYS.slice(0, primaryKey.length).join(', ')})
     VALUES ('${name}', ${primaryKey.map((key) => `${row}."${key}"`).join(', ')});`;
  return [
    `CREATE TRIGGER ${LOG}_insert_${name} AFTER INSERT ON "${name}" BEGIN ${note('NEW')} END`,
    `CREATE TRIGGER ${LOG}_update_${name} AFTER UPDATE OF ${moving.join(', ')} ON "${name}" BEGIN ${note('OLD')} ${note('NEW')} END`,
    `CREATE TRIGGER ${LOG}_delete_${name} AFTER DELETE ON "${name}" BEGIN ${note('OLD')} END`,
  ];
}

/** Reads the log on the reader's connection, in its snapshot. */
export interface ChangeReader {
  /** The primary keys of rows of a table that changed since `advance`, each once. */
  keys(table: Table): Value[][];
  /** The media with a changed row, including rows of renditions and files. */
  mediaIds(): string[];
  /** Marks all changes up to the snapshot as seen. */
  advance(): void;
}

export function createChangeReader(client: Database): ChangeReader {
  let seen = 0;
  return {
    keys: ({ name, primaryKey }) =>
      client
        .prepare<[string, number], Value[]>(
          `SELECT DISTINCT ${KEYS.slice(0, primaryKey.length).join(', ')} FROM ${LOG} WHERE name = ? AND id > ?`,
        )
        .raw()
        .all(name, seen) as Value[][],

    mediaIds: () =>
      client
        .prepare<[number], string>(
          `SELECT DISTINCT key_1 FROM ${LOG} WHERE name IN ('media', 'media_renditions', 'rendition_files') AND id > ?`,
        )
        .pluck()
        .all(seen),

    advance() {
      seen = client.prepare(`SELECT coalesce(max(id), 0) FROM ${LOG}`).pluck().get() as number;
    },
  };
}
