import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createEngine } from '@mds/transcode';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { createKeyedLock } from '../base/keyed-lock.ts';
import { createLogger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createIngest } from '../ingest/ingest.ts';
import { createPieceWriting } from '../ingest/piece-writing.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { type DataDir, openDataDir } from '../storage/data-dir.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createWorkerSupervisor, type SupervisorTiming, type WorkerSupervisor } from './supervisor.ts';

const engine = createEngine();
afterAll(() => engine.stop());
const logger = createLogger('silent');
const WORKER = fileURLToPath(new URL('../../test/support/worker-process.ts', import.meta.url));
const FROM_SOURCE = [
  '--conditions=@mds/source',
  '--import',
  pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href,
];
const QUICK: Partial<SupervisorTiming> = { firstDelayMs: 20, longestDelayMs: 100, stopMs: 5_000 };

let root: string;
let dataDir: DataDir;
let repositories: Repositories;
let store: ObjectStore;
let supervisor: WorkerSupervisor | null;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-supervisor-'));
  dataDir = await openDataDir(root, { exclusive: true });
  repositories = openSqliteRepositories(dataDir.databaseFile);
  store = createLocalObjectStore({ root: dataDir.objectsDir });
  supervisor = null;
});
afterEach(async () => {
  await supervisor?.stop();
  await repositories.close();
  await dataDir.release();
  await rm(root, { recursive: true });
});

const supervise = (
  entry = WORKER,
  execArgv = FROM_SOURCE,
  timing = QUICK,
  isHere: (workerId: string) => boolean = () => true,
) => {
  const env = { ...process.env, MDS_DATA_DIR: root, MDS_LOG_LEVEL: 'silent' };
  supervisor = createWorkerSupervisor({ entry, execArgv, env, jobs: repositories.jobs, isHere, logger, timing });
  supervisor.start();
  return supervisor;
};
const add = async (picture: Buffer) => {
  const ingest = createIngest({
    media: repositories.media,
    store,
    engine,
    lock: createKeyedLock(),
    stagingDir: dataDir.stagingDir,
    space: createStagingSpace({ folder: dataDir.stagingDir, maxBytes: 0, minFreeBytes: 0 }),
    writing: createPieceWriting(),
    maxUploadBytes: 50_000_000,
    logger,
    onAccepted: () => supervisor?.wake(),
  });
  const { media } = await ingest.ingest({
    projectId: 'default',
    body: Readable.from([picture]),
    filename: null,
    idempotencyKey: null,
    duplicate: 'existing',
    declaredBytes: null,
  });
  return media;
};
const soon = { interval: 10, timeout: 20_000 };
const status = async (id: string) => (await repositories.media.find(id))?.status;
const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const script = async (source: string) => {
  const path = join(root, 'script.mjs');
  await writeFile(path, source);
  return path;
};

describe('the worker process', () => {
  it('invariant 2, fault 13: kill -9 during a render shows no partial rendition', async () => {
    const { id, sha256 } = await add(noisePng('a', 600, 450));
    const { stats } = supervise();
    expect(stats.restarts).toBe(0);
    await expect.poll(() => readdir(dataDir.scratchDir), soon).not.toEqual([]);
    const killed = supervisor?.stats.pid ?? 0;
    process.kill(killed, 'SIGKILL');
    await expect.poll(() => supervisor?.stats.pid ?? killed, soon).not.toBe(killed);
    expect(await status(id)).not.toBe('ready');
    for (const { name, extension, revision } of await repositories.media.renditions(id)) {
      expect(await repositories.media.findRendition({ mediaId: id, name, extension, revision })).toBeNull();
    }

    await expect.poll(() => status(id), soon).toBe('ready');
    expect(supervisor?.stats).toMatchObject({ restarts: 1 });
    // The process crashed, not the media object, so no attempt was counted.
    expect(await repositories.media.find(id)).toMatchObject({ attempts: 1, sha256 });
    for (const row of await repositories.media.renditions(id)) {
      const bytes = (await store.readAll(row.objectKey ?? '')) ?? '';
      expect(createHash('sha256').update(bytes).digest('hex'), row.name).toBe(row.sha256);
    }
    const workers = await repositories.jobs.workers();
    expect(workers.map(({ pid }) => pid)).toEqual([supervisor?.stats.pid]);
  });

  it('a media object is picked up at once when the service announces it', async () => {
    supervise();
    await expect.poll(() => repositories.jobs.workers(), soon).toHaveLength(1);
    const { id } = await add(noisePng('a'));
    await expect.poll(() => status(id), soon).toBe('ready');
  });

  it('an orderly stop leaves no lease and no process behind', async () => {
    const { id } = await add(noisePng('a', 600, 450));
    supervise();
    await expect.poll(() => status(id), soon).toBe('processing');
    const pid = supervisor?.stats.pid ?? 0;
    await supervisor?.stop();
    expect(isAlive(pid)).toBe(false);
    expect(supervisor?.stats.pid).toBeNull();
    expect(await repositories.jobs.held()).toEqual([]);
    expect(await repositories.jobs.workers()).toEqual([]);
    expect(await status(id)).toMatch(/^(queued|ready)$/);
  });
});

describe('the supervisor', () => {
  it('restarts a dying worker at growing intervals until the stop', async () => {
    const births = join(root, 'births');
    const entry = await script(
      `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(births)}, Date.now() + ' ' + process.env.MDS_ROLES + '\\n');`,
    );
    const count = async () => (existsSync(births) ? (await readFile(births, 'utf8')).trim().split('\n') : []);
    supervise(entry, [], { firstDelayMs: 100, longestDelayMs: 400 });
    await expect.poll(async () => (await count()).length, soon).toBeGreaterThanOrEqual(4);
    await supervisor?.stop();
    const lines = await count();
    expect(lines.every((line) => line.endsWith(' worker'))).toBe(true);
    const times = lines.map((line) => Number(line.split(' ')[0]));
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    expect(gaps[0]).toBeGreaterThanOrEqual(100);
    expect(gaps[1]).toBeGreaterThanOrEqual(200);
    expect(gaps[2]).toBeGreaterThanOrEqual(400);
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(await count()).toHaveLength(lines.length);
  });

  it("keeps the lease of a worker elsewhere whose process id equals a dead one's", async () => {
    await add(noisePng('elsewhere', 40, 30));
    const entry = await script('setInterval(() => {}, 1000)');
    const { jobs } = repositories;
    const isHere = (workerId: string) => workerId.startsWith('here:');
    supervise(entry, [], QUICK, isHere);
    const pid = supervisor?.stats.pid ?? 0;
    const worker = { host: 'vm', pid, region: 'fra1', concurrency: 1, sinceMs: 0 };
    for (const id of ['here:1', 'elsewhere:1']) await jobs.announceWorker({ id, ...worker });
    const lease = await jobs.claim('elsewhere:1');
    if (lease === null) throw new Error('there was nothing to claim');
    process.kill(pid, 'SIGKILL');
    await expect.poll(async () => (await jobs.workers()).map(({ id }) => id), soon).toEqual(['elsewhere:1']);
    expect(await jobs.isHeld(lease)).toBe(true);
  });

  it('kills a worker that ignores the stop', async () => {
    const ready = join(root, 'ready');
    const entry = await script(
      `import { writeFileSync } from 'node:fs'; process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); writeFileSync(${JSON.stringify(ready)}, '');`,
    );
    supervise(entry, [], { stopMs: 100, firstDelayMs: 10 });
    await expect.poll(() => existsSync(ready), soon).toBe(true);
    const pid = supervisor?.stats.pid ?? 0;
    await supervisor?.stop();
    expect(isAlive(pid)).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(supervisor?.stats, 'nothing is started after a stop').toEqual({ pid: null, restarts: 0 });
  });

  it('survives a wake while there is no worker', async () => {
    const entry = await script('process.exit(3)');
    supervise(entry, [], { firstDelayMs: 60_000, longestDelayMs: 60_000 });
    await expect.poll(() => supervisor?.stats, soon).toEqual({ pid: null, restarts: 1 });
    supervisor?.wake();
  });
});
