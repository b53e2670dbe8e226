import { describe, expect, it } from 'vitest';
import { failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** The events of every change. */
export function eventsConformance({ repositories, accept, claim }: RepositoriesFixture): void {
  describe('events', () => {
    const all = (projectId: string | null = null, seq = 0) =>
      repositories.events.after(seq, { projectId, limit: 1000 });

    it('report every change of a media object, in order', async () => {
      const { id } = await accept('a');
      const { media, jobs } = repositories;
      const lease = await claim();
      await media.start(lease, [row()]);
      await media.publishRendition(lease, ready());
      await media.publish(lease, result(ready()));
      await media.rederive(['renditions/thumb.0000000a.webp']);
      await media.publish(await claim(), result(ready()));
      await media.delete(id);
      const failing = await accept('b');
      const late = await claim();
      await media.start(late, [row()]);
      await jobs.reclaim(late.token, { counted: true });
      await media.start(late, [row()]);
      await media.fail(late, failure);
      await media.fail(await claim(), failure);

      const events = await all();
      expect(events.map(({ type, data }) => `${type} ${data['status'] ?? data['name']}`)).toEqual([
        'media.created queued',
        'media.processing processing',
        'rendition.ready thumb',
        'media.ready ready',
        'rendition.ready thumb',
        'media.deleted ready',
        'media.created queued',
        'media.processing processing',
        'rendition.failed thumb',
        'media.failed failed',
      ]);
      expect(events[0]).toMatchObject({ projectId: 'default', data: { id, status: 'queued', error: null } });
      expect(events[2]?.data).toEqual({ id, name: 'thumb', extension: 'webp', revision: '0000000a' });
      expect(events.at(-1)?.data).toEqual({ id: failing.id, status: 'failed', error: failure });
      const numbers = events.map(({ seq }) => seq);
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
      expect(await repositories.events.latest()).toBe(numbers.at(-1));
      expect(await all(null, numbers[8])).toHaveLength(1);
    });

    it('report every failed rendition once, with the reason', async () => {
      const { media, jobs } = repositories;
      const { id } = await accept('a');
      const lost = { ...row({ name: 'hls', extension: 'm3u8' }), state: 'failed' as const, reason: 'It was killed.' };
      const first = await claim();
      await media.start(first, [row(), { ...lost, state: 'pending', reason: null }]);
      await media.publishRendition(first, lost);
      await media.publish(first, result(ready(), lost));
      await media.retry(id);
      const second = await claim();
      await media.start(second, [row(), { ...lost, state: 'pending', reason: null }]);
      await media.fail(second, failure);
      expect(await media.find(id)).toMatchObject({ status: 'ready', failure });
      await media.retry(id);
      expect(await media.find(id)).toMatchObject({ status: 'ready', failure: null });
      // Its preset was removed meanwhile.
      await media.publish(await claim(), result(ready()));
      await media.rederive(['renditions/thumb.0000000a.webp']);
      await media.publish(await claim(), result(ready({ revision: '0000000b', objectKey: 'renditions/new.webp' })));

      const events = (await all()).filter(({ type }) => type === 'rendition.failed');
      const data = { id, name: 'hls', extension: 'm3u8', revision: lost.revision };
      expect(events.map((event) => event.data)).toEqual([
        { ...data, reason: 'It was killed.' },
        { ...data, reason: failure.message },
        { ...data, reason: 'Its preset does not exist any more.' },
        { ...data, name: 'thumb', extension: 'webp', reason: 'Its preset does not exist any more.' },
      ]);
      expect(new Set(events.map(({ projectId }) => projectId))).toEqual(new Set(['default']));
      expect(await media.find(id)).toMatchObject({ status: 'ready', failure: null });
      expect(await jobs.counts()).toMatchObject({ queued: 0, running: 0 });
    });

    it("show no other project's media, and show global events to all projects", async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      await accept('a', { projectId: 'other' });
      const data = { code: 'fra1', status: 'operational' };
      await repositories.events.append({ projectId: null, type: 'region.status_changed', data });
      expect((await all('other')).map(({ type }) => type)).toEqual(['media.created', 'region.status_changed']);
      expect(await all('default')).toMatchObject([{ type: 'region.status_changed', data }]);
    });

    it('wake a listener until it unsubscribes', async () => {
      let woken = 0;
      const forget = repositories.events.onAppended(() => {
        woken += 1;
      });
      await accept('a');
      await expect.poll(() => woken).toBe(1);
      forget();
      await accept('b');
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(woken).toBe(1);
    });
  });
}
