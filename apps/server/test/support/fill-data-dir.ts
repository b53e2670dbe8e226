import { createCipheriv, createHash } from 'node:crypto';
import { link, mkdir, open, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { buildDeliveryPath } from '@mds/contract';
import { ulid } from 'ulid';
import { renditionKey } from '../../src/base/object-key.ts';
import type { NewMedia, NewRendition } from '../../src/db/media-repository.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { hashFile } from '../../src/processing/hash-file.ts';
import type { ObjectStore } from '../../src/storage/object-store.ts';
import { areBackendsRemote, openRepositoriesOf, openStoreOf, ownBackends } from './backends.ts';
import { beginWithKnownFormats } from './known-formats.ts';

/** A rendition for a data folder, and the seed of its bytes. */
export interface RenditionToStore {
  name: string;
  extension: string;
  contentType: string;
  bytes: number;
  seed: string;
}

/** A rendition that a service on the folder delivers. */
export interface StoredRendition {
  /** Delivery path of the current revision. */
  path: string;
  /** The file below the data folder; a copy of it if the service has a remote store. */
  file: string;
  bytes: number;
  /** Lower-case hex. */
  sha256: string;
  contentType: string;
}

const REVISION = '0a1b2c3d';
/** A remote store takes some time for each. */
const STORED_AT_ONCE = 8;
const WRITE_BYTES = 1024 * 1024;
/** AES in counter mode has blocks of so many bytes, so that any position can be computed. */
const AES_BLOCK_BYTES = 16;

/** The bytes from `start` on of the content with this seed: incompressible, without repetition. */
export function contentAt(seed: string, start: number, length: number): Buffer {
  const key = createHash('sha256').update(seed).digest().subarray(0, AES_BLOCK_BYTES);
  const counter = Buffer.alloc(AES_BLOCK_BYTES);
  counter.writeBigUInt64BE(BigInt(Math.floor(start / AES_BLOCK_BYTES)), 8);
  const skipped = start % AES_BLOCK_BYTES;
  const cipher = createCipheriv('aes-128-ctr', key, counter);
  return cipher.update(Buffer.alloc(skipped + length)).subarray(skipped);
}

/**
 * Adds media with ready renditions to a data folder that no service has open, by the service's own repositories and store. The files have
 * the time that is delivered as `Last-Modified`.
 * @returns the renditions, in the order given
 */
export async function fillDataDir(
  dataDir: string,
  media: readonly { renditions: readonly RenditionToStore[] }[],
): Promise<StoredRendition[]> {
  await mkdir(dataDir, { recursive: true });
  await beginWithKnownFormats(dataDir, await ownBackends(dataDir));
  const repositories = await openRepositoriesOf(dataDir);
  await using store = await openStoreOf(dataDir);
  try {
    const stored: StoredRendition[] = [];
    for (const { renditions } of media) stored.push(...(await addMedia(dataDir, repositories, store, renditions)));
    return stored;
  } finally {
    await repositories.close();
  }
}

async function addMedia(
  dataDir: string,
  repositories: Repositories,
  store: ObjectStore,
  renditions: readonly RenditionToStore[],
): Promise<StoredRendition[]> {
  const id = `med_${ulid().toLowerCase()}`;
  const sourceSha256 = createHash('sha256').update(id).digest('hex');
  await repositories.media.accept(newMedia(id, sourceSha256), { duplicate: 'existing', idempotencyKey: null });
  const lease = await repositories.jobs.claim('fixture');
  if (lease?.mediaId !== id) throw new Error('The queue held another media object.');
  const pending = renditions.map(({ name, extension, contentType }): NewRendition => {
    const objectKey = renditionKey({ sourceSha256, name, revision: REVISION, extension });
    return {
      ...{ name, extension, contentType, revision: REVISION, current: true, state: 'pending', reason: null },
      ...{ objectKey, sha256: null, bytes: null, files: null, width: 320, height: 200 },
    };
  });
  await repositories.media.start(lease, pending);
  const putOne = async ({ bytes, seed }: RenditionToStore, row: NewRendition | undefined) => {
    if (!row?.objectKey) throw new Error('A rendition has no key.');
    const { objectKey } = row;
    const staged = join(dataDir, `${ulid()}.staged`);
    await writeContent(staged, seed, bytes);
    const { sha256, pieces } = await hashFile(staged);
    if (pieces !== null) await repositories.pieceDigests.put(sha256, pieces);
    if (areBackendsRemote) {
      const copy = join(dataDir, fileOf(objectKey));
      await mkdir(dirname(copy), { recursive: true });
      await link(staged, copy);
    }
    await store.put(objectKey, { path: staged, bytes, sha256 });
    return { ...row, state: 'ready' as const, objectKey, sha256, bytes, files: 1 };
  };
  const ready: Awaited<ReturnType<typeof putOne>>[] = [];
  for (let from = 0; from < renditions.length; from += STORED_AT_ONCE) {
    const some = renditions.slice(from, from + STORED_AT_ONCE);
    ready.push(...(await Promise.all(some.map((rendition, index) => putOne(rendition, pending[from + index])))));
  }
  await repositories.media.publish(lease, { renditions: ready, thumbhash: null, warnings: [] });
  const updatedAtS = Math.floor(((await repositories.media.renditions(id))[0]?.updatedAtMs ?? 0) / 1000);
  return Promise.all(
    ready.map(async ({ name, extension, objectKey, sha256, bytes, contentType }) => {
      const file = fileOf(objectKey);
      await utimes(join(dataDir, file), updatedAtS, updatedAtS);
      const path = buildDeliveryPath({ kind: 'rendition', id, name, extension, revision: null });
      return { path, file, bytes, sha256, contentType };
    }),
  );
}

function fileOf(objectKey: string): string {
  return join('objects', objectKey);
}

async function writeContent(path: string, seed: string, bytes: number): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    for (let at = 0; at < bytes; at += WRITE_BYTES) {
      await handle.write(contentAt(seed, at, Math.min(WRITE_BYTES, bytes - at)));
    }
  } finally {
    await handle.close();
  }
}

function newMedia(id: string, sha256: string): NewMedia {
  return {
    ...{ id, projectId: 'default', createdAtMs: Date.now(), contentType: 'image/jpeg', bytes: 1000 },
    ...{ width: 4000, height: 3000, filename: 'photo.jpg', sha256, kind: 'image', format: 'jpeg' },
    ...{ durationMs: null, codecs: ['jpeg'], warnings: [], identified: {} },
  };
}
