import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createQueueLimit } from './queue-limit.ts';

let repositories: Repositories;
let nowMs = 0;
let looks = 0;
beforeEach(async () => {
  repositories = openSqliteRepositories(':memory:');
  await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
  nowMs = 0;
  looks = 0;
});
afterEach(() => repositories.close());

const bound = (maxQueued: number) =>
  createQueueLimit({
    media: {
      countQueued(projectId) {
        looks += 1;
        return repositories.media.countQueued(projectId);
      },
    },
    maxQueued,
    nowMs: () => nowMs,
  });

let counter = 0;
async function accept(projectId = 'default'): Promise<string> {
  counter += 1;
  const id = `med_01k0c4s6q8y2v4w6x8${counter.toString().padStart(8, '0')}`;
  await repositories.media.accept(
    {
      ...{ id, projectId, createdAtMs: 1_800_000_000_000, contentType: 'image/png', bytes: 1, width: 1, height: 1 },
      ...{ filename: 'a.png', sha256: counter.toString(16).padStart(64, '0'), kind: 'image', format: 'png' },
      ...{ durationMs: null, codecs: ['png'], warnings: [], identified: {} },
    },
    { duplicate: 'allow', idempotencyKey: null },
  );
  return id;
}

const refused = { code: 'overloaded', status: 503, headers: { 'Retry-After': expect.stringMatching(/^\d+$/) } };

describe('fault 20: more media than can be worked off', () => {
  it("a project's full queue takes no more, says when to come back, and is no matter of other projects", async () => {
    const queue = bound(3);
    for (let i = 0; i < 3; i++) {
      await queue.requireRoom('default');
      await accept();
      queue.queued('default');
    }
    nowMs += 1_000;
    await expect(queue.requireRoom('default')).rejects.toMatchObject(refused);
    await expect(queue.requireRoom('other')).resolves.toBeUndefined();
  });

  it('counts what others queued, and what was there when the service started', async () => {
    await accept();
    await accept();
    await expect(bound(2).requireRoom('default')).rejects.toMatchObject(refused);
    const queue = bound(3);
    await queue.requireRoom('default');
    await accept();
    nowMs += 60_000;
    await expect(queue.requireRoom('default')).rejects.toMatchObject(refused);
  });

  it('has room again within a second of media being processed or deleted', async () => {
    const ids = [await accept(), await accept()];
    const queue = bound(2);
    await expect(queue.requireRoom('default')).rejects.toMatchObject(refused);
    await repositories.media.delete(ids[0] ?? '');
    nowMs += 1_000;
    await queue.requireRoom('default');
    await accept();
    nowMs += 60_000;
    await expect(queue.requireRoom('default')).rejects.toMatchObject(refused);
    const lease = await repositories.jobs.claim('worker-1');
    expect(lease && (await repositories.media.start(lease, []))).toBe(true);
    nowMs += 1_000;
    await queue.requireRoom('default');
  });

  it('asking costs a count a second where the queue is full, and next to none where it is not', async () => {
    const roomy = bound(1_000);
    for (let i = 0; i < 500; i++) {
      await roomy.requireRoom('default');
      roomy.queued('default');
    }
    expect(looks).toBe(1);
    await accept();
    const full = bound(1);
    for (let i = 0; i < 500; i++) await expect(full.requireRoom('default')).rejects.toMatchObject(refused);
    expect(looks).toBe(2);
  });
});
