import { execFile, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { noisePng } from '../../apps/server/test/support/pictures.ts';
import { waveHeader } from '../../apps/server/test/support/wave.ts';
import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { sendFiles } from '../service/send-files.ts';
import { builtService, type RunningService, startService } from '../service/start-service.ts';
import { type TusEndpoint, uploadOverTus } from '../service/tus-upload.ts';
import { ratioOf } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const MIB = 1024 * 1024;
/** Files on their way at once, on both sides. */
const PARALLEL = 8;

export default defineBenchmark({
  name: 'ingest',
  what: 'one file of 1 GiB by resumable upload; 1,000 files of 100 KB with a request each',
  against:
    '@tus/server with its file store alone, which neither syncs nor hashes nor looks at what it gets; `cp`, `sha256sum` and `sync` of each file',
  goals: {
    resumable: { says: "of the file store's rate", atLeast: 0.7 },
    small: { says: 'of the rate of cp, sha256sum and sync', atLeast: 0.7 },
  },
  needs: [
    builtService,
    { program: 'sha256sum', hint: 'it comes with GNU coreutils.' },
    { program: 'xargs', hint: 'it comes with GNU findutils.' },
  ],
  async run({ rounds, quick, progress }) {
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-ingest-'));
    // What is taken in is not processed meanwhile: how fast that goes is another benchmark's matter.
    const service = await startService(join(scratch, 'data'), { MDS_ROLES: 'api' });
    const peer = await openFileStore(join(scratch, 'files'));
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
          'cp, sha256sum, sync': () => turn((paths, folder) => copyEach(paths, join(folder, 'to'))),
        },
        rounds,
        progress,
      );
      return {
        ratios: {
          resumable: ratioOf(uploads.resumable, uploads['file store']),
          small: ratioOf(files.requests, files['cp, sha256sum, sync']),
        },
        tables: [
          rateTable(`one file of ${large / MIB} MiB, MiB a second`, uploads),
          rateTable(`${count} files of ${Math.round(picture.length / 1000)} KB, files a second`, files),
        ],
        problems: [],
        notes: [
          'Ours ends when the file is hashed, synced, identified, in the object store and in the database; that of the file store when its last byte is written to the page cache.',
          `Files of 100 KB go ${PARALLEL} at a time on both sides: ours over as many connections, theirs by \`xargs -P ${PARALLEL}\` with one shell a file, as each is to be acknowledged by itself.`,
          'Every file is one that the service has not seen: noise as WAV, and a PNG of noise with other bytes behind its end. Nothing is processed meanwhile.',
        ],
      };
    } finally {
      await peer.stop();
      await service.stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

/** A WAVE file of stereo noise, the same megabyte again and again, which differs from call to call. */
function noiseOfLength(bytes: number): Buffer[] {
  const head = waveHeader({ channels: 2, sampleRate: 48_000, fileBytes: bytes });
  const noise = randomBytes(MIB);
  const pieces = [head];
  for (let left = bytes - head.length; left > 0; left -= MIB) pieces.push(noise.subarray(0, Math.min(left, MIB)));
  return pieces;
}

/** Decoders stop at a PNG's end (W3C PNG, 11.2.5): what comes after it changes the file and not the picture. */
async function writePictures(picture: Buffer, folder: string, count: number): Promise<string[]> {
  await mkdir(folder);
  const paths = Array.from({ length: count }, (_, index) => join(folder, `${index}.png`));
  for (const path of paths) await writeFile(path, Buffer.concat([picture, randomBytes(16)]));
  return paths;
}

/** What one would write in a shell. @returns milliseconds until all are copied, hashed and synced */
async function copyEach(paths: readonly string[], to: string): Promise<number> {
  await mkdir(to);
  const script = 'copy=$0/$(basename "$1"); cp "$1" "$copy" && sha256sum "$copy" > "$copy.sum" && sync "$copy"';
  const start = performance.now();
  const running = promisify(execFile)('xargs', ['-0', '-P', String(PARALLEL), '-n', '1', 'sh', '-c', script, to]);
  running.child.stdin?.end(paths.join('\0'));
  await running;
  return performance.now() - start;
}

/** Takes a media object out again, so that rounds do not fill the disk. */
async function forget({ url }: RunningService, token: string, id: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await fetch(`${url}/control/v1/media/${id}`, { method: 'DELETE', headers });
  if (status !== 204) throw new Error(`The deletion of ${id} was answered ${status}.`);
}

/** @tus/server with its file store, in a process of its own. */
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
