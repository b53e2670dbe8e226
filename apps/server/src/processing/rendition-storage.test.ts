import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ReadyRendition } from '@mds/transcode';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renditionFileKey } from '../base/object-key.ts';
import type { Lease } from '../db/job-queue.ts';
import type { MediaRecord, NewRendition } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createRenditionStorage } from './rendition-storage.ts';

const revision = '0a1b2c3d';
const MASTER = '#EXTM3U\nv/1.m4s\n';
const never = new AbortController().signal;
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

let root: string;
let store: ObjectStore;
let repositories: Repositories;
let mediaObject: MediaRecord;
let lease: Lease;
let row: NewRendition;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-renditions-'));
  store = createLocalObjectStore({ root: join(root, 'objects') });
  repositories = openSqliteRepositories(':memory:');
  ({ mediaObject, lease } = await begin('1'));
});
afterEach(async () => {
  await repositories.close();
  await rm(root, { recursive: true });
});

/** A media object, always of the same bytes, whose HLS is in progress. */
async function begin(last: string): Promise<{ mediaObject: MediaRecord; lease: Lease }> {
  const { media } = await repositories.media.accept(
    {
      ...{ id: `med_01k0c4s6q8y2v4w6x8z0a2c4e${last}`, projectId: 'default', createdAtMs: 0, contentType: 'video/mp4' },
      ...{ bytes: 1, width: 1, height: 1, filename: null, sha256: 'a'.repeat(64), kind: 'video', format: 'mp4' },
      ...{ durationMs: 1, codecs: [], warnings: [], identified: {} },
    },
    { duplicate: 'allow', idempotencyKey: null },
  );
  const claimed = await repositories.jobs.claim('worker');
  if (!claimed) throw new Error('There is nothing to claim.');
  row = {
    ...{ name: 'hls', extension: 'm3u8', contentType: 'application/vnd.apple.mpegurl', revision, current: true },
    ...{ state: 'pending', reason: null, objectKey: key('master.m3u8', media), sha256: null, bytes: null, files: null },
    ...{ width: null, height: null },
  };
  await repositories.media.start(claimed, [row]);
  return { mediaObject: media, lease: claimed };
}
const key = (file: string, of: Pick<MediaRecord, 'sha256'> = mediaObject) =>
  renditionFileKey({ sourceSha256: of.sha256, name: 'hls', revision, file });
const storageOf = (over: Partial<ObjectStore> = {}) =>
  createRenditionStorage({ ...repositories, store: { ...store, ...over }, mediaObject });
/** Files as an engine leaves them. */
const make = async (files: Record<string, string>): Promise<ReadyRendition> => {
  const made = [];
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, 'out', name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    made.push({ name, path, contentType: 'video/mp4', bytes: Buffer.byteLength(text) });
  }
  const bytes = made.reduce((sum, file) => sum + file.bytes, 0);
  return {
    ...{
      name: 'hls',
      extension: 'm3u8',
      revision,
      state: 'ready',
      path: made[0]?.path ?? '',
      bytes,
      width: 2,
      height: 2,
    },
    ...{ frames: 1, durationMs: 1, files: made, notes: [] },
  };
};
const keys = async () => {
  const found: string[] = [];
  for await (const object of store.list('renditions/')) found.push(object.key);
  return found.sort();
};
const findMaster = () =>
  repositories.media.findFile({ mediaId: mediaObject.id, name: 'hls', revision: null, file: 'master.m3u8' });

describe('a rendition of several files', () => {
  it('is stored file by file, and becomes visible when its row is published', async () => {
    const made = await make({ 'master.m3u8': MASTER, 'v/1.m4s': 'one', 'v/2.m4s': 'two' });
    const stored = await storageOf().store(lease, row, made, never);
    expect(stored?.row).toMatchObject({ state: 'ready', files: 3, bytes: MASTER.length + 6, sha256: sha256(MASTER) });
    expect(await keys()).toEqual([key('master.m3u8'), key('v/1.m4s'), key('v/2.m4s')].sort());
    expect(await findMaster()).toBeNull();
    await repositories.media.publishRendition(lease, stored?.row ?? row);
    expect(await findMaster()).toMatchObject({ sha256: sha256(MASTER) });
    await storageOf().requireStored(stored ? [stored] : []);
  });

  it('invariant 2: is never visible in part if the store fails half-way', async () => {
    const made = await make({ 'master.m3u8': MASTER, 'v/1.m4s': 'one', 'v/2.m4s': 'two' });
    const put: ObjectStore['put'] = async (at, file) => {
      if (at.endsWith('v/1.m4s')) throw new Error('The disk is gone.');
      return store.put(at, file);
    };
    await expect(storageOf({ put }).store(lease, row, made, never)).rejects.toThrow('The disk is gone.');
    expect(await findMaster()).toBeNull();
    expect((await repositories.media.renditions(mediaObject.id))[0]?.state).toBe('pending');
    for (const left of await keys()) expect([left, await repositories.media.isReferenced(left)]).toEqual([left, true]);
    expect((await repositories.media.delete(mediaObject.id))?.orphans).toEqual(expect.arrayContaining(await keys()));
  });

  it('replaces leftovers of an interrupted attempt, even of the same size', async () => {
    const leave = async (file: string, text: string) => {
      const path = join(root, 'left');
      await writeFile(path, text);
      await store.put(key(file), { path, bytes: text.length, sha256: sha256(text) });
    };
    await leave('v/1.m4s', 'ONE');
    await leave('v/2.m4s', 'longer than it was');
    const stored = await storageOf().store(
      lease,
      row,
      await make({ 'master.m3u8': MASTER, 'v/1.m4s': 'one', 'v/2.m4s': 'two' }),
      never,
    );
    for (const { objectKey, sha256: recorded } of stored?.files ?? []) {
      expect(sha256(String(await store.readAll(objectKey)))).toBe(recorded);
    }
    expect(stored?.files).toHaveLength(3);
  });

  it.each(['../escape.m4s', '/etc/passwd', 'v/../../x.m4s', 'V/1.m4s', 'v/.hidden'])(
    'is refused if a file is named %j: no such name reaches the store',
    async (name) => {
      const made = await make({ 'master.m3u8': MASTER });
      const files = [...(made.files ?? []), { name, path: made.path, contentType: 'video/mp4', bytes: 1 }];
      await expect(storageOf().store(lease, row, { ...made, files }, never)).rejects.toThrow(RangeError);
      expect(await keys()).toEqual([]);
    },
  );

  it('is reused only with all its files, also by a media object of the same bytes', async () => {
    const made = await make({ 'master.m3u8': MASTER, 'v/1.m4s': 'one' });
    const stored = await storageOf().store(lease, row, made, never);
    await repositories.media.publish(lease, {
      renditions: stored ? [stored.row] : [],
      thumbhash: null,
      warnings: [],
    });
    const twin = await begin('2');
    mediaObject = twin.mediaObject;
    const storage = storageOf();
    const existing = (await storage.findExisting([row])).get(row.objectKey ?? '');
    expect(existing?.files).toHaveLength(2);
    if (existing) expect(await storage.adopt(twin.lease, existing)).toBe(true);
    await repositories.media.publish(twin.lease, {
      renditions: existing ? [existing.row] : [],
      thumbhash: null,
      warnings: [],
    });
    expect(await findMaster()).toMatchObject({ mediaId: twin.mediaObject.id, sha256: sha256(MASTER) });

    await store.delete(key('v/1.m4s'));
    expect((await storage.findExisting([row])).size).toBe(0);
    await expect(storage.requireStored(existing ? [existing] : [])).rejects.toMatchObject({
      code: 'object_missing',
      retryable: true,
    });
  });
});
