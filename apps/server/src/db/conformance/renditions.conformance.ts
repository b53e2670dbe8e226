import { describe, expect, it } from 'vitest';
import { failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** Renditions from plan to delivery, with the states of their media object. */
export function renditionsConformance({ repositories, accept, claim, thumbOf }: RepositoriesFixture): void {
  describe('processing', () => {
    it('delivers no rendition of a media object before it is published', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const skipped = row({ name: 'large', state: 'skipped', reason: 'Too small.', objectKey: null });
      expect(await repositories.media.start(lease, [row(), skipped])).toBe(true);
      expect(await repositories.media.find(id)).toMatchObject({ status: 'processing', attempts: 1 });
      const states = (await repositories.media.renditions(id)).map(({ name, state }) => [name, state]);
      expect(states.sort()).toEqual([
        ['large', 'skipped'],
        ['thumb', 'pending'],
      ]);
      expect(await thumbOf(id)).toBeNull();
      expect(await thumbOf(id, '0000000a')).toBeNull();

      expect(await repositories.media.publish(lease, result(ready(), skipped))).toBe(true);
      expect(await repositories.media.find(id)).toMatchObject({
        status: 'ready',
        thumbhash: 'aGFzaA==',
        warnings: ['Recovered.'],
        failure: null,
      });
      expect(await thumbOf(id)).toMatchObject({ mediaId: id, state: 'ready', bytes: 10, width: 320 });
      expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
      expect(await repositories.jobs.held()).toEqual([]);
    });

    it('stores the reason of a failure with the renditions, and allows a retry', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [row()]);
      expect(await repositories.media.fail(lease, failure)).toBe(true);
      expect(await repositories.media.find(id)).toMatchObject({ status: 'failed', failure, attempts: 1 });
      expect(await repositories.media.renditions(id)).toMatchObject([{ state: 'failed', reason: failure.message }]);
      expect(await repositories.jobs.claim('worker-1')).toBeNull();

      expect(await repositories.media.retry(id)).toBe(true);
      expect(await repositories.media.retry(id)).toBe(false);
      expect(await repositories.media.find(id)).toMatchObject({ status: 'queued', failure: null, attempts: 0 });
      const again = await claim();
      expect(again).toMatchObject({ mediaId: id, attempt: 1 });
      await repositories.media.start(again, [row()]);
      expect(await repositories.media.renditions(id)).toMatchObject([{ state: 'pending', reason: null }]);
    });

    it('keeps ready renditions on a second start', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [ready()]);
      await repositories.media.start(lease, [row(), row({ name: 'small' })]);
      expect((await thumbOf(id))?.bytes).toBe(10);
    });

    it('delivers the old revision until the new one is ready, and by its name for ever', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const b = { revision: '0000000b', objectKey: 'renditions/thumb.0000000b.webp' };
      await repositories.media.start(lease, [ready()]);
      await repositories.media.start(lease, [row(b)]);
      expect((await thumbOf(id))?.revision).toBe('0000000a');
      expect(await thumbOf(id, '0000000b')).toBeNull();
      await repositories.media.publish(lease, result(ready(b)));
      expect((await thumbOf(id))?.revision).toBe('0000000b');
      expect((await thumbOf(id, '0000000a'))?.objectKey).toBe('renditions/thumb.0000000a.webp');
      const current = (await repositories.media.renditions(id)).filter((rendition) => rendition.current);
      expect(current.map(({ revision }) => revision)).toEqual(['0000000b']);
    });

    it('delivers the old revision if the new one fails', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const failed = row({ revision: '0000000b', state: 'failed', reason: 'No memory.' });
      await repositories.media.start(lease, [ready()]);
      await repositories.media.publish(lease, result(failed));
      expect((await thumbOf(id))?.revision).toBe('0000000a');
    });

    it('reads the renditions of a page of media in one call', async () => {
      const ids: string[] = [];
      for (const content of ['a', 'b', 'c']) {
        ids.push((await accept(content)).id);
        await repositories.media.publish(await claim(), result(ready(), ready({ name: 'small' })));
      }
      const rows = await repositories.media.renditionsOf(ids.slice(0, 2));
      expect(rows.map(({ mediaId }) => mediaId).sort()).toEqual([ids[0], ids[0], ids[1], ids[1]].sort());
      expect(await repositories.media.renditionsOf([])).toEqual([]);
    });
  });

  it('retries failed renditions of a ready media object, which stays ready meanwhile', async () => {
    const { id } = await accept('a');
    const failed = row({ name: 'large', state: 'failed', reason: 'No memory.' });
    await repositories.media.publish(await claim(), result(ready(), failed));
    expect(await repositories.media.retry(id)).toBe(true);
    expect((await repositories.media.find(id))?.status).toBe('ready');
    // It is pending at once, before a worker claims the job: clients that wait look for pending renditions.
    const large = async () => (await repositories.media.renditions(id)).find(({ name }) => name === 'large');
    expect(await large()).toMatchObject({ state: 'pending', reason: null });
    expect(await repositories.media.retry(id)).toBe(false);
    await repositories.media.publish(await claim(), result(ready(), ready({ name: 'large' })));
    expect(await repositories.media.retry(id)).toBe(false);
  });
}
