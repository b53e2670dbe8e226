import { describe, expect, it } from 'vitest';
import { originalKey } from '../../base/object-key.ts';
import { ALLOW, EXISTING, failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** Media that are accepted, listed, and deleted. */
export function mediaConformance({
  repositories,
  newMedia,
  accept,
  claim,
  claimFor,
  thumbOf,
}: RepositoriesFixture): void {
  describe('accepting', () => {
    it('stores every field of a media object and queues its job', async () => {
      const mediaObject = newMedia('a', { durationMs: 1234, codecs: ['h264', 'aac'], kind: 'video' });
      const accepted = await repositories.media.accept(mediaObject, { ...EXISTING, idempotencyKey: 'key' });
      const expected = { ...mediaObject, status: 'queued', failure: null, attempts: 0, thumbhash: null };
      expect(accepted.created).toBe(true);
      expect(accepted.media).toMatchObject(expected);
      expect(await repositories.media.find(mediaObject.id)).toMatchObject(expected);
      expect(await repositories.media.findBySha256('default', mediaObject.sha256)).toMatchObject(expected);
      expect(await repositories.media.findByIdempotencyKey('default', 'key')).toMatchObject(expected);
      expect(await repositories.jobs.counts()).toMatchObject({ queued: 1, running: 0 });
    });

    it('counts the waiting media of one project only', async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      await accept('a');
      await accept('b');
      await repositories.media.accept(newMedia('c', { projectId: 'other' }), EXISTING);
      const queued = () => Promise.all(['default', 'other', 'none'].map((id) => repositories.media.countQueued(id)));
      expect(await queued()).toEqual([2, 1, 0]);
      await repositories.media.start(await claim(), []);
      expect(await queued()).toEqual([1, 1, 0]);
    });

    it('returns null for unknown media', async () => {
      expect(await repositories.media.find('med_none')).toBeNull();
      expect(await repositories.media.findBySha256('default', 'none')).toBeNull();
      expect(await repositories.media.findByIdempotencyKey('default', 'none')).toBeNull();
      expect(await thumbOf('med_none')).toBeNull();
      expect(await repositories.media.delete('med_none')).toBeNull();
      expect(await repositories.media.retry('med_none')).toBe(false);
      expect(await repositories.jobs.claim('worker-1')).toBeNull();
    });

    it('stores the same bytes once, with one job, unless duplicates are allowed', async () => {
      const first = await accept('a');
      const again = await repositories.media.accept(newMedia('a'), EXISTING);
      expect(again).toMatchObject({ created: false, media: { id: first.id } });
      expect((await repositories.jobs.counts()).queued).toBe(1);
      const another = await repositories.media.accept(newMedia('a'), ALLOW);
      expect(another.created).toBe(true);
      expect((await repositories.media.findBySha256('default', first.sha256))?.id).toBe(first.id);
    });

    it('makes one media object of concurrent uploads of the same bytes', async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, () => repositories.media.accept(newMedia('a'), EXISTING)),
      );
      expect(new Set(outcomes.map(({ media }) => media.id)).size).toBe(1);
      expect(outcomes.filter(({ created }) => created).length).toBe(1);
    });

    it('does not share a media object between projects with the same bytes', async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      await accept('a');
      const theirs = await repositories.media.accept(newMedia('a', { projectId: 'other' }), EXISTING);
      expect(theirs.created).toBe(true);
    });

    it('returns the media object of a repeated idempotency key, whatever comes with it', async () => {
      const keyed = { ...EXISTING, idempotencyKey: 'key' };
      const { media } = await repositories.media.accept(newMedia('a'), keyed);
      for (const duplicate of ['existing', 'allow'] as const) {
        const again = await repositories.media.accept(newMedia('b'), { ...keyed, duplicate });
        expect(again).toMatchObject({ created: false, media: { id: media.id } });
      }
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      const theirs = await repositories.media.accept(newMedia('c', { projectId: 'other' }), keyed);
      expect(theirs.created).toBe(true);
    });
  });

  describe('pages', () => {
    const walk = async (limit: number, onPage?: (ids: string[]) => Promise<unknown>) => {
      const seen: string[] = [];
      for (let before: string | null = null; ; ) {
        const page = await repositories.media.page({ projectId: 'default', limit, before });
        const publicPage = await repositories.media.publicPage({ projectId: 'default', limit, before });
        expect(page).toMatchObject(publicPage);
        expect(publicPage).toHaveLength(page.length);
        if (page.length === 0) return seen;
        const ids = page.map(({ id }) => id);
        seen.push(...ids);
        before = ids.at(-1) ?? null;
        await onPage?.(ids);
      }
    };

    it('list all media once, newest first', async () => {
      const ids: string[] = [];
      for (let n = 0; n < 7; n++) ids.unshift((await accept(`m${n}`)).id);
      expect(await walk(3)).toEqual(ids);
      expect(await walk(7)).toEqual(ids);
    });

    it('continue after the media object of the cursor was deleted or new ones were added', async () => {
      const ids: string[] = [];
      for (let n = 0; n < 6; n++) ids.unshift((await accept(`m${n}`)).id);
      const seen = await walk(2, async (page) => {
        await repositories.media.delete(page.at(-1) ?? '');
        await accept(`new-${page[0]}`);
      });
      expect(seen).toEqual(ids);
    });

    it("show no other project's media, and can be limited to one status", async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      await accept('theirs', { projectId: 'other' });
      const failed = await accept('a');
      const queued = await accept('b');
      await repositories.media.fail(await claimFor(failed.id), failure);
      const page = (status?: 'failed' | 'queued') =>
        repositories.media.page({ projectId: 'default', limit: 10, before: null, ...(status && { status }) });
      expect((await page()).map(({ id }) => id)).toEqual([queued.id, failed.id]);
      expect((await page('failed')).map(({ id }) => id)).toEqual([failed.id]);
      expect((await page('queued')).map(({ id }) => id)).toEqual([queued.id]);
    });
  });

  describe('deleting', () => {
    it('removes the rows and the job at once, and lists the unreferenced objects', async () => {
      const { id, sha256 } = await accept('a');
      const lease = await claim();
      // Objects of pending renditions count too: a worker may have stored them already.
      await repositories.media.start(lease, [row(), row({ name: 'large', state: 'skipped', objectKey: null })]);
      const deleted = await repositories.media.delete(id);
      expect(deleted?.media.id).toBe(id);
      expect(deleted?.orphans.sort()).toEqual([originalKey(sha256), 'renditions/thumb.0000000a.webp'].sort());
      expect(await repositories.media.find(id)).toBeNull();
      expect(await repositories.media.renditions(id)).toEqual([]);
      expect(await repositories.jobs.held()).toEqual([]);
      expect(await repositories.jobs.renew(lease)).toBe(false);
      expect(await repositories.media.publish(lease, result(ready()))).toBe(false);
      expect(await repositories.media.find(id)).toBeNull();
    });

    it('keeps an object that another media object of the same bytes uses', async () => {
      const first = await accept('a');
      await repositories.media.publish(await claim(), result(ready()));
      const second = await repositories.media.accept(newMedia('a'), ALLOW);
      await repositories.media.publish(await claim(), result(ready()));
      const keys = [originalKey(first.sha256), 'renditions/thumb.0000000a.webp'];

      expect((await repositories.media.delete(first.id))?.orphans).toEqual([]);
      for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(true);
      expect((await repositories.media.delete(second.media.id))?.orphans.sort()).toEqual(keys.sort());
      for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(false);
    });
  });
}
