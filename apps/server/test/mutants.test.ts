import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, parse } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Client, createClient } from '@mds/client';
import { Problem } from '@mds/contract';
import { formats } from '@mds/transcode';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makeClip } from './support/clips.ts';
import { mutantOf, type Sample } from './support/mutator.ts';
import { noisePng, png } from './support/pictures.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

/** `MDS_TEST_MUTANTS=10000 npm test -- apps/server/test/mutants.test.ts` for the long version. */
const MUTANTS = Number(process.env['MDS_TEST_MUTANTS'] ?? 300);
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 20_261_122);
const SENDERS = 6;
/** Identification may take 20 s, after others in the queue. */
const ANSWER_WITHIN_MS = 60_000;
/**
 * Memory that the service may hold afterwards beyond that after the first mutants. Leaked bodies would exceed it: mutants have 42 KB on
 * average, so 2,400 of them fill it. An idle process returns its heap except for some tens of megabytes.
 */
const MOST_MORE_BYTES = 96 * 1024 * 1024;
/** After so many mutants, code is compiled and database caches are filled. */
const WARM_UP = 60;

/** One rendition of each kind, so that every decoder reads the accepted files and little is encoded. */
const PRESETS = [
  { name: 'thumb', container: 'webp', width: 64, height: 64, source_kinds: ['image', 'video'] },
  { type: 'mp4', name: 'small', width: 64, height: 64, speed: 'ultrafast' },
  { type: 'waveform', name: 'waveform', container: 'json', points: 50 },
];

let dataDir: string;
let service: ServiceProcess;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-mutants-'));
});
afterEach(async () => {
  if (service && service.child.exitCode === null && service.child.signalCode === null) await service.end('SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

it(
  `fault 22: ${MUTANTS} mutated files cause no crash, hang, 5xx or memory leak`,
  async () => {
    const samples = await everySample();
    const presets = join(dataDir, 'presets.json');
    await writeFile(presets, JSON.stringify(PRESETS));
    service = await spawnService({
      dataDir: join(dataDir, 'data'),
      env: { MDS_PRESETS: presets, MDS_WORKER_CONCURRENCY: '2' },
    });
    const client = createClient({ baseUrl: service.url, token: service.token });
    const answers = new Map<string, number>();
    /** All defects, each with its mutant, because the long version takes long. */
    const defects: string[] = [];
    let slowest = { title: '', ms: 0 };
    let sentBytes = 0;

    const send = async (number: number) => {
      const { title, bytes } = mutantOf(samples, SEED, number);
      const began = performance.now();
      const response = await fetch(`${service.url}/control/v1/media?filename=${encodeURIComponent(title)}`, {
        method: 'POST',
        body: bytes,
        headers: { authorization: `Bearer ${service.token}` },
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      });
      const text = await response.text();
      const ms = performance.now() - began;
      if (ms > slowest.ms) slowest = { title, ms };
      sentBytes += bytes.length;
      const problem = response.ok ? null : Problem.parse(JSON.parse(text));
      const result = problem ? `${problem.status} ${problem.code}` : String(response.status);
      answers.set(result, (answers.get(result) ?? 0) + 1);
      // A mutant that crashes or blocks the engine is a defect, although the service survives it.
      if (response.status >= 500 || problem?.code === 'unidentifiable_media') defects.push(`${title}: ${text}`);
      expect(text, title).not.toContain(dataDir);
      if (problem) expect(problem.detail, title).toMatch(/^[A-Z].*\.$/s);
    };
    const began = performance.now();
    const progress = (count: number) => {
      const seconds = Math.round((performance.now() - began) / 1000);
      console.log(`${count} mutants in ${seconds} s: ${report(answers)}; defects: ${JSON.stringify(defects)}`);
    };
    const sendAll = async (from: number, to: number) => {
      let next = from;
      const sender = async () => {
        while (next < to) {
          const number = next++;
          await send(number);
          if (number % 1_000 === 999) progress(number + 1);
        }
      };
      await Promise.all(Array.from({ length: SENDERS }, sender));
      await allDone(client);
    };

    await sendAll(0, WARM_UP);
    const { pid = 0 } = service.child;
    const base = await restingBytes(pid);
    await sendAll(WARM_UP, MUTANTS);

    const after = await restingBytes(pid, base + MOST_MORE_BYTES);
    const ends = await endsOf(client, defects);
    const mb = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
    console.log(
      `fault 22: ${MUTANTS} mutants, ${mb(sentBytes)}. Answers: ${report(answers)}. Accepted ones: ${report(ends)}. ` +
        `Slowest: ${Math.round(slowest.ms)} ms (${slowest.title}). Memory: ${mb(base)} before, ${mb(after)} after.`,
    );

    expect(service.child.exitCode ?? service.child.signalCode).toBeNull();
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200);
    if (process.platform === 'linux') expect(after - base).toBeLessThan(MOST_MORE_BYTES);
    expect(answers.get('201')).toBeGreaterThan(MUTANTS / 20);
    expect(ends.get('ready')).toBeGreaterThan(MUTANTS / 40);
    expect(defects).toEqual([]);
    expect(service.stderr()).not.toMatch(/unforeseen|unexpected error|worker process ended/);
    // The service continues: it accepts and processes the next intact file.
    const { media } = await client.control.media.ingest(png(424_242), { filename: 'next.png' });
    expect((await client.control.media.waitUntilReady(media.id)).status).toBe('ready');
  },
  120_000 + MUTANTS * 1_000,
);

/** A sample of every accepted format, and larger ones of the common formats. */
async function everySample(): Promise<Sample[]> {
  const root = fileURLToPath(new URL('../../../packages/transcode/', import.meta.url));
  const ids = new Set(formats.map(({ id }) => id));
  const samples: Sample[] = [];
  for (const folder of [join(root, 'samples'), join(root, 'test/fixtures')]) {
    for (const file of (await readdir(folder)).sort()) {
      const { name, ext } = parse(file);
      if (ids.has(name) || ext === '.heic') samples.push({ name, bytes: await readFile(join(folder, file)) });
    }
  }
  expect(samples.map(({ name }) => name)).toEqual(expect.arrayContaining([...ids]));
  const clip = await makeClip({ width: 160, height: 90, seconds: 1, frameRate: 10, sound: true });
  return [
    ...samples,
    { name: 'picture', bytes: png(1, 200, 150) },
    { name: 'noise', bytes: noisePng('mutants', 120, 90) },
    { name: 'clip', bytes: await readFile(clip) },
  ];
}

/** Waits until nothing is queued or processed, as long as there is progress. */
async function allDone(client: Client): Promise<void> {
  const left = async () => {
    const counts = await Promise.all(
      (['queued', 'processing'] as const).map(async (status) => {
        let count = 0;
        for await (const _ of client.control.media.list({ status, limit: 100 })) count++;
        return count;
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };
  let least = Number.POSITIVE_INFINITY;
  for (let deadline = Date.now() + 60_000; ; await sleep(250)) {
    const now = await left();
    if (now === 0) return;
    if (now < least) {
      least = now;
      deadline = Date.now() + 60_000;
    }
    expect(Date.now(), `${now} media are not done, and none was within a minute`).toBeLessThan(deadline);
  }
}

/** The results of accepted mutants: `ready`, or the failure code. Any code but that of a damaged file is a defect. */
async function endsOf(client: Client, defects: string[]): Promise<Map<string, number>> {
  const ends = new Map<string, number>();
  for await (const { id, status, error, filename } of client.control.media.list({ limit: 100 })) {
    const end = error === null ? status : `${status} ${error.code}`;
    ends.set(end, (ends.get(end) ?? 0) + 1);
    if (status === 'ready') continue;
    expect(error?.message, filename ?? id).toMatch(/^[A-Z].*\.$/s);
    if (error?.code !== 'corrupt_media' && error?.code !== 'unsupported_codec') {
      defects.push(`${filename}: ${status} ${JSON.stringify(error)}`);
    }
  }
  return ends;
}

/** Resident memory of the process, as soon as it is small enough, or after 20 s. */
async function restingBytes(pid: number, enough = 0): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (const deadline = Date.now() + (enough === 0 ? 1_000 : 20_000); Date.now() < deadline; await sleep(200)) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    least = Math.min(least, Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024);
    if (least <= enough) break;
  }
  return least;
}

function report(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}
