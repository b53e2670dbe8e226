import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, createClient } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { originalKey, renditionsPrefix } from '../src/base/object-key.ts';
import { openStoreOf } from './support/backends.ts';
import { noisePng } from './support/pictures.ts';
import { sha256 } from './support/points-of-presence.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

/** So many that the removal is not over when it is detected. */
const RENDITIONS = 80;
/** A service that is killed as soon as the row is gone has rarely removed all objects. */
const TRIES = 5;

let folder: string;
let dataDir: string;
let running: ServiceProcess | undefined;
const start = async () => {
  running = await spawnService({ dataDir, env: { MDS_PRESETS: join(folder, 'presets.json') } });
  const { url: baseUrl, token } = running;
  return { service: running, client: createClient({ baseUrl, token, maxRetries: 0 }) };
};
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-removal-'));
  dataDir = join(folder, 'data');
  const presets = Array.from({ length: RENDITIONS }, (_, n) => ({
    ...{ name: `r${n}`, container: 'webp', width: 16 + n, height: 16 + n },
  }));
  await writeFile(join(folder, 'presets.json'), JSON.stringify(presets));
});
afterEach(async () => {
  // A failed test has not ended its service.
  if (running && running.child.exitCode === null && running.child.signalCode === null) await running.end('SIGKILL');
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

/** Keys of all objects, without those of probes. */
async function stored(): Promise<string[]> {
  await using store = await openStoreOf(dataDir);
  const keys: string[] = [];
  for await (const { key } of store.list('')) keys.push(key);
  return keys.sort();
}

/** Ingests a picture, deletes it, and kills the service between the row and the last object. @returns the keys that are left */
async function cutDeletionOff(picture: Buffer<ArrayBuffer>): Promise<string[]> {
  for (let tries = 0; tries < TRIES; tries++) {
    const { service, client } = await start();
    const { media } = await client.control.media.ingest(picture);
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 120_000 });
    expect((await stored()).length).toBe(RENDITIONS + 1);
    const answered = client.control.media.delete(media.id).then(
      () => true,
      () => false,
    );
    const headers = { authorization: `Bearer ${service.token}` };
    while ((await fetch(`${service.url}/control/v1/media/${media.id}`, { headers })).status !== 404);
    await service.end('SIGKILL');
    await answered;
    const left = await stored();
    if (left.length > 0) return left;
  }
  throw new Error('The service was never killed while it removed objects.');
}

async function expectWhole(client: Client, id: string, picture: Buffer): Promise<void> {
  const detail = await client.control.media.waitUntilReady(id, { timeoutMs: 120_000 });
  await using store = await openStoreOf(dataDir);
  const original = await store.readAll(originalKey(detail.sha256));
  expect(sha256(original ?? Buffer.alloc(0))).toBe(sha256(picture));
  const { renditions } = await client.control.media.get(id);
  expect(renditions.length).toBe(RENDITIONS);
  for (const { state, url, bytes } of renditions) {
    expect(state).toBe('ready');
    expect((await (await client.download(url)).arrayBuffer()).byteLength).toBe(bytes);
  }
}

it('fault 16: objects of a deletion that was killed are removed at the next start', async () => {
  const picture = noisePng('deleted', 120, 120);
  const left = await cutDeletionOff(picture);
  const under = [originalKey(sha256(picture)), renditionsPrefix(sha256(picture))];
  for (const key of left)
    expect(
      under.some((start) => key.startsWith(start)),
      key,
    ).toBe(true);
  // As a worker that is killed before it notices the deletion leaves them.
  const late = `${renditionsPrefix(sha256(picture))}late.0000000a/720p/00001.m4s`;
  {
    await using store = await openStoreOf(dataDir);
    const path = join(folder, 'late');
    await writeFile(path, 'late');
    await store.put(late, { path, bytes: 4, sha256: sha256(Buffer.from('late')) });
  }
  const { service, client } = await start();
  await expect.poll(stored, { timeout: 60_000 }).toEqual([]);
  const { media } = await client.control.media.ingest(picture);
  await expectWhole(client, media.id, picture);
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
}, 600_000);

it('fault 16: bytes that are uploaded again during a removal are kept', async () => {
  const picture = noisePng('sent in again', 120, 120);
  await cutDeletionOff(picture);
  const { service, client } = await start();
  // At once, during the sweep of the start.
  const { media, created } = await client.control.media.ingest(picture);
  expect(created).toBe(true);
  await expectWhole(client, media.id, picture);
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
}, 600_000);
