import { describe, expect, it } from 'vitest';
import { KEPT_ATTEMPTS } from '../job-queue.ts';
import { crash, failure, type RepositoriesFixture, ready, result } from './repositories.fixture.ts';

/** The stored attempts of a job. */
export function attemptsConformance({ repositories, accept, claim }: RepositoriesFixture): void {
  describe('attempts', () => {
    const report = {
      notes: ['The stream was copied.'],
      timings: { total: 12 },
      runs: [
        {
          step: 'ladder',
          argv: ['ffmpeg', '-i', 'SOURCE'],
          ms: 10,
          cpuMs: 9,
          maxMemoryBytes: null,
          outcome: 'ok',
          stderrTail: ['frame=1'],
        },
      ],
    };

    it('are stored in order with their outcome, even if their worker vanished', async () => {
      const { id } = await accept('a');
      const { jobs, media } = repositories;
      const lost = await claim();
      expect(await jobs.attempts(id)).toMatchObject([{ attempt: 1, worker: 'worker-1', outcome: 'running' }]);
      await jobs.reclaim(lost.token, { counted: true });
      await jobs.release(await claim(), { kind: 'released' }, report);
      await jobs.release(await claim(), { kind: 'retry', delayMs: 0, failure: crash }, report);
      await media.fail(await claim(), failure, report);
      await media.retry(id);
      await media.publish(await claim(), result(ready()), report);
      const attempts = await jobs.attempts(id);
      expect(attempts.map(({ outcome, attempt }) => `${attempt} ${outcome}`)).toEqual([
        '1 lost',
        '2 released',
        '3 retried',
        '4 failed',
        '5 ready',
      ]);
      expect(attempts[0]).toMatchObject({ endedAtMs: null, report: null, failure: null });
      expect(attempts[2]).toMatchObject({ failure: crash, report });
      expect(attempts[3]).toMatchObject({ failure });
      expect(attempts[4]).toMatchObject({ failure: null, report });
      for (const { startedAtMs, endedAtMs, outcome } of attempts) {
        if (outcome !== 'lost') expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs);
      }
    });

    it('that end without a fault of the media object are stored with their reason', async () => {
      const { id } = await accept('a');
      const { jobs } = repositories;
      const reason = async () => (await jobs.findJobViews([id]))[0];
      const outage = { code: 'unavailable', message: 'The storage did not answer.', retryable: true };
      await jobs.release(await claim(), { kind: 'released', failure: outage });
      expect(await jobs.attempts(id)).toMatchObject([{ outcome: 'released', failure: outage }]);
      expect(await reason()).toMatchObject({ runs: 1, attempt: 1, dueInMs: 0, lastReason: outage.message });
      await jobs.release(await claim(), { kind: 'released' });
      expect(await jobs.attempts(id)).toMatchObject([{ attempt: 1 }, { attempt: 2, failure: null }]);
      expect(await reason()).toMatchObject({ runs: 2, attempt: 1, lastReason: 'Its worker was stopped.' });
      await jobs.reclaim((await claim()).token, { counted: false });
      expect(await reason()).toMatchObject({ runs: 3, attempt: 1, lastReason: 'Its worker disappeared.' });
    });

    it('are kept up to ten for each media object, and deleted with it', async () => {
      const { id } = await accept('a');
      for (let n = 0; n < KEPT_ATTEMPTS + 3; n++) {
        await repositories.jobs.release(await claim(), { kind: 'released' });
      }
      const numbers = (await repositories.jobs.attempts(id)).map(({ attempt }) => attempt);
      expect(numbers).toEqual(Array.from({ length: KEPT_ATTEMPTS }, (_, index) => index + 4));
      await repositories.media.delete(id);
      expect(await repositories.jobs.attempts(id)).toEqual([]);
    });
  });
}
