import { tmpdir } from 'node:os';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createLogger } from '../src/base/logger.ts';
import { originalKey } from '../src/base/object-key.ts';
import { parseS3Url } from '../src/storage/s3-location.ts';
import { openS3ObjectStore } from '../src/storage/s3-object-store.ts';
import { freePort } from './support/free-port.ts';
import { describeMoves, type MoveServers, startMoveServers } from './support/migrate-servers.ts';
import { POSTGRES_PASSWORD } from './support/postgres-server.ts';

describeMoves('a move to an unusable destination', (bin) => {
  let servers: MoveServers;
  beforeEach(async () => {
    servers = await startMoveServers(bin);
  });
  afterEach(() => servers.stop());

  it('is refused before anything is copied, with the reason and without a secret', async () => {
    const service = await servers.start('old');
    const { migrations } = createClient({ baseUrl: service.url, token: service.token, maxRetries: 0 }).control;
    const { database, storage } = await servers.createDestination();
    const { endpoint } = servers.s3;
    const nobody = await freePort();
    const refusals = [
      [{ database: database.replace(/:\d+\//, `:${nobody}/`) }, /cannot be written: .*ECONNREFUSED/],
      [{ database: database.replace(POSTGRES_PASSWORD, 'another-word') }, /password authentication failed/],
      [{ database: `${database}_of_nobody` }, /database "mds_1_of_nobody" does not exist/],
      [{ storage: 's3://no-such-bucket/media' }, /bucket/i],
      [
        { endpoint: `http://127.0.0.1:${nobody}` },
        new RegExp(`The destination s3://.* at http://127.0.0.1:${nobody}/ does not answer .*ECONNREFUSED`),
      ],
      [{ storage: await ofAnother(servers) }, /objects of another deployment/],
    ] as const;
    const errors: string[] = [];
    for (const [wrong] of refusals) {
      const to = { database, storage, endpoint, ...wrong };
      const where = { database_url: to.database, storage_url: to.storage, s3_endpoint: to.endpoint };
      const error = await migrations.begin(where).then(
        () => 'It was begun.',
        (reason: Error) => reason.message,
      );
      errors.push(error);
    }
    expect(errors).toEqual(refusals.map(([, message]) => expect.stringMatching(message)));
    expect(errors.join('\n')).not.toMatch(new RegExp(`${POSTGRES_PASSWORD}|another-word`));
    await expect(migrations.current()).rejects.toMatchObject({ code: 'not_found' });

    const stranger = await servers.start('of-a-stranger', {
      AWS_ACCESS_KEY_ID: servers.s3.stranger.accessKeyId,
      AWS_SECRET_ACCESS_KEY: servers.s3.stranger.secretAccessKey,
    });
    const { code, stderr } = await servers.migrateTo(stranger, { database, storage }).done;
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/The destination cannot be used\. .*(key|credentials|allow)/i),
    ]);
  });
});

/** @returns a storage that another deployment has its objects in */
async function ofAnother({ s3, createDestination }: MoveServers): Promise<string> {
  const { storage } = await createDestination();
  const store = await openS3ObjectStore({
    ...{ url: storage, endpoint: s3.endpoint, access: s3.access, scratchDir: tmpdir(), logger: createLogger('silent') },
  });
  await store.owner.write('dep_another');
  store.close();
  const { bucket, prefix } = parseS3Url(storage);
  await s3.client.send(
    new PutObjectCommand({ Bucket: bucket, Key: prefix + originalKey('ab'.repeat(32)), Body: 'theirs' }),
  );
  return storage;
}
