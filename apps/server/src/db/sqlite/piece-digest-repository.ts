import { eq, sql } from 'drizzle-orm';
import type { PieceDigestRepository } from '../piece-digest-repository.ts';
import type { SqliteDatabase } from './database.ts';
import { pieceDigests } from './schema.ts';

/** {@link PieceDigestRepository} over SQLite. Rows go with the last rendition of their content, in the media repository. */
export function createPieceDigestRepository(db: SqliteDatabase): PieceDigestRepository {
  const find = db
    .select()
    .from(pieceDigests)
    .where(eq(pieceDigests.sha256, sql.placeholder('sha256')))
    .prepare();
  return {
    async put(sha256, digests) {
      db.insert(pieceDigests).values({ sha256, digests }).onConflictDoNothing().run();
    },

    async find(sha256) {
      return find.get({ sha256 })?.digests ?? null;
    },
  };
}
