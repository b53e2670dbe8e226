import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ulid } from 'ulid';
import { onTestFinished } from 'vitest';
import { originalKey, renditionKey } from '../base/object-key.ts';
import type { NewRendition } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';

const REVISION = '0a1b2c3d';

/** An embedded deployment with its database and store open, as a running service has them. */
export interface Deployment {
  folder: string;
  databaseFile: string;
  objectsDir: string;
  repositories: Repositories;
  store: ObjectStore;
  /** Adds ready media with an original and two renditions each. @returns their ids, oldest first */
  addMedia(count: number, filename?: string): Promise<string[]>;
  /** Adds a media object that a worker is processing. */
  addHeld(): Promise<string>;
}

/** Creates an empty deployment. The end of the test deletes it. */
export async function makeDeployment(): Promise<Deployment> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-migration-'));
  const databaseFile = join(folder, 'mds.sqlite');
  const objectsDir = join(folder, 'objects');
  const repositories = openSqliteRepositories(databaseFile);
  const store = createLocalObjectStore({ root: objectsDir });
  onTestFinished(async () => {
    await repositories.close();
    await rm(folder, { recursive: true });
  });
  return {
    ...{ folder, databaseFile, objectsDir, repositories, store },
    async addMedia(count, filename = 'photo.jpg') {
      const ids: string[] = [];
      for (let n = 0; n < count; n += 1) ids.push(await addMedia({ folder, repositories, store }, filename));
      return ids;
    },
    addHeld: () => addMedia({ folder, repositories, store }, 'held.jpg', { held: true }),
  };
}

/** Creates a folder. The end of the test deletes it. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-migration-to-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

type Place = Pick<Deployment, 'folder' | 'repositories' | 'store'>;

/** Adds a media object through the repositories and the store of the service, without decoding. */
async function addMedia(
  { folder, repositories, store }: Place,
  filename: string,
  { held = false } = {},
): Promise<string> {
  const put = async (key: (sha256: string) => string, bytes: number) => {
    const content = randomBytes(bytes);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const path = join(folder, ulid());
    await writeFile(path, content);
    const objectKey = key(sha256);
    await store.put(objectKey, { path, bytes, sha256 });
    return { objectKey, sha256, bytes };
  };
  const id = `med_${ulid().toLowerCase()}`;
  const { sha256, bytes } = await put(originalKey, 4000);
  await repositories.media.accept(
    {
      ...{ id, projectId: 'default', createdAtMs: Date.now(), contentType: 'image/jpeg', bytes },
      ...{ width: 4000, height: 3000, filename, sha256, kind: 'image', format: 'jpeg' },
      ...{ durationMs: null, codecs: ['jpeg'], warnings: [], identified: { orientation: 1, note: '\u0000"é' } },
    },
    { duplicate: 'existing', idempotencyKey: null },
  );
  const lease = await repositories.jobs.claim('fixture');
  if (lease?.mediaId !== id) throw new Error('The queue held another media object.');
  if (held) return id;
  const pending = ['thumb', 'small'].map((name): NewRendition => {
    const objectKey = renditionKey({ sourceSha256: sha256, name, revision: REVISION, extension: 'webp' });
    return {
      ...{ name, extension: 'webp', contentType: 'image/webp', revision: REVISION, current: true, state: 'pending' },
      ...{ reason: null, objectKey, sha256: null, bytes: null, files: null, width: 320, height: 200 },
    };
  });
  await repositories.media.start(lease, pending);
  const ready: (NewRendition & { objectKey: string; sha256: string; bytes: number })[] = [];
  for (const row of pending) {
    ready.push({ ...row, state: 'ready', files: 1, ...(await put(() => row.objectKey ?? '', 1500)) });
  }
  await repositories.media.publish(lease, { renditions: ready, thumbhash: 'c2FtcGxl', warnings: [] });
  return id;
}
