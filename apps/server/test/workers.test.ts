import { hostname } from 'node:os';
import { expect, it } from 'vitest';
import { noisePng } from './support/pictures.ts';
import { startService } from './support/service-fixture.ts';

it('an operator sees the worker of the service: host, start, and current job', async () => {
  const before = Math.floor(Date.now() / 1000) * 1000;
  const service = await startService({ MDS_REGION: 'ulm1:Ulm:europe-central:DE', MDS_WORKER_CONCURRENCY: '2' });
  try {
    const { control } = service.client;
    const workers = async () => (await control.workers.list()).data;
    await expect.poll(workers, { timeout: 20_000 }).toHaveLength(1);
    const [idle] = await workers();
    const facts = { object: 'worker', host: hostname(), region: 'ulm1', concurrency: 2 };
    expect(idle).toMatchObject({ ...facts, running: 0, jobs: [] });
    expect(idle?.id).toMatch(`${hostname()}:${idle?.pid}:`);
    expect(Date.parse(idle?.since ?? '')).toBeGreaterThanOrEqual(before);
    expect(Date.parse(idle?.since ?? '')).toBeLessThanOrEqual(Date.now());

    const { media } = await control.media.ingest(noisePng('at work', 1200, 1200));
    const busy = { ...idle, running: 1, jobs: [{ media_id: media.id, worker: idle?.id, state: 'running' }] };
    await expect.poll(workers, { timeout: 20_000, interval: 10 }).toMatchObject([busy]);
    await control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    await expect.poll(workers).toEqual([idle]);
  } finally {
    await service.stop();
  }
}, 120_000);
