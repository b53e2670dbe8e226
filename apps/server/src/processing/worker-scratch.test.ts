import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createWorkerScratch, scratchFolderOf } from './worker-scratch.ts';

let root: string;
let repositories: Repositories;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-worker-scratch-'));
  repositories = openSqliteRepositories(':memory:');
});
afterEach(async () => {
  await repositories.close();
  await rm(root, { recursive: true });
});

const announce = (id: string) =>
  repositories.jobs.announceWorker({ id, host: 'vm', pid: 1, region: 'fra1', concurrency: 1, sinceMs: 0 });
const leave = async (id: string) => {
  const folder = join(root, scratchFolderOf(id), 'lease');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'film.mp4'), 'half a film');
};

it('fault 13: only the scratch folders of killed workers are removed', async () => {
  await announce('living');
  await announce('killed');
  for (const id of ['living', 'killed']) await leave(id);
  await writeFile(join(root, 'of-somebody-else'), '');
  const scratch = createWorkerScratch({
    root,
    jobs: repositories.jobs,
    logger: createLogger('silent'),
    intervalMs: 10,
  });
  onTestFinished(() => scratch.stop());
  scratch.start();
  await repositories.jobs.signOffWorker('killed');
  await expect
    .poll(async () => (await readdir(root)).sort(), { timeout: 10_000, interval: 10 })
    .toEqual(['of-somebody-else', scratchFolderOf('living')].sort());
});

it('a starting worker keeps its folder: one look does not prove it gone', async () => {
  await leave('starting');
  let looks = 0;
  const scratch = createWorkerScratch({
    root,
    jobs: {
      async workers() {
        const workers = await repositories.jobs.workers();
        looks += 1;
        if (looks === 1) await announce('starting');
        return workers;
      },
    },
    logger: createLogger('silent'),
    intervalMs: 10,
  });
  scratch.start();
  await expect.poll(() => looks, { timeout: 10_000, interval: 10 }).toBeGreaterThanOrEqual(4);
  await scratch.stop();
  expect(await readdir(root)).toEqual([scratchFolderOf('starting')]);
});
