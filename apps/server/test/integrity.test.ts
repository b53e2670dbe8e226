import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../src/base/logger.ts';
import { originalKey } from '../src/base/object-key.ts';
import type { Service } from '../src/service.ts';
import { damageObject, openStoreOf } from './support/backends.ts';
import { png } from './support/pictures.ts';
import { composeUnderTest, nodeArguments } from './support/programs-under-test.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';

const run = promisify(execFile);

describe('fault 18: a flipped or missing byte in the object store', () => {
  let service: ServiceFixture;
  /** Restarts the service with other presets. */
  let restarted: Service | null = null;
  /** The current URL of the service. */
  let url: string;
  beforeEach(async () => {
    // Without a memory tier, and without a disk tier for a remote store, every delivery reads the store.
    service = await startService({ MDS_MEMORY_CACHE_BYTES: '0', MDS_CACHE_BYTES: '0' });
    url = service.url;
  });
  afterEach(async () => {
    await restarted?.stop();
    restarted = null;
    await service.stop();
  });

  const ready = async (seed: number) => {
    const body = png(seed, 2600, 1800);
    const { media } = await service.client.control.media.ingest(body, { filename: `${seed}.png` });
    await service.client.control.media.waitUntilReady(media.id, { timeoutMs: 30_000 });
    return { id: media.id, body, sha256: createHash('sha256').update(body).digest('hex') };
  };
  const objectKey = async (sha256: string, name: string) => {
    await using store = await openStoreOf(service.dataDir);
    const folder = `renditions/${sha256.slice(0, 2)}/${sha256}/`;
    for await (const { key } of store.list(folder)) if (key.startsWith(folder + name)) return key;
    throw new Error(`There is no object of ${name}`);
  };
  const flip = (key: string) => damageObject(service.dataDir, key);
  const remove = async (key: string) => {
    await using store = await openStoreOf(service.dataDir);
    await store.delete(key);
  };
  /** `mds doctor`, as an operator runs it. */
  const doctor = async (...options: string[]) => {
    const argv = [...nodeArguments('mds'), 'doctor', ...options];
    const env = { PATH: process.env['PATH'] ?? '', MDS_URL: url, MDS_TOKEN: service.token };
    return run(process.execPath, argv, { env }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );
  };
  const deliver = (id: string, name: string) => fetch(`${service.url}/media/${id}/${name}`);

  it('is never served, is found by mds doctor, and the rendition is remade byte-exact', async () => {
    const sound = await ready(1);
    const hurt = await ready(2);
    const before = Buffer.from(await (await deliver(hurt.id, 'small.webp')).arrayBuffer());
    expect(await doctor()).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('2 media examined') });

    await flip(await objectKey(hurt.sha256, 'small.'));
    await remove(await objectKey(hurt.sha256, 'thumb.'));
    for (const name of ['small.webp', 'thumb.webp']) {
      const refused = await deliver(hurt.id, name);
      expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([500, 'object_corrupt']);
    }

    const found = await doctor();
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(`${hurt.id}\tsmall.webp\tdamaged`);
    expect(found.stdout).toContain(`${hurt.id}\tthumb.webp\tmissing`);
    expect(found.stdout).not.toContain(sound.id);

    expect(await doctor('--repair')).toMatchObject({ code: 0, stdout: expect.stringContaining('is being made again') });
    const states = async () => (await service.client.control.media.get(hurt.id)).renditions.map(({ state }) => state);
    await expect.poll(states, { timeout: 30_000, interval: 100 }).toEqual(Array(6).fill('ready'));
    expect((await doctor()).code).toBe(0);
    // A damaged object is not read again for a second.
    await expect.poll(async () => (await deliver(hurt.id, 'small.webp')).status, { timeout: 10_000 }).toBe(200);
    const after = await deliver(hurt.id, 'small.webp');
    expect(Buffer.from(await after.arrayBuffer()).equals(before)).toBe(true);
    expect((await deliver(hurt.id, 'thumb.webp')).status).toBe(200);
    expect((await service.client.control.media.get(hurt.id)).status).toBe('ready');
  });

  it('in an original is repaired by uploading the same file again', async () => {
    const hurt = await ready(3);
    await flip(originalKey(hurt.sha256));
    const found = await doctor();
    expect(found).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`${hurt.id}\toriginal\tdamaged\tupload the same file again`),
    });

    const again = await service.client.control.media.ingest(hurt.body);
    expect(again).toMatchObject({ created: false, media: { id: hurt.id, status: 'ready' } });
    await using store = await openStoreOf(service.dataDir);
    expect((await store.readAll(originalKey(hurt.sha256)))?.equals(hurt.body)).toBe(true);
    expect((await doctor()).code).toBe(0);
  });

  it('in a rendition without a preset is reported as one that cannot be remade', async () => {
    const hurt = await ready(4);
    await service.service.stop();
    const presetsFile = join(service.dataDir, 'presets.json');
    await writeFile(presetsFile, JSON.stringify([{ name: 'thumb', container: 'webp', width: 64, height: 64 }]));
    const again = await composeUnderTest({ ...service.config, presetsFile }, createLogger('silent'));
    restarted = again;
    url = again.url;
    const client = createClient({ baseUrl: url, token: service.token });
    for (const name of ['small.', 'thumb.']) await flip(await objectKey(hurt.sha256, name));

    const found = await doctor();
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(
      `${hurt.id}\tsmall.webp\tdamaged\tcannot be made again, no preset makes it any more`,
    );
    // Its preset has changed, and makes the present one.
    expect(found.stdout).toContain(`${hurt.id}\tthumb.webp\tdamaged\tcan be made again`);
    expect(await client.control.media.verify(hurt.id)).toMatchObject({ repair: 'needs_preset' });

    const repaired = await doctor('--repair');
    expect(repaired.code).toBe(1);
    expect(repaired.stdout).toContain(`${hurt.id}\tsmall.webp\tdamaged\tgiven up, no preset makes it any more`);
    expect(repaired.stdout).toContain(`${hurt.id}\tthumb.webp\tdamaged\tis being made again`);
    const thumb = async () => (await fetch(`${url}/media/${hurt.id}/thumb.webp`)).status;
    await expect.poll(thumb, { timeout: 30_000 }).toBe(200);
    const gone = await fetch(`${url}/media/${hurt.id}/small.webp`);
    expect([gone.status, await gone.json()]).toMatchObject([404, { code: 'rendition_not_found' }]);
    expect((await doctor()).code).toBe(0);
  });
});
