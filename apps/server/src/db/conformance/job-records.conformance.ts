import { ulid } from 'ulid';
import { describe, expect, it } from 'vitest';
import { crash, EXISTING, type RepositoriesFixture } from './repositories.fixture.ts';

/** The exchange between the queue and an engine that hands its jobs out. */
export function jobRecordsConformance({ repositories, newMedia, accept, claim }: RepositoriesFixture): void {
  describe('the jobs of an external engine', () => {
    const claimJob = (jobId: number, token = ulid()) =>
      repositories.jobs.claimJob(jobId, { worker: 'worker-1', token });

    it('are read by media object, by id, and in pages', async () => {
      const { jobs, media } = repositories;
      const urgent = await media.accept(newMedia('urgent'), { ...EXISTING, priority: 1 });
      const other = await accept('other');
      const [first] = await jobs.records({ mediaIds: [urgent.media.id] });
      const [second] = await jobs.records({ mediaIds: [other.id] });
      expect(first).toMatchObject({ mediaId: urgent.media.id, priority: 1, dueInMs: 0, token: null });
      expect(second).toMatchObject({ mediaId: other.id, priority: 100 });
      const ids = [first?.jobId ?? 0, second?.jobId ?? 0];
      expect(ids[1]).toBeGreaterThan(ids[0] ?? Number.POSITIVE_INFINITY);
      expect(await jobs.records({ jobIds: ids.reverse() })).toEqual([first, second]);
      expect(await jobs.records({ afterId: 0, limit: 1 })).toEqual([first]);
      expect(await jobs.records({ afterId: first?.jobId ?? 0, limit: 10 })).toEqual([second]);
      expect(await jobs.records({ afterId: second?.jobId ?? 0, limit: 10 })).toEqual([]);
      expect(await jobs.records({ mediaIds: [] })).toEqual([]);
    });

    it('are claimed by id under the token of the engine, once each', async () => {
      const { jobs, media } = repositories;
      await accept('a');
      const { id } = await accept('b');
      const [chosen] = await jobs.records({ mediaIds: [id] });
      const jobId = chosen?.jobId ?? 0;
      const lease = await claimJob(jobId, 'the-engines-token');
      expect(lease).toMatchObject({ jobId, mediaId: id, token: 'the-engines-token', attempt: 1 });
      expect(await claimJob(jobId)).toBeNull();
      expect(await jobs.records({ jobIds: [jobId] })).toMatchObject([{ token: 'the-engines-token' }]);
      expect(await jobs.attempts(id)).toMatchObject([{ worker: 'worker-1', outcome: 'running' }]);
      await media.delete(id);
      expect(await claimJob(jobId)).toBeNull();
    });

    it('can be claimed before they are due, and the attempt is counted', async () => {
      const { id } = await accept('a');
      const lease = await claim();
      await repositories.jobs.release(lease, { kind: 'retry', delayMs: 60_000, failure: crash });
      const [waiting] = await repositories.jobs.records({ mediaIds: [id] });
      expect(waiting?.dueInMs).toBeGreaterThan(50_000);
      expect(await claimJob(lease.jobId)).toMatchObject({ attempt: 2 });
    });
  });
}
