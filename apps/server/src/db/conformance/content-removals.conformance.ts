import { describe, expect, it } from 'vitest';
import { ALLOW, type RepositoriesFixture } from './repositories.fixture.ts';

/** Deletions whose objects were not searched for yet. */
export function contentRemovalsConformance({ repositories, newMedia, accept }: RepositoriesFixture): void {
  const all = () => repositories.contentRemovals.page({ untilMs: null, after: null, limit: 100 });
  const one = async () => {
    const [removal, ...others] = await all();
    if (removal === undefined || others.length > 0) throw new Error('There is not one removal.');
    return removal;
  };

  describe('removals of content', () => {
    it('are recorded with the deletion of a media object only', async () => {
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

    it('are merged per content, and an outdated copy drops nothing', async () => {
      const first = await accept('a');
      const second = await repositories.media.accept(newMedia('a'), ALLOW);
      await repositories.media.delete(first.id);
      const seen = await one();
      // The repositories use the clock of the machine.
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

    it('are listed in pages by hash, and can be limited to the old ones', async () => {
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

    it('stay if the same bytes are accepted again, as the sweep checks them', async () => {
      await repositories.media.delete((await accept('a')).id);
      const removal = await one();
      await accept('a');
      expect(await one()).toEqual(removal);
    });
  });
}
