import { setTimeout as delay } from 'node:timers/promises';
import { UPLOADS_PATH } from '@mds/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { noisePng, png } from './support/pictures.ts';
import { get } from './support/points-of-presence.ts';
import type { ServiceProcess } from './support/service-process.ts';
import {
  describeNodes,
  type SeveralNodes,
  startSeveralNodes,
  TOKEN,
  tus,
  type WorkerProcess,
} from './support/several-nodes.ts';

/** A hanging storage is detected after 15 s. The rest is for a busy machine. */
const DETECTED_MS = 22_000;

describeNodes('an object storage that hangs', (bin) => {
  let all: SeveralNodes;
  let stays: ServiceProcess;
  let leaves: ServiceProcess;
  let worker: WorkerProcess;
  beforeAll(async () => {
    all = await startSeveralNodes(bin);
    [stays, leaves, worker] = await Promise.all([
      all.startApi('stays'),
      all.startApi('leaves'),
      all.startWorker('worker'),
    ]);
  }, 120_000);
  afterAll(() => all?.stop());

  const patch = (url: string, offset: number, body: Buffer) =>
    tus('PATCH', url, { 'upload-offset': `${offset}` }, body);
  const upload = ({ url }: ServiceProcess, file: Buffer) =>
    fetch(`${url}/control/v1/media`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'image/png' },
      body: new Uint8Array(file),
    });
  const statusOf = async (node: ServiceProcess) => {
    const status = (await (await fetch(`${node.url}/api/v1/status`)).json()) as {
      components: { name: string; status: string }[];
    };
    return status.components.find(({ name }) => name === 'Object storage')?.status;
  };

  it('fault 19: delays no request or shutdown, and all continues when it recovers', async () => {
    const client = all.clientOf(stays);
    const { media } = await client.control.media.ingest(png(1));
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    const [cached, fresh] = [`/media/${media.id}/thumb.webp`, `/media/${media.id}/large.jpg`];
    expect((await get(stays, cached)).status).toBe(200);
    const file = noisePng('resumed', 400, 400);
    const created = await tus('POST', stays.url + UPLOADS_PATH, { 'upload-length': `${file.length}` });
    const resumed = new URL(created.headers.get('location') ?? '', stays.url).href;
    expect((await patch(resumed, 0, file.subarray(0, 200_000))).status).toBe(204);
    const rendered = (await client.control.media.ingest(noisePng('rendered', 2000, 2000))).media.id;
    await expect
      .poll(async () => (await client.control.media.get(rendered)).status, { interval: 5 })
      .toBe('processing');

    all.s3.hang();
    const hungAt = performance.now();
    const expectRefusal = async (request: Promise<Response>) => {
      const answer = await request;
      expect(performance.now() - hungAt).toBeLessThan(DETECTED_MS);
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(((await answer.json()) as { code: string }).code).toBe('unavailable');
      expect(answer.status).toBe(503);
    };
    const waiting = [
      expectRefusal(upload(stays, png(2))),
      expectRefusal(patch(resumed, 200_000, file.subarray(200_000))),
      expectRefusal(fetch(stays.url + fresh)),
      expectRefusal(upload(leaves, png(3))),
    ];
    await delay(500);
    const ends = [leaves.end('SIGTERM'), worker.end('SIGTERM')];
    await expect.poll(() => statusOf(stays), { timeout: 18_000 }).toBe('major_outage');
    expect((await get(stays, '/readyz')).status).toBe(200);
    expect((await get(stays, cached)).status).toBe(200);
    await Promise.all(waiting);
    expect(await Promise.all(ends)).toEqual(Array(2).fill({ code: 0, signal: null }));

    const at = performance.now();
    expect((await upload(stays, png(4))).status).toBe(503);
    expect(performance.now() - at).toBeLessThan(5_000);
    const { attempts } = await client.control.media.explain(rendered);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['released']);

    all.s3.goOn();
    await expect.poll(async () => (await upload(stays, png(2))).status).toBe(201);
    expect((await get(stays, fresh)).status).toBe(200);
    const head = await tus('HEAD', resumed, {});
    expect(head.headers.get('upload-offset')).toBe('200000');
    expect((await patch(resumed, 200_000, file.subarray(200_000))).status).toBe(204);
    await all.startWorker('worker');
    await client.control.media.waitUntilReady(rendered, { timeoutMs: 30_000 });
  }, 120_000);
});
