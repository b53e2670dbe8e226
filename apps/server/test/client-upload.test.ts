import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, createFileUploadStore, InvalidRequestError, isApiError } from '@mds/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCuttingProxy } from '../../../packages/client/test/cutting-proxy.ts';
import { freePort } from './support/free-port.ts';
import { noisePng } from './support/pictures.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

const KIB = 1024;
let pictures = 0;

function picture() {
  const bytes = noisePng(`client ${pictures++}`, 960, 720);
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

async function* pieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 70_001) yield bytes.subarray(at, at + 70_001);
}

describe('the client uploads to the service', () => {
  let house: ServiceFixture;
  beforeAll(async () => {
    house = await startService({ MDS_ROLES: 'api' });
  });
  afterAll(() => house?.stop());

  it.each([
    ['bytes', (bytes: Buffer<ArrayBuffer>) => bytes, {}],
    ['a stream of unknown length, in chunks', pieces, { chunkBytes: 500 * KIB }],
    ['a function of unknown length', (bytes: Buffer) => () => pieces(bytes), {}],
  ] as const)('survives a network that is cut repeatedly: %s', async (_, bodyOf, options) => {
    await using network = await startCuttingProxy(house.url, [900 * KIB, 400, 400 * KIB, 400 * KIB]);
    const { bytes, sha256 } = picture();
    const { control } = createClient({ baseUrl: network.url, token: house.token });
    const { media, created } = await control.media.upload(bodyOf(bytes), { filename: 'noise.png', ...options });
    expect(network.cuts()).toBe(4);
    expect([media.sha256, media.bytes, media.filename, created]).toEqual([sha256, bytes.length, 'noise.png', true]);
  });

  it('reports known bytes, and makes a second media object of them on request', async () => {
    const { bytes } = picture();
    const { upload } = house.client.control.media;
    const first = await upload(bytes);
    const second = await upload(bytes);
    const other = await upload(bytes, { duplicate: 'allow' });
    expect([first.created, second.created, other.created]).toEqual([true, false, true]);
    expect(second.media.id).toBe(first.media.id);
    expect(other.media.id).not.toBe(first.media.id);
  });

  it('the same idempotency key always gives the same media object', async () => {
    const { bytes } = picture();
    const options = { duplicate: 'allow', idempotencyKey: 'the very same' } as const;
    const { media } = await house.client.control.media.upload(bytes, options);
    expect((await house.client.control.media.upload(bytes, options)).media.id).toBe(media.id);
  });

  it('a complete upload whose response was lost is found by its resumeKey, not resent', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-client-upload-'));
    try {
      const { bytes } = picture();
      const options = { resumeKey: 'k', resumeStore: createFileUploadStore(folder), maxRetries: 0 };
      await using network = await startCuttingProxy(house.url, []);
      const stop = new AbortController();
      const { upload } = createClient({ baseUrl: network.url, token: house.token }).control.media;
      const first = upload(bytes, {
        ...options,
        signal: stop.signal,
        onProgress: ({ acceptedBytes }) => acceptedBytes === bytes.length && stop.abort(new Error('gone')),
      });
      await expect(first).rejects.toThrow('gone');
      const accepted: number[] = [];
      const { media } = await upload(bytes, {
        ...options,
        onProgress: ({ acceptedBytes }) => accepted.push(acceptedBytes),
      });
      expect(accepted).toEqual([bytes.length]);
      expect(media.bytes).toBe(bytes.length);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('a lost refusal is reported to the next attempt; the one after it starts anew', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-client-upload-'));
    try {
      const store = createFileUploadStore(folder);
      const options = { resumeKey: 'k', resumeStore: { ...store, delete: () => Promise.resolve() } };
      const text = () => Buffer.from('just text, and no picture');
      const { upload } = house.client.control.media;
      await expect(upload(text(), options)).rejects.toMatchObject({ status: 422, code: 'unsupported_format' });
      // It keeps the URL, as if the refusal was lost.
      await expect(upload(text(), { ...options, resumeStore: store })).rejects.toMatchObject({
        status: 410,
        code: 'unsupported_format',
      });
      await expect(upload(text(), options)).rejects.toMatchObject({ status: 422 });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it.each([
    ['text', Buffer.from('just text, and no picture'), {}, 'unsupported_format'],
    ['an empty file', Buffer.alloc(0), {}, 'empty_file'],
    ['a file with another checksum', noisePng('checksum'), { checksum: '0'.repeat(64) }, 'checksum_mismatch'],
  ])('refuses %s with a code', async (_, bytes, options, code) => {
    const error = await house.client.control.media.upload(bytes, options).catch((reason: unknown) => reason);
    if (!isApiError(error)) throw error;
    expect(error.code).toBe(code);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error.problem?.detail).not.toBe('');
  });
});

it('an upload continues after the service is killed and restarted', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mds-client-upload-'));
  const dataDir = join(folder, 'data');
  const env = { MDS_PORT: String(await freePort()), MDS_ROLES: 'api', MDS_CONTROL_TOKEN: 'a-token-for-tests-only' };
  let service: ServiceProcess | undefined = await spawnService({ dataDir, env });
  try {
    const { bytes, sha256 } = picture();
    const file = join(folder, 'noise.png');
    await writeFile(file, bytes);
    let restarted: Promise<ServiceProcess> | undefined;
    const restart = async (killed: ServiceProcess) => {
      await killed.end('SIGKILL');
      return spawnService({ dataDir, env });
    };
    const { media } = await createClient({
      baseUrl: service.url,
      token: service.token || env.MDS_CONTROL_TOKEN,
    }).control.media.upload(
      { bytes: bytes.length, open: (start) => createReadStream(file, { start }) },
      {
        chunkBytes: 256 * KIB,
        // The time of a start on a busy machine.
        maxRetries: 40,
        onProgress: ({ acceptedBytes }) => {
          if (service && acceptedBytes > 700 * KIB) restarted ??= restart(service);
        },
      },
    );
    expect(restarted).toBeDefined();
    expect([media.sha256, media.bytes]).toEqual([sha256, bytes.length]);
    service = await restarted;
  } finally {
    await service?.end('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  }
});
