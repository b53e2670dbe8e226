import { and, eq, notExists, sql } from 'drizzle-orm';
import { isAnyOf } from './is-any-of.ts';
import { mediaRenditions, pieceDigests, renditionFiles } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** A row of content that is larger than a piece; in the words of the partial indexes, which are used for them alone. */
export const LARGE = sql.raw('bytes > 1048576');

const TABLES = [mediaRenditions, renditionFiles] as const;

/** SHA-256 of what a media object has that may have piece digests. */
export async function largeContents({ db }: Transaction, mediaId: string): Promise<string[]> {
  const found = new Set<string>();
  for (const table of TABLES) {
    const rows = await db
      .select({ sha256: table.sha256 })
      .from(table)
      .where(and(eq(table.mediaId, mediaId), LARGE));
    for (const { sha256 } of rows) if (sha256 !== null) found.add(sha256);
  }
  return [...found];
}

/** Forgets the piece digests of what no rendition consists of any more. */
export async function dropPieceDigests({ db }: Transaction, contents: readonly string[]): Promise<void> {
  if (contents.length === 0) return;
  const unused = TABLES.map((table) =>
    notExists(
      db
        .select({ one: sql`1` })
        .from(table)
        .where(and(eq(table.sha256, pieceDigests.sha256), LARGE)),
    ),
  );
  await db.delete(pieceDigests).where(and(isAnyOf(pieceDigests.sha256, contents), ...unused));
}
