import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { noisePng } from '../../apps/server/test/support/pictures.ts';
import { waveHeader } from '../../apps/server/test/support/wave.ts';
import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { sendFiles } from '../service/send-files.ts';
import { builtService, type RunningService, startService } from '../service/start-service.ts';
import { type TusEndpoint, uploadOverTus } from '../service/tus-upload.ts';
import type { CopyRequest } from '../sides/write-hash-sync.ts';
import { ratioOf } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const MIB = 1024 * 1024;
/** Files that are sent at once, on both sides. */
const PARALLEL = 8;

export default defineBenchmark({
  name: 'ingest',
  what: 'one file of 1 GiB by resumable upload; 1,000 files of 100 KB, each in one request',
  against:
    '@tus/server with its file store alone, which does not sync, hash or identify; a program of eight threads that writes, hashes and syncs each file',
  goals: {
    resumable: { says: 'one large file: our rate, relative to the file store', atLeast: 0.7 },
    small: { says: 'small files: our rate, relative to the eight threads', atLeast: 0.7 },
  },
  needs: [builtService],
  async run({ rounds, quick, progress }) {
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-ingest-'));
    // No worker: other benchmarks measure processing.
    const service = await startService(join(scratch, 'data'), { MDS_ROLES: 'api' });
    const peer = await openFileStore(join(scratch, 'files'));
    const threads = await openWriteHashSync();
    try {
      const token = await service.token();
      const large = quick ? 64 * MIB : 1024 * MIB;
      const count = quick ? 100 : 1_000;
      const ours = { url: `${service.url}/control/v1/uploads`, headers: { authorization: `Bearer ${token}` } };
      const uploads = await alternate(
        {
          resumable: async () => {
            const { ms, headers } = await uploadOverTus(ours, noiseOfLength(large));
            await forget(service, token, String(headers['mds-media-id']));
            return large / MIB / (ms / 1000);
          },
          'file store': async () => {
            const { ms } = await uploadOverTus(peer.endpoint, noiseOfLength(large));
            await peer.empty();
            return large / MIB / (ms / 1000);
          },
        },
        rounds,
        progress,
      );
      const picture = noisePng('ingest', 183, 182);
      const turn = async (work: (paths: string[], folder: string) => Promise<number>) => {
        const folder = await mkdtemp(join(scratch, 'small-'));
        const paths = await writePictures(picture, join(folder, 'from'), count);
        const ms = await work(paths, folder);
        await rm(folder, { recursive: true });
        return count / (ms / 1000);
      };
      const files = await alternate(
        {
          requests: () => turn((paths) => sendFiles(service, token, paths, PARALLEL)),
          'write, hash, sync': () => turn((paths, folder) => threads.copy(paths, join(folder, 'to'))),
        },
        rounds,
        progress,
      );
      return {
        ratios: {
          resumable: ratioOf(uploads.resumable, uploads['file store']),
          small: ratioOf(files.requests, files['write, hash, sync']),
        },
        tables: [
          rateTable(`one file of ${large / MIB} MiB, MiB a second`, uploads),
          rateTable(`${count} files of ${Math.round(picture.length / 1000)} KB, files a second`, files),
        ],
        problems: [],
        notes: [
          'Our time ends when the file is hashed, synced, identified, in the object store and in the database. The time of the file store ends when its last byte is in the page cache.',
          `Both sides handle ${PARALLEL} files of 100 KB at a time: ours over as many connections, theirs in as many threads of one process, with synchronous calls and no network.`,
          'All files are new to the service. Large ones are noise as WAV; small ones are a PNG of noise with different bytes after its end. Nothing is processed meanwhile.',
        ],
      };
    } finally {
      threads.stop();
      await peer.stop();
      await service.stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

/** A WAVE file of stereo noise: one megabyte repeated, and a different one for each call. */
function noiseOfLength(bytes: number): Buffer[] {
  const head = waveHeader({ channels: 2, sampleRate: 48_000, fileBytes: bytes });
  const noise = randomBytes(MIB);
  const pieces = [head];
  for (let left = bytes - head.length; left > 0; left -= MIB) pieces.push(noise.subarray(0, Math.min(left, MIB)));
  return pieces;
}

/** Decoders stop at the end of a PNG (W3C PNG, 11.2.5): bytes after it change the file but not the picture. */
async function writePictures(picture: Buffer, folder: string, count: number): Promise<string[]> {
  await mkdir(folder);
  const paths = Array.from({ length: count }, (_, index) => join(folder, `${index}.png`));
  for (const path of paths) await writeFile(path, Buffer.concat([picture, randomBytes(16)]));
  return paths;
}

/** Eight threads that write, hash and sync, in their own process. */
async function openWriteHashSync() {
  const child = fork(fileURLToPath(new URL('../sides/write-hash-sync.ts', import.meta.url)));
  await once(child, 'message');
  return {
    /** @returns milliseconds until all are copied, hashed and synced */
    async copy(paths: readonly string[], folder: string): Promise<number> {
      await mkdir(folder);
      const answered = once(child, 'message') as Promise<[{ ms: number }]>;
      child.send({ paths, folder } satisfies CopyRequest);
      const [{ ms }] = await answered;
      for (const path of paths) {
        const copy = join(folder, basename(path));
        if ((await stat(copy)).size !== (await stat(path)).size) throw new Error(`${copy} is not whole.`);
      }
      return ms;
    },
    stop: () => child.disconnect(),
  };
}

/** Deletes a media object, so that rounds do not fill the disk. */
async function forget({ url }: RunningService, token: string, id: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await fetch(`${url}/control/v1/media/${id}`, { method: 'DELETE', headers });
  if (status !== 204) throw new Error(`The deletion of ${id} was answered ${status}.`);
}

/** @tus/server with its file store, in its own process. */
async function openFileStore(directory: string) {
  await mkdir(directory);
  const child = fork(fileURLToPath(new URL('../sides/tus-file-store.ts', import.meta.url)), [directory]);
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  const endpoint: TusEndpoint = { url, headers: {} };
  return {
    endpoint,
    async empty() {
      await rm(directory, { recursive: true });
      await mkdir(directory);
    },
    async stop() {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
