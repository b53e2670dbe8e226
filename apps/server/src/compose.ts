import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createEngine, defaultPresets, type Engine, type Preset, parsePresets } from '@mds/transcode';
import { createApp } from './app.ts';
import { type Config, ConfigError, workerEnvironment } from './config.ts';
import { type DataDir, openDataDir } from './data-dir.ts';
import type { Repositories } from './db/repositories.ts';
import { openSqliteRepositories } from './db/sqlite/open-repositories.ts';
import { DEFAULT_PROJECT } from './db/sqlite/project-repository.ts';
import { createDelivery } from './delivery/delivery.ts';
import { createRequestLog } from './delivery/request-log.ts';
import { createEventStream } from './events/event-stream.ts';
import { createHttpServer, drainServer } from './http/http-server.ts';
import { createMetrics } from './http/metrics.ts';
import { createIngest } from './ingest/ingest.ts';
import { createKeyedLock } from './ingest/keyed-lock.ts';
import { createMediaRemoval } from './ingest/media-removal.ts';
import { createLeaseMonitor, recoverLeases } from './jobs/lease-monitor.ts';
import type { Logger } from './logger.ts';
import { createFormatCatalogue } from './processing/format-catalogue.ts';
import { createMediaVerifier } from './processing/media-verifier.ts';
import { createWorkerSupervisor, type WorkerSupervisor } from './processing/supervisor.ts';
import { createWorker } from './processing/worker.ts';
import { resolveRegion } from './regions/region-identity.ts';
import { createRegionMonitor } from './regions/region-monitor.ts';
import { apiProbe, databaseProbe, deliveryProbe, objectStorageProbe, processingProbe } from './status/probes.ts';
import { createStatusBoard } from './status/status-board.ts';
import { createLocalObjectStore } from './storage/local-object-store.ts';

/** How long the start waits until ffmpeg was looked for, which takes a tenth of a second. */
const PROGRAMS_WAIT_MS = 2_000;

/** Assets kept a region. */
const KEPT_ASSETS = 10_000;

/** A running service. */
export interface Service {
  /** The address that it listens on. */
  url: string;
  /** Finishes what is in flight, gives back what is not, and lets the next service in. */
  stop(): Promise<void>;
}

/** A running worker without a service around it. */
export interface WorkerService {
  url: null;
  /** There is something in the queue. */
  wake(): void;
  stop(): Promise<void>;
}

/** What every role stands on. */
interface Foundation {
  dataDir: DataDir;
  repositories: Repositories;
  engine: Engine;
  presets: readonly Preset[];
}

async function layFoundation(config: Config, logger: Logger): Promise<Foundation> {
  refuseWhatIsNotThereYet(config);
  const presets = config.presetsFile === null ? defaultPresets : await readPresets(config.presetsFile);
  const dataDir = await openDataDir(config.dataDir, { exclusive: config.roles.has('api') });
  try {
    const repositories = openSqliteRepositories(dataDir.databaseFile);
    const engine = createEngine({
      limits: { maxPixels: config.maxPixels, maxFrames: config.maxFrames, maxDurationS: config.maxDurationS },
      concurrency: config.workerConcurrency,
      programs: { ffmpeg: config.ffmpegPath ?? undefined, ffprobe: config.ffprobePath ?? undefined },
      onChildExit: (exit) => {
        if (exit.reason !== 'recycled' && exit.reason !== 'stopped') {
          const { pid: childPid, ...how } = exit;
          logger.warn({ childPid, ...how }, 'an engine child died');
        }
      },
    });
    return { dataDir, repositories, engine, presets };
  } catch (error) {
    await dataDir.release();
    throw error;
  }
}

/** Settings of deployments beyond one machine, which this version cannot serve: better said than ignored. */
function refuseWhatIsNotThereYet(config: Config): void {
  const problems: string[] = [];
  if (config.databaseUrl !== null)
    problems.push('MDS_DATABASE_URL: this version keeps its database in the data folder only');
  if (config.storageUrl !== null)
    problems.push('MDS_STORAGE_URL: this version keeps its objects in the data folder only');
  if (config.originUrl !== null) problems.push('MDS_ORIGIN_URL: this version serves its own region only');
  if (config.roles.has('edge') && !config.roles.has('api')) {
    problems.push('MDS_ROLES: in this version the role edge needs the role api in the same process');
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

async function readPresets(file: string): Promise<readonly Preset[]> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file} cannot be read as JSON: ${(error as Error).message}`]);
  }
  try {
    return parsePresets(json);
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file}: ${(error as Error).message}`]);
  }
}

/**
 * Builds and starts the parts for the configured roles; the role `worker` runs in a process of its own that is kept alive.
 * @throws ConfigError, DataDirError, DatabaseRefusedError: what the operator must see to; nothing is left running
 */
export async function composeService(config: Config, logger: Logger): Promise<Service> {
  const region = resolveRegion(config.region);
  const { dataDir, repositories, engine, presets } = await layFoundation(config, logger);
  const { media, jobs } = repositories;
  /** Run in reverse order on stop, or when the start fails half-way. */
  const undo: (() => Promise<unknown>)[] = [() => dataDir.release(), () => repositories.close(), () => engine.stop()];
  const stopAll = async () => {
    const errors: unknown[] = [];
    for (const step of undo.splice(0).reverse()) await step().catch((error: unknown) => errors.push(error));
    if (errors.length > 0) throw new AggregateError(errors, 'parts of the service did not stop in good order');
  };

  try {
    await recoverLeases(jobs);
    const stranded = await jobs.adoptStranded();
    if (stranded > 0) logger.error({ stranded }, 'media had lost their place in the queue, and were given one again');
    const token = await dataDir.controlToken(config.controlToken);
    await repositories.projects.putToken({
      sha256: createHash('sha256').update(token).digest('hex'),
      name: 'first operator token',
      projectId: DEFAULT_PROJECT,
      scope: 'operate',
    });

    const store = createLocalObjectStore({ root: dataDir.objectsDir });
    const leases = createLeaseMonitor({ jobs, logger });
    leases.start();
    undo.push(() => leases.stop());

    const supervisor = config.roles.has('worker') ? superviseWorker(config, jobs, logger) : null;
    supervisor?.start();
    undo.push(async () => supervisor?.stop());

    const formats = createFormatCatalogue({ engine, proofs: repositories.formatProofs, logger });
    // Looking for ffmpeg takes a while; whoever asks for the formats before waits for it.
    const formatsKnown = formats
      .start()
      .catch((error: unknown) => logger.error({ err: error }, 'the kept proofs of the formats could not be read'));
    undo.push(async () => {
      await formats.stop();
      await formatsKnown;
    });

    const requestLog = createRequestLog({ assets: repositories.assets, keep: KEPT_ASSETS, logger });
    requestLog.start();
    undo.push(() => requestLog.stop());

    let publicUrl = config.publicUrl ?? '';
    const delivery = createDelivery({
      media,
      store,
      region: region.code,
      memoryCacheBytes: config.memoryCacheBytes,
      requestLog,
      publicUrl: () => publicUrl,
      logger,
    });

    const lock = createKeyedLock();
    const ingest = createIngest({
      media,
      store,
      engine,
      lock,
      stagingDir: dataDir.stagingDir,
      maxUploadBytes: config.maxUploadBytes,
      logger,
      onAccepted: () => supervisor?.wake(),
    });
    const removal = createMediaRemoval({ media, store, lock, logger, onRemoved: (id) => delivery.evict(id) });

    const verifier = createMediaVerifier({
      media,
      store,
      lock,
      logger,
      onRederive: (ids) => {
        for (const id of ids) delivery.evict(id);
        supervisor?.wake();
      },
    });

    const regionMonitor = createRegionMonitor({
      regions: repositories.regions,
      events: repositories.events,
      self: region,
      nodeId: `${hostname()}:${createHash('sha256').update(dataDir.root).digest('hex').slice(0, 16)}`,
      logger,
    });
    await regionMonitor.start();
    undo.push(() => regionMonitor.stop());

    const status = createStatusBoard({
      region,
      regionMonitor,
      logger,
      probes: [
        apiProbe(),
        databaseProbe(repositories),
        objectStorageProbe(store),
        processingProbe({ engine, jobs, formats }),
        deliveryProbe(delivery),
      ],
    });

    // The first round counts at once, and is to tell of an ffmpeg that is missing; one that hangs must not hold up the start.
    await Promise.race([formatsKnown, delay(PROGRAMS_WAIT_MS, undefined, { ref: false })]);
    await status.start();
    undo.push(() => status.stop());

    const eventStream = createEventStream({ events: repositories.events, jobs, logger });
    await eventStream.start();

    let stopping = false;
    const app = createApp({
      logger,
      publicUrl: () => publicUrl,
      metrics: createMetrics({
        deliveries: () => delivery.stats,
        queue: () => jobs.counts(),
        workers: async () => (await jobs.workers()).length,
        ingest: () => ingest.stats,
      }),
      notReady: async () => {
        if (stopping) return 'This process is stopping.';
        return repositories.probe().then(
          () => null,
          () => 'The database does not answer.',
        );
      },
      read: {
        media,
        assets: repositories.assets,
        regions: repositories.regions,
        projects: repositories.projects,
        regionMonitor,
        statusBoard: status,
        formats,
        presets,
        region,
      },
      control: {
        projects: repositories.projects,
        media,
        jobs,
        presets,
        hidden: { [dataDir.root]: 'DATA', [token]: 'TOKEN' },
        events: eventStream,
        ingest,
        removal,
        verifier,
        wakeWorkers: () => supervisor?.wake(),
      },
      delivery: config.roles.has('edge') ? delivery : null,
    });
    const server = createHttpServer(app);
    const url = await listen(server, config);
    publicUrl = config.publicUrl ?? url;
    undo.push(() => drainServer(server));
    // Listeners would keep their connections for ever, and with them the server.
    undo.push(() => eventStream.stop());
    undo.push(async () => {
      stopping = true;
    });
    await dataDir.announce({ url });
    engine.warmUp('identify');
    logger.info({ url, region: region.code, roles: [...config.roles] }, 'listening');
    return { url, stop: stopAll };
  } catch (error) {
    await stopAll().catch((cause: unknown) => logger.error({ err: cause }, 'a part did not stop after a failed start'));
    throw error;
  }
}

/** Builds and starts a worker alone, beside a service on the same data folder. */
export async function composeWorker(config: Config, logger: Logger): Promise<WorkerService> {
  const { dataDir, repositories, engine, presets } = await layFoundation(config, logger);
  const { media, jobs } = repositories;
  const worker = createWorker({
    id: `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`,
    jobs,
    media,
    store: createLocalObjectStore({ root: dataDir.objectsDir }),
    engine,
    presets,
    scratchDir: dataDir.scratchDir,
    concurrency: config.workerConcurrency,
    logger,
  });
  worker.start();
  engine.warmUp('render');
  return {
    url: null,
    wake: () => worker.wake(),
    async stop() {
      await worker.stop();
      await engine.stop();
      await repositories.close();
      await dataDir.release();
    },
  };
}

function superviseWorker(config: Config, jobs: Repositories['jobs'], logger: Logger): WorkerSupervisor {
  const fromSource = import.meta.url.endsWith('.ts');
  return createWorkerSupervisor({
    entry: fileURLToPath(new URL(fromSource ? './main.ts' : './main.js', import.meta.url)),
    execArgv: fromSource ? ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')] : [],
    env: workerEnvironment(config),
    jobs,
    logger,
  });
}

/** The address cannot be listened on; the message says which setting to look at. */
export class ListenError extends Error {
  constructor({ host, port }: Pick<Config, 'host' | 'port'>, cause: NodeJS.ErrnoException) {
    const reasons: Record<string, string> = {
      EADDRINUSE: `Port ${port} of ${host} is taken by another program. Stop that one, or choose another port with MDS_PORT (0: any free one).`,
      EACCES: `Port ${port} may not be used by this user. Choose one above 1023 with MDS_PORT.`,
      EADDRNOTAVAIL: `MDS_HOST: ${host} is not an address of this machine. Use 127.0.0.1, 0.0.0.0 or one of its own.`,
      ENOTFOUND: `MDS_HOST: the name ${host} is not known. Use 127.0.0.1, 0.0.0.0 or an address of this machine.`,
    };
    super(reasons[cause.code ?? ''] ?? `The service cannot listen on ${host}, port ${port}: ${cause.message}.`, {
      cause,
    });
    this.name = 'ListenError';
  }
}

async function listen(server: Server, config: Config): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(new ListenError(config, error)));
    server.listen(config.port, config.host, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
  const { port } = server.address() as AddressInfo;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return `http://${host}:${port}`;
}
