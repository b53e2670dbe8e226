import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createQueueLimit } from './queue-limit.ts';

let repositories: Repositories;
let nowMs = 0;
let counts = 0;
beforeEach(async () => {
  repositories = openSqliteRepositories(':memory:');
  await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
  nowMs = 0;
  counts = 0;
});
afterEach(() => repositories.close());

const bound = (maxQueued: number) =>
  createQueueLimit({
    media: {
      countQueued(projectId) {
        counts += 1;
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

describe('fault 20: more media than workers can process', () => {
  it('a full queue rejects media of its own project only, with Retry-After', async () => {
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

  it('the limit counts media that were queued earlier or by other processes', async () => {
    await accept();
    await accept();
    await expect(bound(2).requireRoom('default')).rejects.toMatchObject(refused);
    const queue = bound(3);
    await queue.requireRoom('default');
    await accept();
    nowMs += 60_000;
    await expect(queue.requireRoom('default')).rejects.toMatchObject(refused);
  });

  it('the queue has room within a second after media were started or deleted', async () => {
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

  it('the limit counts once a second if the queue is full, and hardly ever if not', async () => {
    const roomy = bound(1_000);
    for (let i = 0; i < 500; i++) {
      await roomy.requireRoom('default');
      roomy.queued('default');
    }
    expect(counts).toBe(1);
    await accept();
    const full = bound(1);
    for (let i = 0; i < 500; i++) await expect(full.requireRoom('default')).rejects.toMatchObject(refused);
    expect(counts).toBe(2);
  });
});
