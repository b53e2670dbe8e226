import { once } from 'node:events';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { UPLOADS_PATH } from '@mds/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { originalKey } from '../src/base/object-key.ts';
import { png } from './support/pictures.ts';
import { get } from './support/points-of-presence.ts';
import type { ServiceProcess } from './support/service-process.ts';
import { describeNodes, type SeveralNodes, startSeveralNodes, tus } from './support/several-nodes.ts';

const BYTES = 3_000_000;

describeNodes('a node whose database and storage belong to different deployments', (bin) => {
  let all: SeveralNodes;
  let right: ServiceProcess;
  let mediaId: string;
  let uploadUrl: string;
  beforeAll(async () => {
    all = await startSeveralNodes(bin);
    right = await all.startApi('right', { MDS_ROLES: 'api,edge,worker' });
    const client = all.clientOf(right);
    mediaId = (await client.control.media.ingest(png(1))).media.id;
    await client.control.media.waitUntilReady(mediaId, { timeoutMs: 60_000 });
    const created = await tus('POST', right.url + UPLOADS_PATH, { 'upload-length': String(2 * BYTES) });
    uploadUrl = new URL(created.headers.get('location') ?? '', right.url).href;
    expect((await tus('PATCH', uploadUrl, { 'upload-offset': '0' }, Buffer.alloc(BYTES))).status).toBe(204);
  }, 120_000);
  afterAll(() => all?.stop());

  /** Everything acknowledged is there, to the last byte. */
  async function isUnharmed(): Promise<void> {
    expect((await tus('HEAD', uploadUrl, {})).headers.get('upload-offset')).toBe(String(BYTES));
    expect((await get(right, `/media/${mediaId}/thumb.webp`)).status).toBe(200);
  }

  const storageOf = (prefix: string) => ({ MDS_STORAGE_URL: `s3://${all.bucket}/${prefix}` });

  it('does not start on the storage of another database, and changes nothing there', async () => {
    const other = { MDS_DATABASE_URL: await all.postgres.createDatabase() };
    // An empty database may be the destination of a move, so a supervisor should restart the node.
    const reason =
      /with 1 [\s\S]*belongs to another deployment[\s\S]* is being moved here: .*starts when the move is done/;
    await expect(all.startApi('other', other)).rejects.toThrow(reason);
    await isUnharmed();
  });

  it('does not start, as an api or as a worker, on a storage without the objects of its database', async () => {
    await expect(all.startApi('mistyped', storageOf('mideia'))).rejects.toThrow(/with 2 [\s\S]*has no objects/);
    const worker = await all.startWorker('mistyped worker', storageOf('mideia'));
    await expect.poll(() => worker.child.exitCode, { timeout: 30_000 }).toBe(2);
    expect(worker.stderr()).toContain(`The storage s3://${all.bucket}/mideia has no objects`);
    await isUnharmed();
  });

  it('does not begin a new deployment in a storage that has objects', async () => {
    const Key = `copied/${originalKey('ab'.repeat(32))}`;
    await all.s3.client.send(new PutObjectCommand({ Bucket: all.bucket, Key, Body: 'somebody’s' }));
    const begun = { MDS_DATABASE_URL: await all.postgres.createDatabase(), ...storageOf('copied') };
    await expect(all.startApi('begun', begun)).rejects.toThrow(/with 2 [\s\S]*has objects already/);
  });

  it('starts while the storage is down; later it continues, or exits if it is wrong', async () => {
    await all.s3.kill9();
    const [late, mistyped, worker] = await Promise.all([
      all.startApi('late'),
      all.startApi('late and mistyped', storageOf('mideia')),
      all.startWorker('late worker'),
    ]);
    const client = all.clientOf(late);
    await expect(client.control.media.ingest(png(2))).rejects.toMatchObject({ code: 'unavailable' });
    await all.s3.restart();
    const [code] = await ended(mistyped);
    expect(code).toBe(2);
    expect(mistyped.stderr()).toContain('has no objects');
    await expect.poll(() => client.control.media.ingest(png(2)).catch(() => null), { timeout: 30_000 }).not.toBeNull();
    expect([late.child.exitCode, worker.child.exitCode]).toEqual([null, null]);
    await isUnharmed();
  });
});

async function ended({ child }: ServiceProcess): Promise<[number | null]> {
  if (child.exitCode === null) await once(child, 'exit');
  return [child.exitCode];
}
