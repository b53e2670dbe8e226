import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSlowReader } from '../../apps/server/test/support/slow-readers.ts';
import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { keepUploadsOpen } from '../service/open-uploads.ts';
import { peakBytes, processFiles } from '../service/process-memory.ts';
import { builtService, type RunningService, startService } from '../service/start-service.ts';
import {
  dataDirFiller,
  dataDirWithObjects,
  type StoredObjects,
  type StoredRendition,
} from '../service/stored-objects.ts';
import { summarize } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const MB = 1_000_000;
const READERS = 200;
const TAKE_BYTES = 64 * 1024;
const UPLOADS = 1_000;
const film = { name: 'long', extension: 'mp4', contentType: 'video/mp4', bytes: 1_000 * MB, seed: '1 GB' };

export default defineBenchmark({
  name: 'memory',
  what: `${READERS} slow readers of an object of 1 GB, each at another place; ${UPLOADS} resumable uploads open at once`,
  against: 'the same service, idle',
  regressionBound: true,
  goals: {
    readers: { says: 'MB more than idle: readers', atMost: 150 },
    uploads: { says: 'MB more than idle: uploads', atMost: 150 },
  },
  needs: [builtService, dataDirFiller, processFiles],
  async run({ rounds, quick, progress }) {
    const stored = await dataDirWithObjects('film', [{ renditions: [film] }], progress);
    const problems: string[] = [];
    /** A fresh service for every turn: otherwise each would inherit the heap of the one before. */
    const turn = async (work: (service: RunningService) => Promise<void>, dataDir = stored.dataDir) => {
      const service = await startService(dataDir);
      try {
        // Warm up, so that compiled code and pages of the database do not count.
        for (let i = 0; i < 50; i++) await (await fetch(`${service.url}/api/v1/media`)).arrayBuffer();
        return (await peakBytes(service.pid, () => work(service))) / MB;
      } finally {
        await service.stop();
      }
    };
    const seconds = quick ? 4 : 12;
    const peaks = await alternate(
      {
        idle: () => turn(async () => sleep(seconds * 1000, undefined)),
        [`${READERS} readers`]: () =>
          turn(async (service) => {
            problems.push(...(await readSlowly(service, stored, seconds)));
          }),
        [`${UPLOADS} uploads`]: async () => {
          // Its own data folder: uploads outlive the service that accepted them.
          const dataDir = await mkdtemp(join(tmpdir(), 'mds-bench-uploads-'));
          const keepOpen = async (service: RunningService) => {
            const headers = { authorization: `Bearer ${await service.token()}` };
            const endpoint = { url: `${service.url}/control/v1/uploads`, headers };
            problems.push(...(await keepUploadsOpen(endpoint, UPLOADS, seconds)));
          };
          return turn(keepOpen, dataDir).finally(() => rm(dataDir, { recursive: true }));
        },
      },
      rounds,
      progress,
    );
    const [idle = [], reading = [], uploading = []] = Object.values(peaks);
    const moreThanIdle = (side: readonly number[]) => {
      const more = summarize(side.map((peak, round) => peak - (idle[round] ?? Number.NaN)));
      return { value: more.median, low: more.low, high: more.high };
    };
    return {
      ratios: { readers: moreThanIdle(reading), uploads: moreThanIdle(uploading) },
      tables: [rateTable('resident memory at its peak, MB', peaks)],
      problems,
      notes: [
        'Resident memory of the service, its worker and its engine children together, sampled every 100 ms; a fresh service for each turn.',
        'Each upload sends 256 KiB at once and then 16 KiB a second, on its own connection. At the end each has all bytes that were sent to it.',
        `Each reader takes ${TAKE_BYTES / 1024} KiB a second, and the rest waits at the sender. Memory of the system for connections and files is not included on either side.`,
      ],
    };
  },
});

/** @returns the defects */
async function readSlowly(
  { url }: RunningService,
  { dataDir, renditions }: StoredObjects,
  seconds: number,
): Promise<string[]> {
  const { path, file, bytes } = renditions[0] as StoredRendition;
  const starts = Array.from({ length: READERS }, (_, index) => Math.floor((index * bytes) / READERS));
  const readers = await Promise.all(starts.map((start) => openSlowReader(url, path, start)));
  try {
    for (let second = 0; second < seconds; second++) {
      const pause = sleep(1_000);
      await Promise.all(readers.map((reader) => reader.take(TAKE_BYTES)));
      await pause;
    }
  } finally {
    for (const reader of readers) reader.leave();
  }
  const handle = await open(join(dataDir, file));
  try {
    const wrong: string[] = [];
    for (const [index, reader] of readers.entries()) {
      const body = reader.body();
      const start = starts[index] ?? 0;
      const { buffer } = await handle.read(Buffer.alloc(body.length), 0, body.length, start);
      if (!body.equals(buffer)) wrong.push(`reader ${index} got other bytes than those from ${start} on`);
    }
    return wrong;
  } finally {
    await handle.close();
  }
}
