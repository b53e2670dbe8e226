import { and, eq, isNotNull, notExists, type SQL, sql } from 'drizzle-orm';
import { changedRows, type Dialect, type Executor, type Transaction } from './dialect.ts';
import type { Tables } from './tables.ts';

/**
 * SHA-256 of the pieces of large objects, by the SHA-256 of the whole. Pieces have `PIECE_BYTES` each, the last one fewer. The digests are
 * deleted with the last rendition of that content.
 */
export interface PieceDigestRepository {
  /** Stores 32 bytes for each piece, before the rendition that needs them. To store them again changes nothing. */
  put(sha256: string, digests: Buffer): Promise<void>;
  find(sha256: string): Promise<Buffer | null>;
  /**
   * Deletes digests of content that was never published or no longer exists, for example those of dead workers. Deletes
   * none while a lease is held, because its worker may be about to publish. @returns their number
   */
  dropUnneeded(): Promise<number>;
}

/** Selects content that is larger than a piece, in the words of the partial indexes, which are used for these alone. */
const LARGE = sql.raw('bytes > 1048576');

/** Creates the {@link PieceDigestRepository}. Rows go with the last rendition of their content, in the media repository. */
export function createPieceDigestRepository(dialect: Dialect): PieceDigestRepository {
  const { tables, prepare, change } = dialect;
  const { jobs, pieceDigests } = tables;
  const find = prepare('piece_digests', (db) =>
    db
      .select()
      .from(pieceDigests)
      .where(eq(pieceDigests.sha256, sql.placeholder('sha256'))),
  );
  return {
    async put(sha256, digests) {
      await change((db) => db.insert(pieceDigests).values({ sha256, digests }).onConflictDoNothing());
    },

    async find(sha256) {
      const [row] = await find({ sha256 });
      return row?.digests ?? null;
    },

    dropUnneeded: () =>
      change(async (db) => {
        const leases = db.select({ one: sql`1` }).from(jobs).where(isNotNull(jobs.leaseToken));
        const unneeded = and(isUnused(db, tables), notExists(leases));
        return changedRows(await db.delete(pieceDigests).where(unneeded));
      }),
  };
}

/** SHA-256 of the contents of a media object that may have piece digests. */
export async function largeContents(
  { db }: Pick<Transaction, 'db'>,
  tables: Tables,
  mediaId: string,
): Promise<string[]> {
  const found = new Set<string>();
  for (const table of [tables.mediaRenditions, tables.renditionFiles]) {
    const ofMedia = and(eq(table.mediaId, mediaId), LARGE);
    const rows = await db.select({ sha256: table.sha256 }).from(table).where(ofMedia);
    for (const { sha256 } of rows) if (sha256 !== null) found.add(sha256);
  }
  return [...found];
}

/** Deletes the piece digests of those contents that no rendition has any more. */
export async function dropPieceDigests(
  { db }: Pick<Transaction, 'db'>,
  { tables, isAnyOf }: Dialect,
  contents: readonly string[],
): Promise<void> {
  if (contents.length === 0) return;
  const { pieceDigests } = tables;
  await db.delete(pieceDigests).where(and(isAnyOf(pieceDigests.sha256, contents), isUnused(db, tables)));
}

/** Whether no rendition and no file of one has the content of a row of piece digests. */
function isUnused(db: Executor, { mediaRenditions, renditionFiles, pieceDigests }: Tables): SQL | undefined {
  const unused = [mediaRenditions, renditionFiles].map((table) => {
    const sameContent = and(eq(table.sha256, pieceDigests.sha256), LARGE);
    return notExists(db.select({ one: sql`1` }).from(table).where(sameContent));
  });
  return and(...unused);
}
