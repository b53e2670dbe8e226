import { describe, expect, it } from 'vitest';
import { ALLOW, type RepositoriesFixture } from './repositories.fixture.ts';

/** Deletions whose objects are still to be looked for. */
export function contentRemovalsConformance({ repositories, newMedia, accept }: RepositoriesFixture): void {
  const all = () => repositories.contentRemovals.page({ untilMs: null, after: null, limit: 100 });
  const one = async () => {
    const [removal, ...others] = await all();
    if (removal === undefined || others.length > 0) throw new Error('There is not one removal.');
    return removal;
  };

  describe('removals of content', () => {
    it('are noted with the deletion of a media object, and not without', async () => {
      const { id, sha256 } = await accept('a');
      await accept('b');
      expect(await all()).toEqual([]);
      expect(await repositories.media.delete('med_none')).toBeNull();
      expect(await all()).toEqual([]);
      const beforeMs = Date.now();
      await repositories.media.delete(id);
      const { sinceMs, ...removal } = await one();
      expect(removal).toEqual({ sha256 });
      expect(sinceMs).toBeGreaterThanOrEqual(beforeMs);
      expect(sinceMs).toBeLessThanOrEqual(Date.now());
      expect(await repositories.contentRemovals.stands({ ...removal, sinceMs })).toBe(true);
    });

    it('of one content are one, as old as the latest deletion; whoever has seen an older one drops nothing', async () => {
      const first = await accept('a');
      const second = await repositories.media.accept(newMedia('a'), ALLOW);
      await repositories.media.delete(first.id);
      const seen = await one();
      // The clock of the repositories is the machine's.
      await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(seen.sinceMs);
      await repositories.media.delete(second.media.id);
      const latest = await one();
      expect(latest).toEqual({ sha256: first.sha256, sinceMs: expect.any(Number) });
      expect(latest.sinceMs).toBeGreaterThan(seen.sinceMs);
      expect(await repositories.contentRemovals.stands(seen)).toBe(false);
      await repositories.contentRemovals.drop(seen);
      expect(await one()).toEqual(latest);
      await repositories.contentRemovals.drop(latest);
      expect(await all()).toEqual([]);
      expect(await repositories.contentRemovals.stands(latest)).toBe(false);
      await repositories.contentRemovals.drop(latest);
    });

    it('are listed page by page in the order of their hashes, and those alone that are old enough', async () => {
      const hashes: string[] = [];
      for (let n = 0; n < 5; n++) {
        const { id, sha256 } = await accept(`m${n}`);
        await repositories.media.delete(id);
        hashes.push(sha256);
      }
      hashes.sort();
      const listed: string[] = [];
      for (let after: string | null = null; ; ) {
        const page = await repositories.contentRemovals.page({ untilMs: null, after, limit: 2 });
        listed.push(...page.map(({ sha256 }) => sha256));
        if (page.length < 2) break;
        after = page.at(-1)?.sha256 ?? null;
      }
      expect(listed).toEqual(hashes);
      const oldest = Math.min(...(await all()).map(({ sinceMs }) => sinceMs));
      const until = async (untilMs: number) =>
        (await repositories.contentRemovals.page({ untilMs, after: null, limit: 100 })).map(({ sinceMs }) => sinceMs);
      expect(await until(oldest - 1)).toEqual([]);
      expect([...new Set(await until(oldest))]).toEqual([oldest]);
      expect((await until(Date.now())).length).toBe(5);
    });

    it('outlive that the same bytes are taken in again: whoever carries them out looks', async () => {
      await repositories.media.delete((await accept('a')).id);
      const removal = await one();
      await accept('a');
      expect(await one()).toEqual(removal);
    });
  });
}
