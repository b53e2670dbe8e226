import { MediaExplanation } from '@mds/contract';
import { parsePresets } from '@mds/transcode';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import type { Lease } from '../db/job-queue.ts';
import { createWriteGate } from '../migration/write-gate.ts';
import { presentExplanation } from './media-explanation.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const explain = async (id: string) => MediaExplanation.parse(await (await app.control(`/media/${id}/explain`)).json());
const waiting = async (id: string) => (await explain(id)).waiting_for;
const claim = async (): Promise<Lease> => {
  const lease = await app.repositories.jobs.claim('w1');
  if (!lease) throw new Error('There is nothing to claim.');
  return lease;
};
const crash = { code: 'engine_crashed', message: 'It crashed.', retryable: true };
const thumb = {
  ...{ name: 'thumb', extension: 'webp', contentType: 'image/webp', revision: '0000000a', current: true },
  ...{ reason: null, objectKey: 'renditions/thumb', sha256: 'f'.repeat(64), bytes: 1, files: 1, width: 1, height: 1 },
  state: 'ready' as const,
};

describe('the reason why a media object waits', () => {
  it('is explained in every state: a place in the queue, a worker or an error', async () => {
    const { jobs, media } = app.repositories;
    const first = await app.addMedia();
    const id = await app.addMedia();
    expect(await waiting(first)).toMatch(/^It is first in the queue/);
    expect(await waiting(id)).toMatch(/^1 ahead of it in the queue/);

    await media.fail(await claim(), crash);
    expect(await waiting(first)).toBeNull();
    expect(await waiting(id)).toMatch(/^It is first in the queue/);

    const claimed = await claim();
    expect(await waiting(id)).toBe('Worker w1 works on it: attempt 1.');
    await media.start(claimed, [{ ...thumb, state: 'pending' }]);
    await jobs.progress(claimed, 0.42);
    expect(await waiting(id)).toBe('Worker w1 works on it: attempt 1, 42 % done.');
    await jobs.release(claimed, { kind: 'released' });
    expect(await waiting(id)).toMatch(/queue.* 1 attempt so far, which did not finish: Its worker was stopped\.$/);

    await jobs.reclaim((await claim()).token, { counted: true });
    expect(await waiting(id)).toMatch(
      /queue.* 2 attempts so far; the last one did not finish: Its worker disappeared\.$/,
    );

    await jobs.release(await claim(), { kind: 'retry', delayMs: 5_000, failure: crash });
    // Attempts have the same numbers as in the sentence.
    expect((await explain(id)).attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(await waiting(id)).toMatch(
      /^Attempt 4 begins in [45] s\. 3 attempts so far; the last one did not finish: It crashed\.$/,
    );

    await media.retry(first);
    await media.publish(await claim(), { renditions: [thumb], thumbhash: null, warnings: [] });
    expect(await waiting(first)).toBeNull();
    await media.rederive(['renditions/thumb']);
    expect(await waiting(first)).toMatch(/^It is first in the queue.* It stays ready meanwhile\.$/);
    await claim();
    expect(await waiting(first)).toBe('Worker w1 works on it: attempt 3. It stays ready meanwhile.');
  });
});

it('names the new deployment after a migration, until that is canceled', async () => {
  const writes = createWriteGate();
  const moved = await startApp({ control: { writes } });
  try {
    const id = await moved.addMedia();
    const waitingFor = async () =>
      MediaExplanation.parse(await (await moved.control(`/media/${id}/explain`)).json()).waiting_for;
    await writes.close();
    expect(await waitingFor()).toMatch(/^It is first in the queue/);
    writes.closeForGood();
    expect(await waitingFor()).toMatch(/^The deployment was moved .* The service there processes this media object\./);
    writes.open();
    expect(await waitingFor()).toMatch(/^It is first in the queue/);
  } finally {
    await moved.stop();
  }
});

describe('the job in an explanation', () => {
  it('has the attempts, the reason and the time of the next one; null at the end', async () => {
    const { jobs, media } = app.repositories;
    const id = await app.addMedia();
    const job = async () => (await explain(id)).job;
    const fresh = { object: 'job', media_id: id, state: 'queued', priority: 100, attempts: 0, last_reason: null };
    expect(await job()).toMatchObject({ ...fresh, worker: null, started_at: null, progress: null });

    const claimed = await claim();
    await jobs.progress(claimed, 0.5);
    expect(await job()).toMatchObject({ state: 'running', attempts: 1, worker: 'w1', progress: 0.5 });
    expect(Date.parse((await job())?.started_at ?? '')).toBeGreaterThan(Date.now() - 60_000);
    const outage = { code: 'unavailable', message: 'The storage did not answer.', retryable: true };
    await jobs.release(claimed, { kind: 'released', failure: outage });
    expect(await job()).toMatchObject({ state: 'queued', attempts: 1, worker: null, last_reason: outage.message });
    expect((await explain(id)).attempts).toMatchObject([{ outcome: 'released', error: outage }]);
    expect(await waiting(id)).toMatch(/1 attempt so far, which did not finish: The storage did not answer\.$/);

    await jobs.release(await claim(), { kind: 'retry', delayMs: 60_000, failure: crash });
    const retried = await job();
    expect(retried).toMatchObject({ state: 'queued', attempts: 2, last_reason: 'It crashed.' });
    expect(Date.parse(retried?.due_at ?? '')).toBeGreaterThan(Date.now() + 50_000);

    await media.delete(id);
    const done = await app.addMedia();
    await media.fail(await claim(), crash);
    expect((await explain(done)).job).toBeNull();
  });
});

describe('an explanation', () => {
  it('is visible to the project of the media object only', async () => {
    const id = await app.addMedia();
    expect((await app.control(`/media/${id}/explain`, { token: TOKENS.ingest })).status).toBe(200);
    expect((await app.control(`/media/${id}/explain`, { token: TOKENS.other })).status).toBe(404);
    expect((await app.get(`/control/v1/media/${id}/explain`)).status).toBe(401);
  });

  it('has no plan if another version of the engine identified the media object', async () => {
    const id = await app.addMedia({ identified: { kind: 'image', from: 'another version' } });
    expect(await explain(id)).toMatchObject({ plan: [], probe: { from: 'another version' } });
  });

  it('has null for memory that was not measured, also in reports of older versions', async () => {
    const media = await app.repositories.media.find(await app.addMedia());
    if (!media) throw new Error('The media object is gone.');
    const run = { step: 's', argv: ['ffprobe'], ms: 1, cpuMs: 1, outcome: 'ok', stderrTail: [] };
    const runs = [0, null, 5].map((maxMemoryBytes) => ({ ...run, maxMemoryBytes }));
    const explained = presentExplanation({
      ...{ media, job: null, ahead: null, moved: false, presets: [], hidden: {} },
      attempts: [
        {
          ...{ attempt: 1, worker: 'w', startedAtMs: 0, endedAtMs: 1, outcome: 'ready', failure: null },
          report: { notes: [], timings: {}, runs },
        },
      ],
    });
    const measured = MediaExplanation.parse(explained).attempts[0]?.runs.map(({ max_memory_bytes: bytes }) => bytes);
    expect(measured).toEqual([null, null, 5]);
  });

  it('shows no path of the machine and no token anywhere in an attempt', async () => {
    const id = await app.addMedia();
    const root = '/srv/private/data';
    const token = 'a-secret-token-of-the-operator';
    const leak = `${root}/scratch/x and ${token}`;
    const run = { step: 's', ms: 1, cpuMs: 1, maxMemoryBytes: 1 };
    const media = await app.repositories.media.find(id);
    if (!media) throw new Error('The media object is gone.');
    const body = presentExplanation({
      media,
      job: {
        ...{ jobId: 1, mediaId: id, priority: 100, worker: null, attempt: 2, runs: 1, startedAtMs: null },
        ...{ progress: null, dueInMs: 0, dueAtMs: 0, lastReason: leak },
      },
      ahead: null,
      moved: false,
      attempts: [
        {
          ...{ attempt: 1, worker: 'w', startedAtMs: 0, endedAtMs: 1, outcome: 'failed' as const },
          failure: { ...crash, message: leak },
          report: {
            notes: [leak],
            timings: { total: 1 },
            runs: [{ ...run, argv: ['ffmpeg', leak], outcome: leak, stderrTail: [leak] }],
          },
        },
      ],
      presets: parsePresets([{ name: 'thumb', container: 'webp', width: 10, height: 10 }]),
      hidden: { [root]: 'DATA', '/srv': 'SRV', [token]: 'TOKEN' },
    });
    const text = JSON.stringify(body);
    expect(text).not.toMatch(/private|secret|srv/);
    expect(body.attempts[0]?.runs[0]?.argv[1]).toBe('DATA/scratch/x and TOKEN');
  });
});
