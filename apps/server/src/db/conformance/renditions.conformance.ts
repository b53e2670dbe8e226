import { describe, expect, it } from 'vitest';
import { failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** Renditions from the plan to their delivery, with the states of their media object. */
export function renditionsConformance({ repositories, accept, claim, thumbOf }: RepositoriesFixture): void {
  describe('processing', () => {
    it('a media object is processing from its start, and nothing of it is delivered before it is published', async () => {
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

    it('a failed media object says why, with its renditions, and can be tried again', async () => {
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

    it('a new start leaves alone what is ready', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.media.start(lease, [ready()]);
      await repositories.media.start(lease, [row(), row({ name: 'small' })]);
      expect((await thumbOf(id))?.bytes).toBe(10);
    });

    it('the old revision is delivered until the new one is ready, and by its own name for ever', async () => {
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

    it('a new revision that fails leaves the old one delivered', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      const failed = row({ revision: '0000000b', state: 'failed', reason: 'No memory.' });
      await repositories.media.start(lease, [ready()]);
      await repositories.media.publish(lease, result(failed));
      expect((await thumbOf(id))?.revision).toBe('0000000a');
    });

    it('the renditions of a whole page of media come at once', async () => {
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

  it('what failed of a media object that is ready can be made again, and it stays ready meanwhile', async () => {
    const { id } = await accept('a');
    const failed = row({ name: 'large', state: 'failed', reason: 'No memory.' });
    await repositories.media.publish(await claim(), result(ready(), failed));
    expect(await repositories.media.retry(id)).toBe(true);
    expect((await repositories.media.find(id))?.status).toBe('ready');
    // At once, and not when a worker comes: whoever waits for them looks for what is pending.
    const large = async () => (await repositories.media.renditions(id)).find(({ name }) => name === 'large');
    expect(await large()).toMatchObject({ state: 'pending', reason: null });
    expect(await repositories.media.retry(id)).toBe(false);
    await repositories.media.publish(await claim(), result(ready(), ready({ name: 'large' })));
    expect(await repositories.media.retry(id)).toBe(false);
  });
}
