import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { useS3Server, withoutS3Server } from '../storage/s3.fixture.ts';
import { workerFixture } from './worker.fixture.ts';

const fixture = workerFixture();

describe.skipIf(withoutS3Server('a worker whose S3 is away'))('worker: S3', () => {
  const s3 = useS3Server();

  it('fault 19: a storage outage costs no attempt; the media object waits', async () => {
    const { store, staged } = await s3.bench({ limits: { attempts: 2 } });
    const picture = noisePng('a');
    const { id, sha256 } = await fixture.add(picture);
    await store.put(originalKey(sha256), await staged(picture));
    await s3.server.kill9();
    fixture.startWorker({ store });
    const outcomes = async () => (await fixture.repositories.jobs.attempts(id)).map(({ outcome }) => outcome);
    // More often than the limit of attempts.
    await expect.poll(async () => (await outcomes()).length, { timeout: 60_000 }).toBeGreaterThan(4);
    expect((await fixture.repositories.media.find(id))?.status).toMatch(/queued|processing/);
    await s3.server.restart();
    await fixture.ended(id).toBe('ready');
    expect(await fixture.repositories.media.find(id)).toMatchObject({ attempts: 1 });
    expect(new Set((await outcomes()).slice(0, -1))).toEqual(new Set(['released']));
    await fixture.worker?.stop();
    fixture.worker = null;
  });
});
