import { and, asc, eq, gt, lte } from 'drizzle-orm';
import type { ContentRemoval, ContentRemovalRepository } from '../content-removal-repository.ts';
import type { PostgresDatabase } from './database.ts';
import { contentRemovals } from './schema.ts';

/** {@link ContentRemovalRepository} over PostgreSQL. */
export function createContentRemovalRepository(
  db: PostgresDatabase,
  { writingDb }: { writingDb: PostgresDatabase },
): ContentRemovalRepository {
  const same = ({ sha256, sinceMs }: ContentRemoval) =>
    and(eq(contentRemovals.sha256, sha256), eq(contentRemovals.sinceMs, sinceMs));
  return {
    async page({ untilMs, after, limit }) {
      return db
        .select()
        .from(contentRemovals)
        .where(
          and(
            untilMs === null ? undefined : lte(contentRemovals.sinceMs, untilMs),
            after === null ? undefined : gt(contentRemovals.sha256, after),
          ),
        )
        .orderBy(asc(contentRemovals.sha256))
        .limit(limit);
    },

    async stands(removal) {
      return (await db.$count(contentRemovals, same(removal))) > 0;
    },

    async drop(removal) {
      await writingDb.delete(contentRemovals).where(same(removal));
    },
  };
}
