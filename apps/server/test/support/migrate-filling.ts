import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { ulid } from 'ulid';
import { originalKey, renditionKey } from '../../src/base/object-key.ts';
import type { NewRendition } from '../../src/db/media-repository.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { createLocalObjectStore } from '../../src/storage/local-object-store.ts';
import type { ObjectStore } from '../../src/storage/object-store.ts';
import { png } from './pictures.ts';
import { spawnService } from './service-process.ts';

/** So many go through the API, which takes about ten times as long as to write the rows. */
const THROUGH_API = 40;
const AT_ONCE = 8;

/**
 * Fills the data folder of an embedded deployment with ready media, each with one original and one rendition: some by the API of a service,
 * the rest by the service's repositories and store.
 * @returns the ids, oldest first
 */
export async function fillForMove(
  dataDir: string,
  count: number,
  env: Record<string, string>,
  { throughApi = THROUGH_API } = {},
): Promise<string[]> {
  const service = await spawnService({ dataDir, env });
  const ids: string[] = [];
  try {
    const client = createClient({ baseUrl: service.url, token: service.token });
    const real = Math.min(count, throughApi);
    let next = 0;
    const ingest = async () => {
      while (next < real) {
        const { media } = await client.control.media.ingest(png(next++));
        await client.control.media.waitUntilReady(media.id, { timeoutMs: 300_000 });
        ids.push(media.id);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, ingest));
  } finally {
    await service.end('SIGTERM');
  }
  ids.sort();
  const repositories = openSqliteRepositories(join(dataDir, 'mds.sqlite'));
  try {
    const store = createLocalObjectStore({ root: join(dataDir, 'objects') });
    const add = await adder({ dataDir, repositories, store, like: ids[0] ?? '' });
    for (let n = ids.length; n < count; n += 1) ids.push(await add(n));
  } finally {
    await repositories.close();
  }
  return ids;
}

/** Adds media that differ from one of the service only in their bytes. */
async function adder(parts: { dataDir: string; repositories: Repositories; store: ObjectStore; like: string }) {
  const { dataDir, repositories, store, like } = parts;
  const model = await repositories.media.find(like);
  const [rendition] = await repositories.media.renditions(like);
  const rendered = rendition?.objectKey ? await store.readAll(rendition.objectKey) : null;
  if (model === null || rendition === undefined || rendered === null)
    throw new Error('There is no media object to go by.');
  const { status: _status, failure: _failure, attempts: _attempts, thumbhash, ...known } = model;
  const { mediaId: _of, updatedAtMs: _at, ...made } = rendition;
  const staged = join(dataDir, 'staged-by-the-test');

  const put = async (keyOf: (sha256: string) => string, content: Buffer) => {
    const sha256 = createHash('sha256').update(content).digest('hex');
    const objectKey = keyOf(sha256);
    await writeFile(staged, content);
    await store.put(objectKey, { path: staged, bytes: content.length, sha256 });
    return { objectKey, sha256, bytes: content.length };
  };

  return async (seed: number): Promise<string> => {
    const id = `med_${ulid().toLowerCase()}`;
    const { sha256, bytes } = await put(originalKey, png(seed));
    const mediaObject = { ...known, id, createdAtMs: Date.now(), filename: `picture-${seed}.png`, sha256, bytes };
    await repositories.media.accept(mediaObject, { duplicate: 'existing', idempotencyKey: null });
    const lease = await repositories.jobs.claim('fixture');
    if (lease?.mediaId !== id) throw new Error('The queue held another media object.');
    const { name, revision, extension } = made;
    const objectKey = renditionKey({ sourceSha256: sha256, name, revision, extension });
    const pending: NewRendition = { ...made, objectKey, state: 'pending', sha256: null, bytes: null, files: null };
    await repositories.media.start(lease, [pending]);
    const object = await put(() => objectKey, commented(rendered, `picture ${seed}`));
    const renditions = [{ ...pending, ...object, state: 'ready' as const, files: 1 }];
    await repositories.media.publish(lease, { renditions, thumbhash, warnings: [] });
    return id;
  };
}

/** A WebP with an extra chunk, which decoders ignore: the same picture in other bytes (RFC 9649, section 2.7.1.6). */
function commented(webp: Buffer, text: string): Buffer {
  const body = Buffer.from(text.padEnd(text.length + (text.length % 2)));
  const header = Buffer.alloc(8);
  header.write('note', 'latin1');
  header.writeUInt32LE(body.length, 4);
  const whole = Buffer.concat([webp, header, body]);
  whole.writeUInt32LE(whole.length - 8, 4);
  return whole;
}
