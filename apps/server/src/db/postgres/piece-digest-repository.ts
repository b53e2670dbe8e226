import { and, eq, isNotNull, notExists, sql } from 'drizzle-orm';
import type { PieceDigestRepository } from '../piece-digest-repository.ts';
import type { PostgresDatabase } from './database.ts';
import { LARGE } from './piece-digest-cleanup.ts';
import { jobs, mediaRenditions, pieceDigests, renditionFiles } from './schema.ts';

/** {@link PieceDigestRepository} over PostgreSQL. Rows go with the last rendition of their content, in the media repository. */
export function createPieceDigestRepository(
  db: PostgresDatabase,
  { writingDb }: { writingDb: PostgresDatabase },
): PieceDigestRepository {
  const find = db
    .select()
    .from(pieceDigests)
    .where(eq(pieceDigests.sha256, sql.placeholder('sha256')))
    .prepare('piece_digests');
  /** Of another table: rows that have the content of this one. */
  const sameContent = (table: typeof mediaRenditions | typeof renditionFiles) =>
    db
      .select({ one: sql`1` })
      .from(table)
      .where(and(eq(table.sha256, pieceDigests.sha256), LARGE));
  const leases = db.select({ one: sql`1` }).from(jobs).where(isNotNull(jobs.leaseToken));
  return {
    async put(sha256, digests) {
      await writingDb.insert(pieceDigests).values({ sha256, digests }).onConflictDoNothing();
    },

    async find(sha256) {
      return (await find.execute({ sha256 }))[0]?.digests ?? null;
    },

    async dropUnneeded() {
      const { rowCount } = await writingDb
        .delete(pieceDigests)
        .where(and(notExists(sameContent(mediaRenditions)), notExists(sameContent(renditionFiles)), notExists(leases)));
      return rowCount ?? 0;
    },
  };
}
