import { and, asc, eq, gt, lte } from 'drizzle-orm';
import type { Dialect } from './dialect.ts';

/** Bytes that may be in the store without a media object: one that had them was deleted. */
export interface ContentRemoval {
  /** Of the original. */
  sha256: string;
  /** When the latest media object of this content was deleted, by the wall clock of whoever did; milliseconds since the epoch. */
  sinceMs: number;
}

/** Deletions whose objects were not looked for yet. Written by {@link MediaRepository.delete}, in its own transaction. */
export interface ContentRemovalRepository {
  /** By hash; `after` is the hash that the page starts after, and `untilMs` the latest instant of a deletion; null: any. */
  page(query: { untilMs: number | null; after: string | null; limit: number }): Promise<ContentRemoval[]>;
  /** Whether it is still to be done: nobody has dropped it, and no media object of the content was deleted since. */
  stands(removal: ContentRemoval): Promise<boolean>;
  /** Forgets it, unless a media object of the content was deleted since. */
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
