import { createHash } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultPresets } from '@mds/transcode';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { QUICK, workerFixture } from './worker.fixture.ts';
import { createWorker } from './worker.ts';

const fixture = workerFixture();
const { startWorker, parts, add, ended, keys, around, removal } = fixture;

describe('worker: leases', () => {
  /** A render that starts and then waits until it is opened. */
  const gate = () => {
    let begin: () => void = () => undefined;
    let open: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    let first = true;
    const gated = around(async (_, go) => {
      if (!first) return go();
      first = false;
      begin();
      await opened;
      return go();
    });
    return { begun, open, gated };
  };

  it('a worker that lost its lease stops and publishes nothing; the job runs again', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated, timing: { ...QUICK, pollMs: 60_000 } });
    await begun;
    const [held] = await fixture.repositories.jobs.held();
    await fixture.repositories.jobs.reclaim(held?.token ?? '', { counted: true });
    const second = createWorker({ ...parts(), id: 'w2' });
    second.start();
    await ended(id).toBe('ready');
    const before = await fixture.repositories.media.version();
    open();
    await fixture.worker?.stop();
    expect(await fixture.repositories.media.version()).toBe(before);
    expect((await fixture.repositories.media.renditions(id)).map(({ state }) => state)).toEqual(['ready', 'ready']);
    expect(await readdir(fixture.scratchDir)).toEqual([]);
    await second.stop();
  });

  it('a renewed lease is never taken away, however long the render', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated });
    await begun;
    const beat = async () => (await fixture.repositories.jobs.held())[0]?.beat ?? 0;
    const first = await beat();
    await expect.poll(beat).toBeGreaterThan(first + 1);
    open();
    await ended(id).toBe('ready');
  });

  it('a media object that is removed during its render leaves no object behind', async () => {
    const { id } = await add(noisePng('a'));
    const { begun, open, gated } = gate();
    // Renewals and polls are far apart: the worker learns of the removal only when it publishes.
    startWorker({
      engine: gated,
      timing: { heartbeatMs: 60_000, pollMs: 60_000, progressMs: 60_000, retryMs: 5, storagePauseMs: 50 },
    });
    await begun;
    const original = (await fixture.store.readAll((await keys())[0] ?? '')) ?? Buffer.alloc(0);
    const remover = removal();
    expect(await remover.remove(id)).toBe(true);
    // The render already had the file open.
    const path = join(
      fixture.root,
      'objects',
      ...originalKey(createHash('sha256').update(original).digest('hex')).split('/'),
    );
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, original);
    open();
    await fixture.worker?.stop();
    expect(await keys('renditions/')).toEqual([]);
    expect(await fixture.repositories.media.find(id)).toBeNull();
  });

  it('a worker is listed while it lives and no longer after it stops', async () => {
    const before = Date.now();
    startWorker();
    const now = () => fixture.repositories.jobs.workers();
    const facts = { id: 'w1', host: 'vm', pid: process.pid, region: 'fra1', concurrency: 1 };
    await expect.poll(now).toMatchObject([facts]);
    const sinceMs = (await now())[0]?.sinceMs ?? 0;
    expect(sinceMs).toBeGreaterThanOrEqual(before);
    // Heartbeats do not change its start time.
    await expect.poll(async () => (await now())[0]?.beat).toBeGreaterThan(2);
    expect((await now())[0]?.sinceMs).toBe(sinceMs);
    await fixture.worker?.stop();
    expect(await fixture.repositories.jobs.workers()).toEqual([]);
  });

  it('fault 15: a stop lets the running job finish, and claims no other', async () => {
    const running = await add(noisePng('a'));
    const waiting = await add(noisePng('b'));
    const { begun, open, gated } = gate();
    startWorker({ engine: gated });
    await begun;
    const stopped = fixture.worker?.stop({ graceMs: 10_000 });
    open();
    await stopped;
    expect((await fixture.repositories.media.find(running.id))?.status).toBe('ready');
    expect((await fixture.repositories.media.find(waiting.id))?.status).toBe('queued');
  });

  it('fault 15: a stop without grace returns its jobs uncounted and leaves no scratch', async () => {
    const { id } = await add(noisePng('a', 1200, 900));
    startWorker({ presets: defaultPresets });
    await ended(id).toBe('processing');
    const began = performance.now();
    await fixture.worker?.stop({ graceMs: 0 });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(await fixture.repositories.media.find(id)).toMatchObject({ status: 'queued', failure: null });
    expect(await fixture.repositories.jobs.held()).toEqual([]);
    expect(await readdir(fixture.scratchDir)).toEqual([]);
    expect(await fixture.repositories.jobs.claim('next')).toMatchObject({ attempt: 1 });
  });
});
