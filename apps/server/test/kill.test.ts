import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, createClient, createFileUploadStore, type UploadStore } from '@mds/client';
import { Fetch } from '@mds/contract';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { originalKey } from '../src/base/object-key.ts';
import { openStoreOf } from './support/backends.ts';
import { freePort } from './support/free-port.ts';
import { noisePng, png } from './support/pictures.ts';
import { seededRandom } from './support/seeded-random.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

/** `MDS_TEST_KILLS=100 npm test -- apps/server/test/kill.test.ts` for the long version. */
const KILLS = Number(process.env['MDS_TEST_KILLS'] ?? 8);
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 20_261_120);

/** Noise, so that the upload takes time. */
const uploaded = (seed: number) => noisePng(`upload ${seed}`, 250, 200);

let dataDir: string;
let running: ServiceProcess | undefined;
let site: Server;
/** The same for every service, because an upload continues at its URL. */
let port: number;
/** Serves the files of fetches, `/N.png`, slowly. */
let siteUrl: string;
const start = async () => {
  running = await spawnService({ dataDir, env: { MDS_FETCH_ALLOW: '127.0.0.1', MDS_PORT: String(port) } });
  return running;
};
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-kill-'));
  site = createServer((req, res) => {
    const body = png(Number(/\d+/.exec(req.url ?? '')?.[0]), 300, 200);
    res.writeHead(200, { 'Content-Length': body.length });
    res.write(body.subarray(0, 100));
    setTimeout(() => res.end(body.subarray(100)), 30);
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  siteUrl = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  port = await freePort();
});
afterEach(async () => {
  site.closeAllConnections();
  await new Promise((resolve) => site.close(resolve));
  // A failed test has not ended its service.
  if (running && running.child.exitCode === null && running.child.signalCode === null) await running.end('SIGKILL');
  for (const folder of [dataDir, `${dataDir}-addresses`]) {
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
});

it(
  `fault 16: ${KILLS} kill -9 under load lose no acknowledged media object`,
  async () => {
    const random = seededRandom(SEED);
    /** Ids of media with a 201 or 200, by SHA-256, without those with a deletion. */
    const acknowledged = new Map<string, string>();
    const perhapsDeleted = new Set<string>();
    /** Ids of fetches with a 202. */
    const promised = new Map<string, string>();
    const addresses = createFileUploadStore(`${dataDir}-addresses`);
    let resumed = 0;
    const store: UploadStore = {
      ...addresses,
      async get(key) {
        const address = await addresses.get(key);
        if (address !== null) resumed += 1;
        return address;
      },
    };
    let seed = 0;
    let uploading = 0;
    let fetching = 0;

    for (let round = 0; round < KILLS; round++) {
      const service = await start();
      const client = createClient({ baseUrl: service.url, token: service.token, maxRetries: 0 });
      const killed = new AbortController();
      const load = [
        ...Array.from({ length: 3 }, () =>
          until(killed.signal, async () => {
            const body = png(seed++, 400, 300);
            const sha256 = createHash('sha256').update(body).digest('hex');
            const { media } = await client.control.media.ingest(body, { filename: `${seed}.png` });
            acknowledged.set(sha256, media.id);
          }),
        ),
        // In sequence; each continues after the service died.
        until(killed.signal, async () => {
          const body = uploaded(uploading);
          const resumeKey = `upload ${uploading}`;
          const { media } = await client.control.media.upload(body, {
            ...{ resumeKey, resumeStore: store, chunkBytes: 50_000, signal: killed.signal },
          });
          acknowledged.set(createHash('sha256').update(body).digest('hex'), media.id);
          uploading++;
        }),
        until(killed.signal, async () => {
          await sleep(100);
          const number = 1_000_000 + fetching++;
          const sha256 = createHash('sha256')
            .update(png(number, 300, 200))
            .digest('hex');
          promised.set(sha256, await beginFetch(service, `${siteUrl}/${number}.png`));
        }),
        until(killed.signal, async () => {
          const page = await client.media.list({ limit: 5 });
          for (const { id } of page.data) await client.download(client.url(id, 'thumb', { extension: 'webp' }));
        }),
        until(killed.signal, async () => {
          await sleep(1_500);
          const [sha256, id] = [...acknowledged][0] ?? [];
          if (!sha256 || !id || acknowledged.size < 10) return;
          perhapsDeleted.add(sha256);
          acknowledged.delete(sha256);
          await client.control.media.delete(id);
        }),
      ];
      // Every third time at any moment, perhaps before any acknowledgement; otherwise during processing.
      const before = acknowledged.size + perhapsDeleted.size;
      const deadline = Date.now() + (round % 3 === 0 ? 0 : 20_000);
      while (acknowledged.size + perhapsDeleted.size <= before && Date.now() < deadline) await sleep(10);
      await sleep(random() * 1200);
      await service.end('SIGKILL');
      killed.abort();
      await Promise.all(load);
      if ((round + 1) % 10 === 0) {
        console.log(`${round + 1} kills, ${acknowledged.size} media acknowledged so far`);
      }
    }

    const service = await start();
    const client = createClient({ baseUrl: service.url, token: service.token });
    for (const [sha256, id] of promised) acknowledged.set(sha256, await mediaObjectOf(client, id));
    const found = await becomeReady(client, [...acknowledged.values()]);
    await using objects = await openStoreOf(dataDir);
    for (const [sha256, id] of acknowledged) {
      expect(found.get(id), `medium ${id}`).toBe('ready');
      const original = await objects.readAll(originalKey(sha256));
      expect(
        createHash('sha256')
          .update(original ?? '')
          .digest('hex'),
      ).toBe(sha256);
      for (const rendition of (await client.control.media.get(id)).renditions) {
        if (rendition.state !== 'ready') continue;
        const { byteLength } = await (await client.download(rendition.url)).arrayBuffer();
        expect(byteLength).toBe(rendition.bytes);
      }
    }
    console.log(
      `fault 16: ${KILLS} kills; begun: ${seed} files in one request, ${uploading + 1} resumable (${resumed} times gone on with), ${fetching} from URLs (${promised.size} promised); ${acknowledged.size} acknowledged and kept, ${perhapsDeleted.size} deleted, 0 lost or altered`,
    );
    expect(acknowledged.size + perhapsDeleted.size).toBeGreaterThan(KILLS);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  },
  // Acknowledged media are processed after the kills, at the speed of the machine.
  60_000 + KILLS * 30_000,
);

/** Requests a fetch. @returns its id, once it is accepted */
async function beginFetch(service: ServiceProcess, sourceUrl: string): Promise<string> {
  const answer = await fetch(`${service.url}/control/v1/media`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ source_url: sourceUrl }),
  });
  const body = await answer.json();
  if (answer.status !== 202) throw new Error(`${answer.status}: ${JSON.stringify(body)}`);
  return Fetch.parse(body).id;
}

/** Waits for a fetch, which continues by itself after each kill. @returns its media object */
async function mediaObjectOf(client: Client, fetchId: string): Promise<string> {
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await sleep(100)) {
    const { status, media_id: mediaId, error } = await client.control.fetches.get(fetchId);
    if (mediaId !== null) return mediaId;
    if (error !== null) throw new Error(`The fetch ${fetchId} is ${status}: ${error.code}, ${error.message}`);
  }
  throw new Error(`The fetch ${fetchId} did not end within two minutes.`);
}

/** Repeats until `stop`. Requests may fail while the service is killed. */
async function until(stop: AbortSignal, work: () => Promise<void>): Promise<void> {
  while (!stop.aborted) {
    try {
      await work();
    } catch {
      // The service may be killed at any moment: only acknowledgements count.
      await sleep(20);
    }
  }
}

/** Waits until all are ready, or until none has become ready for a minute. The total time depends on the machine. */
async function becomeReady(client: Client, ids: string[]): Promise<Map<string, string>> {
  const states = new Map<string, string>();
  const ready = () => ids.filter((id) => states.get(id) === 'ready').length;
  let most = -1;
  for (let deadline = Date.now() + 60_000; Date.now() < deadline && ready() < ids.length; await sleep(200)) {
    for await (const mediaObject of client.media.list({ limit: 100 })) states.set(mediaObject.id, mediaObject.status);
    if (ready() === most) continue;
    most = ready();
    deadline = Date.now() + 60_000;
  }
  return states;
}
