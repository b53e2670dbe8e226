import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { UPLOADS_PATH } from '@mds/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { noisePng, png } from './support/pictures.ts';
import { get, sha256 } from './support/points-of-presence.ts';
import type { ServiceProcess } from './support/service-process.ts';
import {
  describeNodes,
  type SeveralNodes,
  startSeveralNodes,
  TOKEN,
  tus,
  type WorkerProcess,
} from './support/several-nodes.ts';

describeNodes('several nodes on PostgreSQL and S3', (bin) => {
  let all: SeveralNodes;
  let a: ServiceProcess;
  let b: ServiceProcess;
  let worker: WorkerProcess;
  beforeAll(async () => {
    all = await startSeveralNodes(bin);
    // Both start on an empty database and try to make the tables.
    [a, b, worker] = await Promise.all([all.startApi('a'), all.startApi('b'), all.startWorker('worker')]);
  }, 120_000);
  afterAll(() => all?.stop());

  it('a media object of one node is served by the other and by a point of presence', async () => {
    const client = all.clientOf(a);
    const { media } = await client.control.media.ingest(noisePng('shared', 1400, 1400));
    const ready = await all.clientOf(b).control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    expect(ready.status).toBe('ready');
    const edge = await all.startEdge('edge', 'sin1', b);
    const path = `/media/${media.id}/large.jpg`;
    const [ofA, ofB, ofEdge] = await Promise.all([get(a, path), get(b, path), get(edge, path)]);
    expect([ofA.status, ofB.status, ofEdge.status]).toEqual([200, 200, 200]);
    expect(ofA.body.length).toBeGreaterThan(2 * 1024 * 1024);
    expect(new Set([ofA, ofB, ofEdge].map(({ body }) => sha256(body))).size).toBe(1);
    expect((await get(b, path)).cache).toBe('HIT');
    const middle = await get(b, path, { range: 'bytes=2000000-2000009' });
    expect([middle.status, middle.body]).toEqual([206, ofA.body.subarray(2_000_000, 2_000_010)]);
    expect(await readdir(join(all.folder, 'a'))).not.toContain('mds.sqlite');
  });

  it('cached responses are right within a second of a write at the other node', async () => {
    const newest = async (node: ServiceProcess) => {
      const list = (await (await fetch(`${node.url}/api/v1/media?limit=1`)).json()) as { data: { id: string }[] };
      return list.data[0]?.id;
    };
    for (let n = 1; n <= 5; n++) {
      // Hot: cached by an earlier request.
      await newest(b);
      await newest(b);
      const { media } = await all.clientOf(a).control.media.ingest(png(100 + n));
      await expect.poll(() => newest(b), { timeout: 1_000, interval: 20 }).toBe(media.id);
      await all.clientOf(a).control.media.delete(media.id);
      await expect.poll(() => newest(b), { timeout: 1_000, interval: 20 }).not.toBe(media.id);
    }
  });

  it('a media object that is deleted at one node is gone at the other', async () => {
    const { media } = await all.clientOf(a).control.media.ingest(png(7));
    await all.clientOf(a).control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    const path = `/media/${media.id}/thumb.webp`;
    await get(b, path);
    expect((await get(b, path)).status).toBe(200);
    await all.clientOf(a).control.media.delete(media.id);
    await expect.poll(async () => (await get(b, path)).status, { timeout: 1_500, interval: 20 }).toBe(404);
  });

  it('a purge at one node has the receipts of all', async () => {
    const answer = await fetch(`${a.url}/control/v1/cache/purge?wait=10`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ everything: true }),
    });
    const result = (await answer.json()) as { complete: boolean; receipts: { node: string; state: string }[] };
    expect(result).toMatchObject({ complete: true });
    expect(result.receipts.length).toBeGreaterThanOrEqual(2);
  });

  it('a resumable upload continues at the other node, and back at the first', async () => {
    const file = noisePng('upload', 700, 500);
    const created = await tus('POST', a.url + UPLOADS_PATH, { 'upload-length': String(file.length) });
    expect(created.status).toBe(201);
    const path = new URL(created.headers.get('location') ?? '', a.url).pathname;
    const cuts = [0, 300_000, 800_001, file.length];
    let mediaId: string | null = null;
    for (const [n, node] of [a, b, a].entries()) {
      const [from = 0, to = 0] = cuts.slice(n);
      const head = await tus('HEAD', node.url + path, {});
      expect(Number(head.headers.get('upload-offset'))).toBe(from);
      const answer = await tus('PATCH', node.url + path, { 'upload-offset': String(from) }, file.subarray(from, to));
      expect(answer.status).toBe(204);
      mediaId = answer.headers.get('mds-media-id');
    }
    const detail = await all.clientOf(b).control.media.waitUntilReady(mediaId ?? '', { timeoutMs: 60_000 });
    expect(detail.sha256).toBe(sha256(file));
  });

  it('fault 13: another worker takes the job of a killed one within 60 s', async () => {
    const other = await all.startWorker('worker-2');
    const workersNow = async () => (await all.clientOf(b).control.workers.list()).data;
    const pids = async () => (await workersNow()).map(({ pid }) => pid).sort();
    await expect.poll(pids).toEqual([worker.child.pid, other.child.pid].sort());
    const { media } = await all.clientOf(a).control.media.ingest(noisePng('killed', 1200, 1200));
    const statusOf = async () => (await all.clientOf(b).control.media.get(media.id)).status;
    await expect.poll(statusOf, { timeout: 30_000, interval: 10 }).toBe('processing');
    const [holder] = (await workersNow()).filter(({ jobs }) => jobs.some((job) => job.media_id === media.id));
    const busy = holder?.pid === worker.child.pid ? worker : other;
    expect(holder?.pid).toBe(busy.child.pid);
    await busy.end('SIGKILL');
    await expect.poll(statusOf, { timeout: 60_000, interval: 100 }).toBe('ready');
    await expect.poll(workersNow, { timeout: 10_000 }).toMatchObject([{ running: 0 }]);
    worker = busy === worker ? other : worker;
  }, 120_000);

  it('fault 15: a rolling restart fails no read that is retried at another node', async () => {
    const { media } = await all.clientOf(b).control.media.ingest(png(9));
    await all.clientOf(b).control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    const paths = [`/media/${media.id}/thumb.webp`, '/api/v1/media', '/api/v1/status'];
    let done = false;
    let requests = 0;
    const failures: string[] = [];
    const read = async (reader: number) => {
      for (let n = reader; !done; n++) {
        const path = paths[n % paths.length] ?? '';
        const nodes = n % 2 === 0 ? [a, b] : [b, a];
        const outcomes: string[] = [];
        for (const { url } of nodes) {
          outcomes.push(await outcomeOf(url + path));
          if (outcomes.at(-1) === '200') break;
        }
        requests += 1;
        if (outcomes.at(-1) !== '200') failures.push(`${path}: ${outcomes.join(', then ')}`);
      }
    };
    const readers = Array.from({ length: 4 }, (_, reader) => read(reader));
    for (const name of ['a', 'b'] as const) {
      const leaving = name === 'a' ? a : b;
      expect(await leaving.end('SIGTERM')).toEqual({ code: 0, signal: null });
      const back = await all.startApi(name);
      if (name === 'a') a = back;
      else b = back;
    }
    done = true;
    await Promise.all(readers);
    expect(failures).toEqual([]);
    expect(requests).toBeGreaterThan(100);
  }, 120_000);

  it('no log has a secret of the database or the object store', () => {
    const logs = [a.stderr(), b.stderr(), worker.stderr()].join('');
    expect(logs).not.toContain(all.s3.credentials.secretAccessKey);
    expect(logs).not.toContain('correct-horse-battery-staple');
  });
});

/** The status of a complete response, or the error. */
async function outcomeOf(url: string): Promise<string> {
  try {
    const answer = await fetch(url);
    await answer.arrayBuffer();
    return String(answer.status);
  } catch (error) {
    const { message, cause } = error as Error;
    return `${message}: ${cause instanceof Error ? cause.message : cause}`;
  }
}
