import { and, eq, sql } from 'drizzle-orm';
import { mediaRenditions, pieceDigests, renditionFiles } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** A row of content that is larger than a piece; in the words of the partial indexes, which are used for them alone. */
export const LARGE = sql.raw('bytes > 1048576');

/** SHA-256 of what a media object has that may have piece digests. */
export function largeContents(tx: Transaction, mediaId: string): Set<string> {
  const found = new Set<string>();
  for (const table of [mediaRenditions, renditionFiles]) {
    const rows = tx
      .select({ sha256: table.sha256 })
      .from(table)
      .where(and(eq(table.mediaId, mediaId), LARGE))
      .all();
    for (const { sha256 } of rows) if (sha256 !== null) found.add(sha256);
  }
  return found;
}

/** Forgets the piece digests of what no rendition consists of any more. */
export function dropPieceDigests(tx: Transaction, contents: Iterable<string>): void {
  for (const sha256 of contents) {
    const isNeeded = [mediaRenditions, renditionFiles].some(
      (table) =>
        tx
          .select({ one: sql`1` })
          .from(table)
          .where(and(eq(table.sha256, sha256), LARGE))
          .limit(1)
          .get() !== undefined,
    );
    if (!isNeeded) tx.delete(pieceDigests).where(eq(pieceDigests.sha256, sha256)).run();
  }
}
