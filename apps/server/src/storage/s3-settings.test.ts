import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DeleteBucketCommand } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { someBytes, useS3Server, withoutS3Server } from './s3.fixture.ts';

/** All text of an error, with its causes, properties and stacks. */
function allOf(error: unknown): string {
  const seen: string[] = [];
  for (let each = error as { cause?: unknown } | undefined; each; each = each.cause as typeof each) {
    seen.push(String(each), JSON.stringify(Object.entries(each)), String((each as Error).stack));
  }
  return seen.join('\n');
}

describe.skipIf(withoutS3Server('settings of S3'))('a misconfigured object storage', () => {
  const s3 = useS3Server();

  it.each([
    ['a wrong secret', 'The access key or its secret is wrong.'],
    ['an unknown access key', 'The access key or its secret is wrong.'],
    ['somebody without rights', 's3:PutObject'],
    ['no such bucket', 'There is no such bucket. Make it'],
  ])('%s: the start fails with the remedy', async (which, remedy) => {
    const bench = await s3.bench();
    const { region, credentials, stranger } = s3.server;
    const wrong = {
      'a wrong secret': { ...credentials, secretAccessKey: 'guessed-secret' },
      'an unknown access key': { ...credentials, accessKeyId: 'test:nobody' },
      'somebody without rights': stranger,
    }[which];
    const opening = bench.open({
      ...(wrong && { access: { region, credentials: wrong } }),
      ...(which === 'no such bucket' && { url: 's3://there-is-none' }),
    });
    const error = await opening.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'ObjectStorageError', message: expect.stringContaining(remedy) });
    for (const secret of [credentials.secretAccessKey, stranger.secretAccessKey, 'guessed-secret', 'AWS4-HMAC']) {
      expect(allOf(error)).not.toContain(secret);
    }
  });

  it('does not prevent the start if it does not answer yet, and fails its probe', async () => {
    const bench = await s3.bench();
    const store = await bench.open({ endpoint: `http://127.0.0.1:${await freePort()}`, limits: { attempts: 2 } });
    await expect(store.probe()).rejects.toMatchObject({ code: 'unavailable' });
    expect(bench.log.join()).toContain('does not answer yet');
  });

  it('a removed bucket is never reported as missing objects', async () => {
    const bench = await s3.bench();
    expect(await bench.store.stat('a/object')).toBeNull();
    bench.proxy.spoil = () => ({ answer: 503, code: 'SlowDown' });
    const unsure = await bench.open({ limits: { attempts: 1 } });
    bench.proxy.spoil = () => undefined;
    await s3.server.client.send(new DeleteBucketCommand({ Bucket: bench.bucket }));
    await expect(bench.store.read('a/object')).rejects.toMatchObject({ code: 'unavailable' });
    await expect(bench.store.readAll('a/object')).rejects.toMatchObject({ code: 'unavailable' });
    // The answer to a HEAD does not show whether the bucket or the object is missing.
    await expect(unsure.stat('a/object')).rejects.toMatchObject({ code: 'unavailable' });
    await expect(unsure.put('a/object', await bench.staged(someBytes(10)))).rejects.toMatchObject({
      code: 'unavailable',
    });
    expect(bench.log.join()).toContain('There is no such bucket');
  });

  it('a refusal without a reason, as to a HEAD, is reported as a lack of permissions', async () => {
    const bench = await s3.bench();
    bench.proxy.spoil = ({ method }) => (method === 'HEAD' ? { answer: 403, code: 'AccessDenied' } : undefined);
    await expect(bench.store.stat('a/object')).rejects.toMatchObject({ code: 'unavailable' });
    expect(bench.log.join()).toContain('s3:ListBucket');
  });

  it('a later refusal is logged with its remedy and answered without details', async () => {
    const bench = await s3.bench();
    bench.proxy.spoil = () => ({ answer: 403, code: 'InvalidAccessKeyId' });
    const refusal = await bench.store.readAll('a/object').catch((error: Error) => error);
    expect(refusal).toMatchObject({ code: 'unavailable', headers: { 'Retry-After': '60' } });
    expect(String(refusal)).not.toContain(bench.bucket);
    expect(bench.log.filter((line) => line.includes('AWS_ACCESS_KEY_ID'))).toHaveLength(1);
    await bench.store.readAll('a/object').catch(() => undefined);
    expect(bench.log.filter((line) => line.includes('AWS_ACCESS_KEY_ID'))).toHaveLength(1);
  });
});

describe('a service without S3', () => {
  it('does not load the AWS SDK', async () => {
    const module = new URL('s3-object-store.ts', import.meta.url).href;
    const script = `await import(${JSON.stringify(module)});
      const { createRequire } = await import('node:module');
      const loaded = Object.keys(createRequire(import.meta.url).cache).filter((path) => path.includes('@aws-sdk'));
      console.log(JSON.stringify(loaded));`;
    const args = ['--conditions=@mds/source', '--import', 'tsx', '--input-type=module', '-e', script];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
    });
    expect(stdout.trim().split('\n').at(-1)).toBe('[]');
  });
});
