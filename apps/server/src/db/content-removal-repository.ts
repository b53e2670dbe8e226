import { and, asc, eq, gt, lte } from 'drizzle-orm';
import type { Dialect } from './dialect.ts';

/** Bytes that may be in the store without a media object, because one that had them was deleted. */
export interface ContentRemoval {
  /** The hash of the original. */
  sha256: string;
  /** When the latest media object of this content was deleted, by the wall clock of the process that did it; milliseconds since the epoch. */
  sinceMs: number;
}

/** Deletions whose objects were not searched for yet. `MediaRepository.delete` writes them in its own transaction. */
export interface ContentRemovalRepository {
  /** In the order of hashes. `after`: the hash that the page starts after; `untilMs`: the latest instant of a deletion; null: any. */
  page(query: { untilMs: number | null; after: string | null; limit: number }): Promise<ContentRemoval[]>;
  /** Whether it is still due: it was not dropped, and no media object of the content was deleted since. */
  stands(removal: ContentRemoval): Promise<boolean>;
  /** Deletes it, unless a media object of the content was deleted since. */
  drop(removal: ContentRemoval): Promise<void>;
}

/** Creates the {@link ContentRemovalRepository}. */
export function createContentRemovalRepository({ tables, read, change }: Dialect): ContentRemovalRepository {
  const { contentRemovals: removals } = tables;
  const same = ({ sha256, sinceMs }: ContentRemoval) => and(eq(removals.sha256, sha256), eq(removals.sinceMs, sinceMs));
  return {
    async page({ untilMs, after, limit }) {
      const asked = and(
        untilMs === null ? undefined : lte(removals.sinceMs, untilMs),
        after === null ? undefined : gt(removals.sha256, after),
      );
      return read.select().from(removals).where(asked).orderBy(asc(removals.sha256)).limit(limit);
    },

    stands: async (removal) => (await read.$count(removals, same(removal))) > 0,

    async drop(removal) {
      await change((db) => db.delete(removals).where(same(removal)));
    },
  };
}
