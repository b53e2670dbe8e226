import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { cached } from '../cache.ts';
import { root } from '../needs.ts';
import { startService } from './start-service.ts';

/** The part of better-sqlite3 that is used; it is the server's dependency, not ours. */
interface Sqlite {
  pragma(text: string): unknown;
  prepare(text: string): { run(row: Record<string, unknown>): unknown; pluck(): { get(): unknown } };
  transaction(work: () => void): () => void;
  close(): void;
}

const [nodeMajor = 0] = process.versions.node.split('.').map(Number);
const Database = createRequire(join(root, 'apps/server/package.json'))(
  nodeMajor >= 22 ? 'better-sqlite3' : 'better-sqlite3-node20',
) as new (
  file: string,
) => Sqlite;
const migrations = join(root, 'apps/server/src/db/sqlite/migrations');
const crockford = '0123456789abcdefghjkmnpqrstvwxyz';

/**
 * A data folder whose database has `count` ready media, made once and kept. The service itself makes the schema; plain inserts add
 * the rows. A new migration makes a new folder.
 */
export function dataDirWithMedia(rows: number, progress: (message: string) => void): Promise<string> {
  return cached(`media-${rows}-${schemaKey()}`, async (path) => {
    const service = await startService(path);
    await service.stop();
    progress(`inserting ${rows.toLocaleString('en')} media (once)`);
    const database = new Database(join(path, 'mds.sqlite'));
    try {
      database.pragma('synchronous = OFF');
      insertMedia(database, rows);
      database.pragma('wal_checkpoint(TRUNCATE)');
    } finally {
      database.close();
    }
  });
}

/** Identifies the schema: a hash of all migrations. */
export function schemaKey(): string {
  const hash = createHash('sha256');
  for (const file of readdirSync(migrations)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()) {
    hash.update(readFileSync(join(migrations, file)));
  }
  return hash.digest('hex').slice(0, 8);
}

function insertMedia(database: Sqlite, rows: number): void {
  const project = String(database.prepare('SELECT id FROM projects ORDER BY created_at_ms LIMIT 1').pluck().get());
  const insert = database.prepare(
    `INSERT INTO media (id, project_id, created_at_ms, content_type, bytes, width, height, status, filename, sha256, kind,
       format, codecs, warnings, identified, attempts)
     VALUES (@id, @project, @createdAtMs, 'image/jpeg', @bytes, 4000, 3000, 'ready', @filename, @sha256, 'image',
       'jpeg', '["jpeg"]', '[]', '{}', 1)`,
  );
  const from = Date.UTC(2025, 0, 1);
  const some = database.transaction(() => {
    for (let i = 0; i < rows; i++) {
      const createdAtMs = from + i * 25_000;
      insert.run({
        id: `med_${base32(createdAtMs, 10)}${base32(i, 16)}`,
        project,
        createdAtMs,
        bytes: 2_000_000 + ((i * 7919) % 3_000_000),
        filename: `picture-${i}.jpg`,
        sha256: createHash('sha256').update(String(i)).digest('hex'),
      });
    }
  });
  some();
}

/** The digits of a lower-case ULID. */
function base32(value: number, length: number): string {
  let digits = '';
  for (let rest = value; digits.length < length; rest = Math.floor(rest / 32))
    digits = crockford.charAt(rest % 32) + digits;
  return digits;
}
