import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, createClient } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { originalKey } from '../src/storage/object-store.ts';
import { png } from './pictures.ts';
import { seededRandom } from './seeded-random.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';

/** `MDS_TEST_KILLS=100 npm test -- apps/server/test/kill.test.ts` for the long version. */
const KILLS = Number(process.env['MDS_TEST_KILLS'] ?? 8);
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 20_261_120);

let dataDir: string;
let running: ServiceProcess | undefined;
const start = async () => {
  running = await spawnService({ dataDir });
  return running;
};
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-kill-'));
});
afterEach(async () => {
  // A test that failed half-way has not ended its service.
  if (running && running.child.exitCode === null && running.child.signalCode === null) await running.end('SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

it(
  `fault 16: after kill -9 of the service at ${KILLS} random moments of a mixed load, every medium that was acknowledged is there, byte-exact, and becomes ready`,
  async () => {
    const random = seededRandom(SEED);
    /** Id by SHA-256 of what was answered with 201 or 200; a medium whose deletion was answered is taken out. */
    const acknowledged = new Map<string, string>();
    const perhapsDeleted = new Set<string>();
    let seed = 0;

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
      // Every third time at any moment, perhaps before anything is acknowledged; else while media are being processed.
      const before = acknowledged.size + perhapsDeleted.size;
      const deadline = Date.now() + (round % 3 === 0 ? 0 : 20_000);
      while (acknowledged.size + perhapsDeleted.size <= before && Date.now() < deadline) await sleep(10);
      await sleep(random() * 1200);
      await service.end('SIGKILL');
      killed.abort();
      await Promise.all(load);
    }

    const service = await start();
    const client = createClient({ baseUrl: service.url, token: service.token });
    const found = await becomeReady(client, [...acknowledged.values()]);
    for (const [sha256, id] of acknowledged) {
      expect(found.get(id), `medium ${id}`).toBe('ready');
      const original = await readFile(join(dataDir, 'objects', originalKey(sha256)));
      expect(createHash('sha256').update(original).digest('hex')).toBe(sha256);
      for (const rendition of (await client.control.media.get(id)).renditions) {
        if (rendition.state !== 'ready') continue;
        const { byteLength } = await (await client.download(rendition.url)).arrayBuffer();
        expect(byteLength).toBe(rendition.bytes);
      }
    }
    console.log(
      `fault 16: ${KILLS} kills, ${seed} uploads begun, ${acknowledged.size} acknowledged and kept, ${perhapsDeleted.size} deleted, 0 lost or altered`,
    );
    expect(acknowledged.size + perhapsDeleted.size).toBeGreaterThan(KILLS);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  },
  60_000 + KILLS * 10_000,
);

/** Repeats until told to stop; what fails once the service is being killed is what a client would see. */
async function until(stop: AbortSignal, work: () => Promise<void>): Promise<void> {
  while (!stop.aborted) {
    try {
      await work();
    } catch {
      // The service may be gone at any moment: only what it acknowledged counts.
      await sleep(20);
    }
  }
}

/** Waits until all are ready, or until nothing has become ready for a minute: how long it takes is the machine's matter. */
async function becomeReady(client: Client, ids: string[]): Promise<Map<string, string>> {
  const states = new Map<string, string>();
  const ready = () => ids.filter((id) => states.get(id) === 'ready').length;
  let most = -1;
  for (let deadline = Date.now() + 60_000; Date.now() < deadline && ready() < ids.length; await sleep(200)) {
    for await (const medium of client.media.list({ limit: 100 })) states.set(medium.id, medium.status);
    if (ready() === most) continue;
    most = ready();
    deadline = Date.now() + 60_000;
  }
  return states;
}
