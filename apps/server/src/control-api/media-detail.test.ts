import { expect, it } from 'vitest';
import { startApp } from '../../test/support/app-fixture.ts';
import { presentMediaDetail } from './media-detail.ts';

it('progress does not fall back if the last step ends during the request', async () => {
  const app = await startApp();
  try {
    const id = await app.addMedia();
    const { jobs, media } = app.repositories;
    const lease = await jobs.claim('w1');
    if (!lease) throw new Error('There is nothing to claim.');
    await media.start(lease, []);
    await jobs.progress(lease, 0.96);
    const before = await media.find(id);
    if (!before) throw new Error('The media object is gone.');
    await media.publish(lease, { renditions: [], thumbhash: null, warnings: [] });
    const [job = null] = await jobs.findJobViews([id]);
    expect(presentMediaDetail(before, [], job, '')).toMatchObject({ status: 'processing', progress: 1 });
  } finally {
    await app.stop();
  }
});
