import { describe, expect, it } from 'vitest';
import { crash, EXISTING, type RepositoriesFixture } from './repositories.fixture.ts';

const WORKER = { id: 'vm:4711:a', host: 'vm', pid: 4711, region: 'fra1', concurrency: 2, sinceMs: 1_795_000_000_000 };

/** Workers and their running jobs. */
export function workersConformance({ repositories, newMedia, accept }: RepositoriesFixture): void {
  const claimAs = async (worker: string) => {
    const lease = await repositories.jobs.claim(worker);
    if (lease === null) throw new Error('There is nothing to claim.');
    return lease;
  };

  describe('workers', () => {
    it('announce themselves, send heartbeats, and sign off', async () => {
      const { jobs } = repositories;
      await jobs.announceWorker(WORKER);
      const [first] = await jobs.workers();
      expect(first).toEqual({ ...WORKER, beat: first?.beat });
      await jobs.announceWorker({ ...WORKER, region: 'sin1' });
      const [second] = await jobs.workers();
      expect(second).toMatchObject({ ...WORKER, region: 'sin1' });
      expect(second?.beat).toBeGreaterThan(first?.beat ?? Number.POSITIVE_INFINITY);
      await jobs.signOffWorker(WORKER.id);
      await jobs.signOffWorker(WORKER.id);
      expect(await jobs.workers()).toEqual([]);
    });

    it('are listed by id, so that heartbeats do not change the order', async () => {
      const { jobs } = repositories;
      for (const id of ['vm-b:1:x', 'vm-a:2:x', 'vm-B:3:x']) await jobs.announceWorker({ ...WORKER, id });
      await jobs.announceWorker({ ...WORKER, id: 'vm-b:1:x' });
      expect((await jobs.workers()).map(({ id }) => id)).toEqual(['vm-B:3:x', 'vm-a:2:x', 'vm-b:1:x']);
    });

    it('have running jobs of all projects, oldest first, without the waiting ones', async () => {
      const { jobs, media, projects } = repositories;
      expect(await jobs.running()).toEqual([]);
      await projects.put({ id: 'other', name: 'Other', hosts: [] });
      const first = await accept('a');
      // The job has two runs; the list must show the running one.
      await jobs.release(await claimAs('vm:1:a'), { kind: 'retry', delayMs: 0, failure: crash });
      const lease = await claimAs('vm:1:a');
      await jobs.progress(lease, 0.5);
      const theirs = { ...newMedia('b'), projectId: 'other' };
      await media.accept(theirs, EXISTING);
      const { media: urgent } = await media.accept(newMedia('c'), { ...EXISTING, priority: 1 });
      await accept('d');
      const given = await claimAs('vm:1:b');
      await claimAs('vm:1:a');

      const running = await jobs.running();
      expect(running.map(({ worker, mediaId, projectId }) => [worker, mediaId, projectId])).toEqual([
        ['vm:1:a', first.id, 'default'],
        ['vm:1:a', theirs.id, 'other'],
        ['vm:1:b', urgent.id, 'default'],
      ]);
      const [view] = await jobs.findJobViews([first.id]);
      expect(running[0]).toEqual({ ...view, projectId: 'default' });
      expect(running[0]).toMatchObject({ jobId: lease.jobId, runs: 2, progress: 0.5 });
      await jobs.release(given, { kind: 'released' });
      await media.delete(theirs.id);
      expect((await jobs.running()).map(({ mediaId }) => mediaId)).toEqual([first.id]);
    });
  });
}
