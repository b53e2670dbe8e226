import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UPLOADS_PATH } from '@mds/contract';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { createLogger } from '../base/logger.ts';
import { originalKey } from '../base/object-key.ts';
import { sha256 } from '../ingest/ingest.fixture.ts';
import { createPieceWriting } from '../ingest/piece-writing.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { createFileHashing } from '../storage/file-hashing.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createStoredUploadFiles } from './stored-upload-files.ts';
import { bytesOf, chainOf, segmentKey } from './upload-segments.ts';
import { OFFSET_OCTETS, type RunningUploads, uploadsFixture } from './uploads.fixture.ts';
import type { UploadsParts } from './uploads.ts';

const fixture = uploadsFixture();
const { ingest } = fixture;
const picture = noisePng('a', 300, 200);
const SEGMENT_BYTES = 20_000;

const idOf = (path: string) => path.split('/').pop() ?? '';
const at = (offset: number) => ({ ...OFFSET_OCTETS, 'upload-offset': String(offset) });
const segmentsNow = async () => (await ingest.objects()).filter((key) => key.startsWith('uploads/'));

/** A node with its own folder, and the store and database that all share. */
const node = async (name: string, overrides: Partial<UploadsParts> & { store?: ObjectStore } = {}) => {
  const folder = join(ingest.root, name, 'uploads');
  const stagingDir = join(ingest.root, name, 'staging');
  await mkdir(folder, { recursive: true });
  await mkdir(stagingDir, { recursive: true });
  const { store = ingest.store, ...rest } = overrides;
  const segments = { store, stagingDir, segmentBytes: SEGMENT_BYTES };
  return fixture.run({ folder, shared: true, segments, ...rest });
};

const expectWhole = async (mediaId: string | null, bytes = picture) => {
  const media = await ingest.repositories.media.find(mediaId ?? '');
  expect(media?.sha256).toBe(sha256(bytes));
  expect((await ingest.store.readAll(originalKey(media?.sha256 ?? '')))?.equals(bytes)).toBe(true);
};

/** Expects nothing of any upload, in the store or on a node's disk. */
const expectNothingLeft = async (...nodes: RunningUploads[]) => {
  expect(await segmentsNow()).toEqual([]);
  for (const { folder } of nodes) {
    expect(await readdir(folder)).toEqual([]);
    expect(await readdir(join(folder, '..', 'staging'))).toEqual([]);
  }
};

describe('an upload over several nodes', () => {
  it('alternates between two nodes and arrives whole', async () => {
    const a = await node('a');
    const b = await node('b');
    const path = await a.create(picture.length, { checksum: sha256(picture) });
    expect(await a.patch(path, 0, picture.subarray(0, 50_000))).toMatchObject({ status: 204, offset: 50_000 });
    expect(await b.head(path)).toMatchObject({ status: 200, offset: 50_000 });
    expect(await b.patch(path, 50_000, picture.subarray(50_000, 60_001))).toMatchObject({ offset: 60_001 });
    const last = await a.patch(path, 60_001, picture.subarray(60_001));
    expect(last).toMatchObject({ status: 204, offset: picture.length });
    await expectWhole(last.mediaId);
    expect(await b.head(path)).toMatchObject({ offset: picture.length, mediaId: last.mediaId });
    await expectNothingLeft(a);
  });

  it('completes at a node without its bytes, after all others lost their disks', async () => {
    const a = await node('a');
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 70_000));
    await a.crash();
    await rm(join(ingest.root, 'a'), { recursive: true });
    const b = await node('b');
    await b.patch(path, 70_000, picture.subarray(70_000, 90_000));
    await b.crash();
    await rm(join(ingest.root, 'b'), { recursive: true });
    const c = await node('c');
    expect(await c.head(path)).toMatchObject({ status: 200, offset: 90_000 });
    await expectWhole((await c.patch(path, 90_000, picture.subarray(90_000))).mediaId);
    await expectNothingLeft(c);
  });

  it('does not trust a local copy from before a restart', async () => {
    const a = await node('a');
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 30_000));
    await a.crash();
    await writeFile(join(a.folder, idOf(path)), Buffer.alloc(80_000, 7));
    const again = await node('a');
    expect(await again.head(path)).toMatchObject({ offset: 30_000 });
    await expectWhole((await again.patch(path, 30_000, picture.subarray(30_000))).mediaId);
  });

  it('moves from its holder to another node, which resumes at its offset', async () => {
    const a = await node('a');
    const b = await node('b');
    const path = await a.create(picture.length);
    const sending = a.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 45_000));
    await expect.poll(async () => (await a.uploads.stats()).receivedBytes, { timeout: 10_000 }).toBe(45_000);
    expect(await b.head(path)).toMatchObject({ status: 200, offset: 45_000 });
    expect(await sending.answer).toMatchObject({ status: 204, offset: 45_000 });
    await expectWhole((await b.patch(path, 45_000, picture.subarray(45_000))).mediaId);
  });

  it('is accepted by another node if it is complete and its node dies', async () => {
    const refused = { accept: () => Promise.reject(new Error('the database has gone')) };
    const a = await node('a', { ingest: refused });
    const path = await a.create(picture.length);
    expect(await a.patch(path, 0, picture)).toMatchObject({ status: 500 });
    await a.crash();
    const b = await node('b');
    const { mediaId } = await b.head(path);
    await expectWhole(mediaId);
  });

  it('stays locked by its holder while another node starts', async () => {
    const a = await node('a');
    const path = await a.create(picture.length);
    const sending = a.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 1000));
    await expect.poll(async () => (await a.uploads.stats()).receivedBytes, { timeout: 10_000 }).toBe(1000);
    await node('b');
    expect(await ingest.repositories.uploads.lock(idOf(path), 'somebody else')).toMatchObject({
      holder: expect.any(String),
    });
    sending.send(picture.subarray(1000));
    sending.end();
    await expectWhole((await sending.answer).mediaId);
  });

  it('frees its room and its copy on a node after it ended on another one', async () => {
    const folder = join(ingest.root, 'a', 'uploads');
    await mkdir(folder, { recursive: true });
    const space = createStagingSpace({ folder, maxBytes: 0, minFreeBytes: 0 });
    const a = await node('a', { space, expiryMs: 2000 });
    const b = await node('b', { expiryMs: 2000 });
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 30_000));
    expect(space.reservedBytes).toBeGreaterThanOrEqual(picture.length);
    expect((await b.patch(path, 30_000, picture.subarray(30_000))).mediaId).not.toBeNull();
    await expect.poll(() => space.reservedBytes, { timeout: 10_000 }).toBe(0);
    await expect.poll(() => readdir(folder), { timeout: 10_000 }).toEqual([]);
  });
});

describe('acknowledged bytes', () => {
  /** The store, with a switch that makes it refuse. */
  const failing = () => {
    const state = { fails: false, puts: 0 };
    const store: ObjectStore = {
      ...ingest.store,
      put: async (key, file) => {
        if (key.startsWith('uploads/')) state.puts += 1;
        if (state.fails) throw Object.assign(new Error('no room'), { code: 'ENOSPC' });
        await ingest.store.put(key, file);
      },
    };
    return { state, store };
  };

  it('fault 17: are in the store: a full store acknowledges nothing', async () => {
    const { state, store } = failing();
    const a = await node('a', { store });
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 25_000));
    state.fails = true;
    expect(await a.patch(path, 25_000, picture.subarray(25_000))).toMatchObject({
      status: 507,
      code: 'insufficient_storage',
    });
    state.fails = false;
    expect(await a.head(path)).toMatchObject({ offset: 25_000 });
    await expectWhole((await a.patch(path, 25_000, picture.subarray(25_000))).mediaId);
    await expectNothingLeft(a);
  });

  it('are stored in segments of bounded size, so no body delays its acknowledgement', async () => {
    const { state, store } = failing();
    const a = await node('a', { store });
    const path = await a.create(null);
    await a.patch(path, 0, picture.subarray(0, 100_000));
    const sizes = (await segmentsNow()).map((key) => Number(/-(\d+)-/.exec(key)?.[1]));
    expect([state.puts, ...sizes]).toEqual([5, ...Array(5).fill(SEGMENT_BYTES)]);
  });

  it('fault 12: are not changed by a body that goes beyond the length', async () => {
    const a = await node('a');
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 30_000));
    const chunked = a.open('PATCH', path, { ...at(30_000), 'transfer-encoding': 'chunked' });
    chunked.send(Buffer.concat([picture.subarray(30_000), Buffer.alloc(50_000)]));
    chunked.end();
    expect(await chunked.answer).toMatchObject({ status: 413, code: 'payload_too_large' });
    expect(await a.head(path)).toMatchObject({ offset: 30_000 });
    const b = await node('b');
    await expectWhole((await b.patch(path, 30_000, picture.subarray(30_000))).mediaId);
  });

  it('fault 18: are requested again if damaged in the store, never accepted', async () => {
    const a = await node('a');
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 20_000));
    await a.patch(path, 20_000, picture.subarray(20_000, 40_000));
    await a.crash();
    const [, second = ''] = (await segmentsNow()).sort();
    const file = join(ingest.root, 'objects', ...second.split('/'));
    await writeFile(file, Buffer.from(picture.subarray(20_000, 40_000)).fill(0, 5, 6));
    const b = await node('b');
    expect(await b.patch(path, 40_000, picture.subarray(40_000))).toMatchObject({
      status: 409,
      code: 'upload_offset_conflict',
    });
    expect(await b.head(path)).toMatchObject({ offset: 20_000 });
    await expectWhole((await b.patch(path, 20_000, picture.subarray(20_000))).mediaId);
  });

  it('are gone if the sender ends the upload or lets it expire', async () => {
    const a = await node('a', { expiryMs: 1000 });
    const ended = await a.create(picture.length);
    await a.patch(ended, 0, picture.subarray(0, 30_000));
    expect(await a.ask('DELETE', ended)).toMatchObject({ status: 204 });
    expect(await segmentsNow()).toEqual([]);
    const left = await a.create(picture.length);
    await a.patch(left, 0, picture.subarray(0, 30_000));
    expect(await segmentsNow()).not.toEqual([]);
    await expect.poll(segmentsNow, { timeout: 15_000 }).toEqual([]);
  });

  it('of an unknown upload are removed by the next node that starts', async () => {
    const bytes = Buffer.from('orphan');
    const id = `upl_${'0'.repeat(26)}`;
    const path = join(ingest.root, 'orphan');
    await writeFile(path, bytes);
    const key = segmentKey({ id, offset: 0, bytes: bytes.length, sha256: sha256(bytes) });
    await ingest.store.put(key, { path, bytes: bytes.length, sha256: sha256(bytes) });
    await node('a');
    expect(await segmentsNow()).toEqual([]);
  });

  it('keep their hash unless other bytes replace hashed ones', async () => {
    const hashing = createFileHashing();
    onTestFinished(() => hashing.stop());
    const at = async (name: string) => {
      const folder = join(ingest.root, name);
      await mkdir(folder);
      const parts = { folder, stagingDir: join(ingest.root, 'staging'), writing: createPieceWriting(), hashing };
      return createStoredUploadFiles({ ...parts, store: ingest.store, logger: createLogger('silent') });
    };
    const [a, b] = [await at('a'), await at('b')];
    const id = `upl_${'1'.repeat(26)}`;
    const put = async (files: typeof a, offset: number, text: string) => {
      const callbacks = { confirm: async () => undefined, onWritten: () => undefined, onReadable: () => undefined };
      const writer = await files.append(id, offset, callbacks);
      await writer.take(Buffer.from(text));
      await writer.commit();
      await writer.close();
    };
    await put(a, 0, 'aaaaa');
    await put(b, 5, 'bbbbb');
    expect(await a.gather(id, 10)).toBe(false);
    // These bytes come from a process taken for dead, whose sender sends different bytes the second time.
    await put(b, 8, 'late');
    expect(await a.gather(id, 12)).toBe(true);
    expect(await readFile(a.pathOf(id), 'utf8')).toBe('aaaaabbblate');
  });

  it('are stored as well if the creation request sends them', async () => {
    const a = await node('a');
    const headers = { ...OFFSET_OCTETS, 'upload-length': String(picture.length) };
    await expectWhole((await a.ask('POST', UPLOADS_PATH, headers, picture)).mediaId);
    await expectNothingLeft(a);
  });
});

describe('the store of shared uploads', () => {
  const counting = () => {
    const lists: string[] = [];
    const list: ObjectStore['list'] = (prefix) => {
      lists.push(prefix);
      return ingest.store.list(prefix);
    };
    return { lists, store: { ...ingest.store, list } };
  };

  it('is listed once a request, and once more to remove the segments', async () => {
    const { lists, store } = counting();
    const a = await node('a', { store });
    const path = await a.create(picture.length);
    for (const [from, to] of [
      [0, 30_000],
      [30_000, 60_000],
    ] as const) {
      lists.length = 0;
      expect(await a.patch(path, from, picture.subarray(from, to))).toMatchObject({ offset: to });
      expect(lists).toHaveLength(1);
    }
    lists.length = 0;
    await expectWhole((await a.patch(path, 60_000, picture.subarray(60_000))).mediaId);
    expect(lists).toHaveLength(2);
  });

  it('is listed anew by each request, because another node may have added bytes', async () => {
    const a = await node('a');
    const b = await node('b');
    const path = await a.create(picture.length);
    await a.patch(path, 0, picture.subarray(0, 30_000));
    await b.patch(path, 30_000, picture.subarray(30_000, 60_000));
    expect(await a.patch(path, 30_000, picture.subarray(30_000, 40_000))).toMatchObject({
      status: 409,
      code: 'upload_offset_conflict',
    });
    expect(await a.head(path)).toMatchObject({ offset: 60_000 });
    await expectWhole((await a.patch(path, 60_000, picture.subarray(60_000))).mediaId);
  });
});

describe('the segments of an upload', () => {
  const segment = (offset: number, bytes: number, text = '') => ({
    ...{ id: 'x', offset, bytes },
    sha256: createHash('sha256').update(`${offset} ${bytes} ${text}`).digest('hex'),
  });

  it('count only up to the first gap', () => {
    expect(bytesOf(chainOf([]))).toBe(0);
    expect(bytesOf(chainOf([segment(10, 5)]))).toBe(0);
    expect(bytesOf(chainOf([segment(10, 5), segment(0, 10), segment(16, 4)]))).toBe(15);
  });

  it('count once if two processes stored the same bytes in different lengths', () => {
    const both = [segment(0, 10), segment(10, 5), segment(10, 16), segment(15, 20), segment(0, 4)];
    const chain = chainOf(both);
    expect(chain.map(({ offset, bytes }) => [offset, bytes])).toEqual([
      [0, 10],
      [10, 16],
      [15, 20],
    ]);
    expect(bytesOf(chain)).toBe(35);
  });
});
