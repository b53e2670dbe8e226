import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from './support/s3-server.ts';

const program = findS3Server();
if (program === null)
  process.stderr.write(`\nSkipped, as ${S3_SERVER} is not on this machine: the S3 server of the tests\n`);

describe.skipIf(program === null)('the S3 server of the tests', () => {
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.stop());

  it('keeps its port and all objects when it is killed', async () => {
    const Bucket = await server.createBucket();
    await server.client.send(new PutObjectCommand({ Bucket, Key: 'a/b', Body: 'kept', Metadata: { sha256: 'x' } }));
    await server.kill9();
    await server.restart();
    const { Body, Metadata } = await server.client.send(
      new GetObjectCommand({ Bucket, Key: 'a/b', Range: 'bytes=1-' }),
    );
    expect(await Body?.transformToString()).toBe('ept');
    expect(Metadata).toEqual({ sha256: 'x' });
    const { Contents } = await server.client.send(new ListObjectsV2Command({ Bucket }));
    expect(Contents?.map(({ Key }) => Key)).toEqual(['a/b']);
  });

  it.each(['a wrong secret', 'somebody else'])('refuses %s', async (who) => {
    const Bucket = await server.createBucket();
    const { endpoint, region, credentials, stranger } = server;
    const client = new S3Client({
      endpoint,
      region,
      forcePathStyle: true,
      credentials: who === 'somebody else' ? stranger : { ...credentials, secretAccessKey: 'guessed' },
    });
    await expect(client.send(new HeadObjectCommand({ Bucket, Key: 'a' }))).rejects.toMatchObject({
      $metadata: { httpStatusCode: 403 },
    });
    client.destroy();
  });
});
