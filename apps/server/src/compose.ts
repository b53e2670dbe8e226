import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.ts';
import type { Logger } from './base/logger.ts';
import { composeMigration } from './compose-migration.ts';
import { superviseWorker } from './compose-worker.ts';
import { type Config, secretsOf } from './config.ts';
import { DEFAULT_PROJECT } from './db/default-project.ts';
import { createDatabaseResolver } from './delivery/database-resolver.ts';
import { createDelivery } from './delivery/delivery.ts';
import { createRequestLog } from './delivery/request-log.ts';
import { createEventStream } from './events/event-stream.ts';
import { createNodeFollower } from './events/node-follower.ts';
import { createDownload } from './fetches/download.ts';
import { createFetchRunner, createRestartableFetchRunner, recoverFetches } from './fetches/fetch-runner.ts';
import { createWeb } from './fetches/web.ts';
import { layFoundation } from './foundation.ts';
import { createIngest } from './ingest/ingest.ts';
import { createMediaRemoval } from './ingest/media-removal.ts';
import { createPieceWriting } from './ingest/piece-writing.ts';
import { createRemovalSweep } from './ingest/removal-sweep.ts';
import { createStagingSpace } from './ingest/staging-space.ts';
import { createLeaseMonitor, recoverLeases } from './jobs/lease-monitor.ts';
import { createQueueLimit } from './jobs/queue-limit.ts';
import { listen } from './listen.ts';
import { createAdmission } from './listener/admission.ts';
import { announceLeaving, createHttpServer, drainServer } from './listener/http-server.ts';
import { createMetrics } from './listener/metrics.ts';
import { createOverloadGuard } from './listener/overload.ts';
import { createRequestListener } from './listener/request-listener.ts';
import { createWriteGate } from './migration/write-gate.ts';
import { createFormatCatalogue } from './processing/format-catalogue.ts';
import { createMediaVerifier } from './processing/media-verifier.ts';
import { createRegionMonitor } from './regions/region-monitor.ts';
import { resolveRegion } from './regions/region-setting.ts';
import { apiProbe, databaseProbe, deliveryProbe, objectStorageProbe, processingProbe } from './status/probes.ts';
import { createStatusBoard } from './status/status-board.ts';
import { createUploads } from './uploads/uploads.ts';

/** Assets kept a region. */
const KEPT_ASSETS = 10_000;

/** A running service. */
export interface Service {
  /** The address that it listens on. */
  url: string;
  /** Rejects where the storage, which did not answer at the start, turns out to be another deployment's: it must not go on. */
  storageKnown: Promise<void>;
  /**
   * Finishes what is in flight, gives back what is not, and lets the next service in.
   * @param options.graceMs how long it says on `/readyz` that it is leaving, and still takes connections
   * @param options.crashed it stops for a reason that nobody foresaw, of which what is under way may be the cause
   */
  stop(options?: { graceMs?: number; crashed?: boolean }): Promise<void>;
}

/**
 * Builds and starts the parts of the role `api` and of those beside it; `worker` runs in a process of its own that is kept alive.
 * @throws ConfigError, DataDirError, DatabaseRefusedError: what the operator must see to; nothing is left running
 */
export async function composeApi(config: Config, logger: Logger): Promise<Service> {
  const region = resolveRegion(config.region);
  const foundation = await layFoundation(config, logger);
  const { dataDir, repositories, store, storageBinding, originalsLock: lock, engine, presets } = foundation;
  const { media, jobs, shared } = repositories;
  /** Run in reverse order on stop, or when the start fails half-way. */
  const undo: (() => Promise<unknown>)[] = [foundation.close, () => engine.stop()];
  const stopAll = async () => {
    const errors: unknown[] = [];
    for (const step of undo.splice(0).reverse()) await step().catch((error: unknown) => errors.push(error));
    if (errors.length > 0) throw new AggregateError(errors, 'parts of the service did not stop in good order');
  };

  try {
    if (!shared) {
      // Nobody else can have held them. Where others may, their beats tell who is gone.
      await recoverLeases(jobs);
      await recoverFetches(repositories.fetches);
    }
    // Of millions of media it may take long, or be given up, which is no reason not to start: the next start tries again.
    const digestsDropped = repositories.pieceDigests
      .dropUnneeded()
      .catch((error: unknown) => logger.warn({ err: error }, 'digests that nothing needs any more are left'));
    undo.push(async () => void (await digestsDropped));
    const stranded = await jobs.adoptStranded();
    if (stranded > 0) logger.error({ stranded }, 'media had lost their place in the queue, and were given one again');
    const token = await dataDir.controlToken(config.controlToken);
    await repositories.projects.putToken({
      sha256: createHash('sha256').update(token).digest('hex'),
      // It takes the place of the one of its name: each node that has made its own keeps it.
      name: shared && config.controlToken === null ? `operator token of ${dataDir.nodeId}` : 'first operator token',
      projectId: DEFAULT_PROJECT,
      scope: 'operate',
    });

    const leases = createLeaseMonitor({ jobs, logger });
    leases.start();
    undo.push(() => leases.stop());

    const supervisor = config.roles.has('worker') ? superviseWorker(config, jobs, logger) : null;
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
    const resolver = createDatabaseResolver({
      media,
      pieceDigests: repositories.pieceDigests,
      region: region.code,
      publicUrl: () => publicUrl,
    });
    const delivery = createDelivery({
      resolver,
      origin: foundation.origin,
      diskCache: foundation.isStoreRemote ? { dir: dataDir.cacheDir, maxBytes: config.cacheBytes } : null,
      region: region.code,
      memoryCacheBytes: config.memoryCacheBytes,
      keepDigests: repositories.pieceDigests.put,
      requestLog,
      logger,
    });
    undo.push(() => delivery.stop());

    const queueBound = createQueueLimit({ media, maxQueued: config.maxQueuedJobs, shared });
    const space = createStagingSpace({
      folder: dataDir.root,
      maxBytes: config.maxStagingBytes,
      minFreeBytes: config.minFreeBytes,
    });
    const writing = createPieceWriting();
    const ingest = createIngest({
      media,
      store,
      engine,
      lock,
      stagingDir: dataDir.stagingDir,
      space,
      writing,
      maxUploadBytes: config.maxUploadBytes,
      logger,
      onAccepted: ({ projectId }) => {
        queueBound.queued(projectId);
        supervisor?.wake();
      },
    });
    const writes = createWriteGate();
    const uploads = createUploads({
      uploads: repositories.uploads,
      media,
      ingest,
      folder: dataDir.uploadsDir,
      shared,
      segments: shared && foundation.isStoreRemote ? { store, stagingDir: dataDir.stagingDir } : null,
      mayRemove: () => storageBinding.holds,
      writes,
      space,
      writing,
      maxBytes: config.maxUploadBytes,
      maxOpen: config.maxOpenUploads,
      expiryMs: config.uploadExpiryS * 1000,
      logger,
    });
    undo.push(() => uploads.stop());
    const download = createDownload({
      source: createWeb({ allow: config.fetchAllow }),
      space,
      maxBytes: config.maxUploadBytes,
    });
    const fetchRunner = createRestartableFetchRunner(() =>
      createFetchRunner({
        fetches: repositories.fetches,
        media,
        ingest,
        download,
        uploadsDir: dataDir.uploadsDir,
        shared,
        concurrency: config.fetchConcurrency,
        timeoutMs: config.fetchTimeoutS * 1000,
        logger,
      }),
    );
    const migrations = composeMigration(config, { foundation, writes, fetchRunner, supervisor, logger });
    const removal = createMediaRemoval({ media, store, lock, logger, onRemoved: (id) => delivery.evict(id) });
    const removalSweep = createRemovalSweep({
      contentRemovals: repositories.contentRemovals,
      media,
      store,
      lock,
      isMoving: () => ['running', 'done'].includes(migrations.migration?.current()?.state ?? ''),
      logger,
    });
    undo.push(() => removalSweep.stop());

    const verifier = createMediaVerifier({
      media,
      presets,
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
      nodeId: dataDir.nodeId,
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

    // The first round of probes waits for others most of the time: the rest of the start goes on meanwhile.
    const probed = status.start();
    // What it throws is thrown where it is waited for, below.
    probed.catch(() => undefined);
    undo.push(() => status.stop());
    // Looking for ffmpeg takes longer than the start is to take. What came of it shows at once.
    formatsKnown
      .then(() => status.settle())
      .catch((error: unknown) => logger.error({ err: error }, 'a round of probes failed'));
    regionMonitor.onChanged(() => void status.refreshRegions());

    const follower = createNodeFollower({
      events: repositories.events,
      regions: repositories.regions,
      self: { id: dataDir.nodeId, region: region.code },
      delivery,
      logger,
    });
    // Alone it has done all of it itself.
    if (shared) await follower.start();
    undo.push(() => follower.stop());

    const eventStream = createEventStream({ events: repositories.events, jobs, logger });
    await eventStream.start();

    let stopping = false;
    let crashed = false;
    const metrics = createMetrics({
      deliveries: () => delivery.stats,
      queue: () => jobs.counts(),
      workers: async () => (await jobs.workers()).length,
      ingest: () => ingest.stats,
      regions: regionMonitor.overview,
      uploads: () => uploads.figures(),
    });
    const app = createApp({
      logger,
      publicUrl: () => publicUrl,
      metrics,
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
      },
      control: {
        projects: repositories.projects,
        media,
        jobs,
        presets,
        hidden: { ...secretsOf(config), [dataDir.root]: 'DATA', [token]: 'TOKEN' },
        events: eventStream,
        queueBound,
        rateLimit: config.rateLimit,
        ingest,
        uploads,
        uploadOrigins: config.uploadOrigins,
        fetches: { fetches: repositories.fetches, runner: fetchRunner },
        removal,
        verifier,
        wakeWorkers: () => supervisor?.wake(),
        regions: {
          regions: repositories.regions,
          regionMonitor,
          events: repositories.events,
          regionsChanged: () => status.refreshRegions(),
        },
        cache: { media, events: repositories.events, regionMonitor, resolver, delivery },
        migrations,
        writes,
        edges: {
          regions: repositories.regions,
          assets: repositories.assets,
          keptAssets: KEPT_ASSETS,
          regionMonitor,
          events: eventStream,
          resolverFor: (baseUrl) =>
            createDatabaseResolver({
              media,
              pieceDigests: repositories.pieceDigests,
              region: region.code,
              publicUrl: () => baseUrl,
            }),
          delivery,
        },
      },
    });
    const requestListener = createRequestListener({
      app,
      delivery: config.roles.has('edge') ? delivery : null,
      versions: repositories.versions,
      metrics,
      logger,
      guard: createOverloadGuard(logger, createAdmission({ databaseWaitMs: repositories.waitMs })),
    });
    const server = createHttpServer(requestListener);
    await probed;
    await uploads.start();
    const url = await listen(server, config);
    publicUrl = config.publicUrl ?? url;
    undo.push(() => drainServer(server));
    // Listeners would keep their connections for ever, and with them the server.
    undo.push(() => eventStream.stop());
    // So would senders that take their time.
    undo.push(async () => uploads.leave());
    undo.push(async () => {
      stopping = true;
    });
    await fetchRunner.start();
    undo.push(() => fetchRunner.stop({ crashed }));
    undo.push(async () => migrations.migration?.stop());
    await dataDir.announce({ url });
    // Only now: a second process that starts at the same time makes both slower, and nothing can be queued before.
    supervisor?.start();
    // Where it is another's, `storageKnown` ends the process.
    storageBinding.known.then(
      () => removalSweep.start(),
      () => undefined,
    );
    engine.warmUp('identify');
    delivery.warmUp();
    logger.info({ url, region: region.code, roles: [...config.roles] }, 'listening');
    return {
      url,
      storageKnown: storageBinding.known,
      async stop(options = {}) {
        const { graceMs = 0 } = options;
        stopping = true;
        crashed = options.crashed ?? false;
        announceLeaving(server);
        // Beside the rest: a worker in the middle of a render and a reader of a large file both need all the time that there is.
        const released = supervisor?.stop();
        await delay(graceMs);
        await Promise.all([released, stopAll()]);
      },
    };
  } catch (error) {
    await stopAll().catch((cause: unknown) => logger.error({ err: cause }, 'a part did not stop after a failed start'));
    throw error;
  }
}
