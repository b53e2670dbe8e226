import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { Client } from 'pg';
import { Database } from '../../src/db/sqlite/driver.ts';

/**
 * The rows and objects of one side of a move, read without the code of the move: every row as a line of text, and every object with its
 * size and SHA-256.
 */

/** By table: one line for each row, in order. */
export type Rows = Map<string, string[]>;

/** Columns about processes, which do not move: the holder of a row, and its time. */
const OF_PROCESSES = /^(lease_|lock_|progress$|accepting$)/;
/** Nodes report themselves, and each database has its own list of migrations. */
const NOT_MOVED = ['workers', 'region_nodes', '__drizzle_migrations', 'sqlite_sequence'];

export function sqliteRows(file: string): Rows {
  const client = new Database(file, { readonly: true });
  try {
    const names = client.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all() as string[];
    return new Map(
      names
        .filter((name) => !NOT_MOVED.includes(name))
        .map((name) => [name, (client.prepare(`SELECT * FROM "${name}"`).all() as Row[]).map(line).sort()]),
    );
  } finally {
    client.close();
  }
}

export async function postgresRows(url: string): Promise<Rows> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: columns } = await client.query<{ table: string; name: string; type: string }>(
      `SELECT table_name AS "table", column_name AS name, data_type AS type
       FROM information_schema.columns WHERE table_schema = 'public'`,
    );
    const found: Rows = new Map();
    for (const table of new Set(columns.map((column) => column.table))) {
      if (NOT_MOVED.includes(table)) continue;
      const ofTable = columns.filter((column) => column.table === table);
      // As text, because parsing and serializing might change it.
      const list = ofTable.map(({ name, type }) => (type === 'json' ? `"${name}"::text` : `"${name}"`));
      const { rows } = await client.query<Row>(`SELECT ${list.join(', ')} FROM "${table}"`);
      found.set(table, rows.map(line).sort());
    }
    return found;
  } finally {
    await client.end();
  }
}

type Row = Record<string, unknown>;

function line(row: Row): string {
  const entries = Object.entries(row).filter(([name]) => !OF_PROCESSES.test(name));
  return JSON.stringify(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => [name, canonical(value)]));
}

/** One driver returns large integers as strings, and the other database has 0 and 1 for booleans. */
function canonical(value: unknown): string | null {
  if (value === null) return null;
  if (Buffer.isBuffer(value)) return value.toString('hex');
  return typeof value === 'boolean' ? String(Number(value)) : String(value);
}

/** Every object as `key bytes sha256`, in order. */
export async function folderObjects(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const lines: string[] = [];
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    const key = path.slice(root.length + 1);
    if (entry.isFile() && !key.startsWith('.')) lines.push(objectLine(key, await readFile(path)));
  }
  return lines.sort();
}

export async function bucketObjects(client: S3Client, bucket: string, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken }));
    for (const { Key } of page.Contents ?? []) {
      // Keys that begin with a dot belong to the storage itself.
      if (Key !== undefined && !Key.startsWith('.', prefix.length)) keys.push(Key);
    }
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
  const lines: string[] = [];
  const read = async () => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      lines.push(objectLine(key.slice(prefix.length), await buffer(Body as AsyncIterable<Buffer>)));
    }
  };
  await Promise.all([read(), read(), read(), read()]);
  return lines.sort();
}

function objectLine(key: string, content: Buffer): string {
  return `${key} ${content.length} ${createHash('sha256').update(content).digest('hex')}`;
}

/** SHA-256 of lines. */
export function digestOf(lines: readonly string[]): string {
  return createHash('sha256').update(lines.join('\n')).digest('hex');
}
