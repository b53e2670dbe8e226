import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createClient } from '@mds/client';
import { expect, it, onTestFinished } from 'vitest';
import { startCuttingProxy } from '../../../packages/client/test/cutting-proxy.ts';
import { originalKey } from '../src/base/object-key.ts';
import { hashStream } from '../src/storage/hash-stream.ts';
import { areBackendsRemote, openStoreOf } from './support/backends.ts';
import { seededRandom } from './support/seeded-random.ts';
import { spawnService } from './support/service-process.ts';
import { waveHeader } from './support/wave.ts';

const MIB = 1024 * 1024;
/** `MDS_TEST_UPLOAD_MIB=1024 npm test -- apps/server/test/upload-bad-link.test.ts` for the long version. */
const SIZE_MIB = Number(process.env['MDS_TEST_UPLOAD_MIB'] ?? 64);
const CUTS = 20;
/**
 * This link is as fast as memory. While the service asks a remote database and store before it reads a body, megabytes are in flight, and
 * lost with a cut: they had not arrived.
 */
const [RETRIES, MOST_CUTS_A_STEP] = areBackendsRemote ? [CUTS, 5] : [undefined, 2];

/** Noise as audio. */
function* wave(mib: number): Generator<Buffer> {
  const random = seededRandom(20_261_122);
  const head = waveHeader({ channels: 2, sampleRate: 96_000, fileBytes: mib * MIB });
  yield head;
  for (let left = mib * MIB - head.length; left > 0; left -= MIB) {
    const noise = Buffer.alloc(Math.min(MIB, left));
    // All pieces differ, so that none can be mistaken for another.
    for (let at = 0; at + 4 <= noise.length; at += 4) noise.writeUInt32LE(Math.floor(random() * 2 ** 32), at);
    yield noise;
  }
}

it(
  `${SIZE_MIB} MiB arrive byte-exact over ${CUTS} cuts, and no byte is sent twice`,
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-bad-link-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const path = join(folder, 'noise.wav');
    await pipeline(Readable.from(wave(SIZE_MIB)), createWriteStream(path));
    const sha256 = await hashStream(createReadStream(path));
    const dataDir = join(folder, 'data');
    const service = await spawnService({ dataDir, built: true, env: { MDS_ROLES: 'api' } });
    onTestFinished(() => service.end('SIGTERM').then(() => undefined));

    // Anywhere, including the first and the last bytes.
    const random = seededRandom(7);
    const cuts = Array.from({ length: CUTS }, () => Math.floor(((random() * SIZE_MIB) / CUTS) * 1.6 * MIB));
    await using link = await startCuttingProxy(service.url, cuts);
    const { upload } = createClient({ baseUrl: link.url, token: service.token }).control.media;
    let [accepted, steps] = [0, 0];
    const { media, created } = await upload(
      { bytes: SIZE_MIB * MIB, open: (start) => createReadStream(path, { start }) },
      {
        filename: 'noise.wav',
        checksum: sha256,
        maxRetries: RETRIES,
        onProgress({ acceptedBytes }) {
          expect(acceptedBytes).toBeGreaterThanOrEqual(accepted);
          if (acceptedBytes > accepted) steps += 1;
          accepted = acceptedBytes;
        },
      },
    );
    console.log(`${SIZE_MIB} MiB over a link that was cut ${link.cuts()} times`);
    expect(link.cuts()).toBeGreaterThanOrEqual(CUTS - 1);
    expect(steps).toBeGreaterThan(CUTS / MOST_CUTS_A_STEP);
    expect([created, media.sha256, media.bytes]).toEqual([true, sha256, SIZE_MIB * MIB]);
    await using store = await openStoreOf(dataDir);
    const stored = await store.read(originalKey(sha256));
    expect(stored && (await hashStream(stored.stream))).toBe(sha256);
  },
  60_000 + SIZE_MIB * 1_000,
);
