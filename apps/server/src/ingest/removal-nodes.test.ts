import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEngine } from '@mds/transcode';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { seededRandom } from '../../test/support/seeded-random.ts';
import { silentProxy } from '../../test/support/silent-proxy.ts';
import { originalKey, renditionKey } from '../base/object-key.ts';
import { createPostgresKeyedLock } from '../db/postgres/keyed-lock.ts';
import { describeOverPostgres, silent } from '../db/postgres/postgres.fixture.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { input, sha256 } from './ingest.fixture.ts';
import { createIngest } from './ingest.ts';
import { createMediaRemoval } from './media-removal.ts';
import { createPieceWriting } from './piece-writing.ts';
import { createRemovalSweep } from './removal-sweep.ts';
import { createStagingSpace } from './staging-space.ts';

const ROUNDS = 40;

describeOverPostgres('nodes that ingest, delete and sweep the same bytes', (fixture) => {
  const engine = createEngine();
  afterAll(() => engine.stop());

  /** Parts of a node over the test's database and a store that all nodes share. */
  const makeNode = async (root: string, store: ObjectStore, lockUrl = fixture.url) => {
    const repositories = await fixture.open();
    const lock = createPostgresKeyedLock({
      ...{ connection: { connectionString: lockUrl, application_name: new URL(lockUrl).host }, logger: silent },
      // Gives up after one second of silence instead of five.
      timing: { beatMs: 200, lateMs: 100, silentBeats: 5 },
    });
    onTestFinished(() => lock.close());
    const stagingDir = await mkdtemp(join(root, 'staging-'));
    const shared = { ...repositories, store, lock, logger: silent };
    return {
      ...{ repositories, lock },
      ingest: createIngest({
        ...{ ...shared, engine, stagingDir, maxUploadBytes: 1_000_000, writing: createPieceWriting() },
        space: createStagingSpace({ folder: stagingDir, maxBytes: 0, minFreeBytes: 0 }),
        onAccepted: () => undefined,
      }),
      removal: createMediaRemoval({ ...shared, onRemoved: () => undefined }),
      sweep: createRemovalSweep({ ...shared, isMoving: () => false, settledMs: 0 }),
    };
  };

  /** A folder for nodes, and the store that they share. */
  const makeStore = async () => {
    const root = await mkdtemp(join(tmpdir(), 'mds-removal-nodes-'));
    onTestFinished(() => rm(root, { recursive: true }));
    await mkdir(join(root, 'objects'));
    return { root, store: createLocalObjectStore({ root: join(root, 'objects') }) };
  };

  /** A failover: the new server knows no locks, and a node whose locks use this line is not notified. */
  const makeLine = async () => {
    const proxy = await silentProxy(fixture.url);
    onTestFinished(() => proxy.stop());
    return {
      url: proxy.url,
      async takeOver() {
        proxy.goSilent();
        const gone = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1';
        expect(await fixture.rows(gone, [new URL(proxy.url).host])).toHaveLength(1);
      },
    };
  };

  it('remove nothing of an acknowledged media object after a deletion lost its lock', async () => {
    const [{ root, store }, line] = [await makeStore(), await makeLine()];
    const other = await makeNode(root, store);
    const picture = noisePng('a');
    const { media: old } = await other.ingest.ingest(input(picture));
    let again: string | undefined;
    const cutOff = await makeNode(root, store, line.url);
    const removal = createMediaRemoval({
      ...{ store, lock: cutOff.lock, logger: silent, onRemoved: () => undefined },
      media: {
        ...cutOff.repositories.media,
        async isReferenced(key) {
          const is = await cutOff.repositories.media.isReferenced(key);
          await line.takeOver();
          again = (await other.ingest.ingest(input(picture))).media.id;
          return is;
        },
      },
    });
    expect(await removal.remove(old.id)).toBe(true);
    expect((await other.repositories.media.find(again ?? ''))?.status).toBe('queued');
    expect(await store.stat(originalKey(sha256(picture)))).toEqual({ bytes: picture.length });
  });

  it('acknowledge no media object whose original another node has removed', async () => {
    const [{ root, store }, line] = [await makeStore(), await makeLine()];
    const other = await makeNode(root, store);
    const picture = noisePng('a');
    const key = originalKey(sha256(picture));
    const { media: old } = await other.ingest.ingest(input(picture));
    await other.removal.remove(old.id);
    const cutOff = await makeNode(
      root,
      {
        ...store,
        async put(...put) {
          await store.put(...put);
          await line.takeOver();
          await other.sweep.sweep('settled');
        },
      },
      line.url,
    );
    await expect(cutOff.ingest.ingest(input(picture))).rejects.toMatchObject({ code: 'unavailable' });
    expect(await store.stat(key)).toBeNull();
  });

  it('never lose an original in use, and leave none without a media object', async () => {
    const { root, store: local } = await makeStore();
    const random = seededRandom(20_261_122);
    const someTime = () => sleep(random() * 15);
    // Each step is as slow as over a network, in another order each time.
    const store: ObjectStore = {
      ...local,
      async put(key, file) {
        await someTime();
        await local.put(key, file);
        await someTime();
      },
      async delete(key) {
        await someTime();
        await someTime();
        await someTime();
        await local.delete(key);
      },
    };
    const nodes = await Promise.all([1, 2, 3].map(() => makeNode(root, store)));
    const nodeOf = () => nodes[Math.floor(random() * nodes.length)] as (typeof nodes)[number];
    const picture = noisePng('a');
    const original = originalKey(sha256(picture));
    const thumb = renditionKey({
      sourceSha256: sha256(picture),
      name: 'thumb',
      revision: '0000000a',
      extension: 'webp',
    });
    const { media } = nodeOf().repositories;
    let survived = 0;

    for (let round = 0; round < ROUNDS; round++) {
      const first = await nodeOf().ingest.ingest(input(picture));
      const rendition = join(root, 'rendition');
      await writeFile(rendition, 'rendition');
      await local.put(thumb, { path: rendition, bytes: 9, sha256: '' });
      // Every other deletion stops after the row; then only a sweep can remove its objects.
      if (random() < 0.5) await media.delete(first.media.id);
      const [again] = await Promise.all([
        someTime().then(() => nodeOf().ingest.ingest(input(picture))),
        someTime().then(() => nodeOf().removal.remove(first.media.id)),
        ...nodes.map((node) => someTime().then(() => node.sweep.sweep('settled'))),
      ]);
      const isThere = (await media.find(again.media.id)) !== null;
      survived += isThere ? 1 : 0;
      if (isThere) expect(await local.stat(original), `round ${round}`).toEqual({ bytes: picture.length });
      if (isThere) await nodeOf().removal.remove(again.media.id);
      await nodeOf().sweep.sweep('settled');
      const left: string[] = [];
      for await (const { key } of local.list('')) left.push(key);
      expect(left, `round ${round}`).toEqual([]);
    }
    expect(survived).toBeGreaterThan(0);
    const all = await nodeOf().repositories.contentRemovals.page({ untilMs: null, after: null, limit: 10 });
    expect(all).toEqual([]);
  }, 120_000);
});
