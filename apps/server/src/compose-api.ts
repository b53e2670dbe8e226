import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.ts';
import type { Logger } from './base/logger.ts';
import { createTeardown, startAll, type Teardown } from './base/teardown.ts';
import { superviseWorker } from './compose-worker.ts';
import { type Config, secretsOf } from './config.ts';
import { DEFAULT_PROJECT } from './db/default-project.ts';
import { composeDelivery, KEPT_ASSETS } from './delivery/compose.ts';
import { createEventStream } from './events/event-stream.ts';
import { createNodeFollower } from './events/node-follower.ts';
import { composeFetches } from './fetches/compose.ts';
import { createRestartableFetchRunner, recoverFetches } from './fetches/fetch-runner.ts';
import { type Foundation, layFoundation } from './foundation.ts';
import { composeIngest } from './ingest/compose.ts';
import { createLeaseMonitor, recoverLeases } from './jobs/lease-monitor.ts';
import { createQueueLimit } from './jobs/queue-limit.ts';
import { listen } from './listen.ts';
import { createAdmission } from './listener/admission.ts';
import { announceLeaving, createHttpServer, drainServer } from './listener/http-server.ts';
import { createMetrics } from './listener/metrics.ts';
import { createOverloadGuard } from './listener/overload.ts';
import { createRequestListener } from './listener/request-listener.ts';
import { composeMigration } from './migration/compose.ts';
import { createWriteGate } from './migration/write-gate.ts';
import { createFormatCatalogue } from './processing/format-catalogue.ts';
import { createMediaVerifier } from './processing/media-verifier.ts';
import { createRegionMonitor } from './regions/region-monitor.ts';
import { resolveRegion } from './regions/region-setting.ts';
import type { Service } from './service.ts';
import { composeStatus } from './status/compose.ts';
import { composeUploads } from './uploads/compose.ts';

/** State that changes while the service runs. */
interface ServiceState {
  /** Base address that clients use; known once the service listens. */
  publicUrl: string;
  stopping: boolean;
  /** An unexpected error is the reason for the stop. */
  crashed: boolean;
}

type Parts = ReturnType<typeof composeParts>;

/**
 * Builds and starts the parts of the role `api` and of the roles beside it. The role `worker` runs in a process of its own that is kept
 * alive.
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ListenError: the operator must act; nothing is left running
 */
export async function composeApi(config: Config, logger: Logger): Promise<Service> {
  const foundation = await layFoundation(config, logger);
  const { dataDir, engine, storageBinding } = foundation;
  const teardown = createTeardown('parts of the service');
  teardown.add(foundation.close);
  teardown.add(() => engine.stop());
  const state: ServiceState = { publicUrl: config.publicUrl ?? '', stopping: false, crashed: false };
  return startAll(teardown, logger, async () => {
    await recover(foundation, teardown, logger);
    const token = await registerToken(foundation, config.controlToken);
    const parts = composeParts(config, foundation, state, logger);
    const { region, supervisor, delivery, uploads, fetchRunner, migrations, eventStream } = parts;
    const startInBackground = await startParts(parts, foundation, teardown, logger);
    const server = createServer(config, foundation, parts, state, token, logger);
    await uploads.start();
    const url = await listen(server, config);
    state.publicUrl = config.publicUrl ?? url;
    teardown.add(() => drainServer(server));
    // Readers of events and slow senders keep their connections, and so the server, open for ever.
    teardown.add(() => eventStream.stop());
    teardown.add(() => uploads.endBodies());
    teardown.add(() => {
      state.stopping = true;
    });
    teardown.add(() => fetchRunner.stop({ crashed: state.crashed }));
    teardown.add(() => migrations.migration?.stop());
    await Promise.all([fetchRunner.start(), dataDir.announce({ url })]);
    logger.info({ url, region: region.code, roles: config.roles }, 'listening');
    return {
      url,
      storageKnown: storageBinding.known,
      startInBackground() {
        startInBackground();
        engine.warmUp('identify');
        delivery.delivery.warmUp();
      },
      async stop({ graceMs = 0, crashed = false } = {}) {
        state.stopping = true;
        state.crashed = crashed;
        announceLeaving(server);
        // A worker in the middle of a render and a reader of a large file both need all the time that there is.
        const released = supervisor?.stop();
        await delay(graceMs);
        await Promise.all([released, teardown.run()]);
      },
    };
  });
}

/** Takes up what an earlier process left unfinished. */
async function recover({ repositories }: Foundation, teardown: Teardown, logger: Logger): Promise<void> {
  const { jobs, fetches, pieceDigests, shared } = repositories;
  if (!shared) {
    // No other process can hold them. In a shared database, missing heartbeats show whose leases have ended.
    await recoverLeases(jobs);
    await recoverFetches(fetches);
  }
  // With millions of media this takes long. If it fails, the next start tries again.
  const dropped = pieceDigests
    .dropUnneeded()
    .catch((error: unknown) => logger.warn({ err: error }, 'unneeded digests could not be dropped'));
  teardown.add(() => dropped);
  const stranded = await jobs.adoptStranded();
  if (stranded > 0) logger.error({ stranded }, 'media without a place in the queue were queued again');
}

/** Makes the operator's token valid. @returns it */
async function registerToken({ dataDir, repositories }: Foundation, configured: string | null): Promise<string> {
  const token = await dataDir.controlToken(configured);
  await repositories.projects.putToken({
    sha256: createHash('sha256').update(token).digest('hex'),
    // It replaces the token of the same name. Each node that has generated its own keeps it.
    name: repositories.shared && configured === null ? `operator token of ${dataDir.nodeId}` : 'first operator token',
    projectId: DEFAULT_PROJECT,
    scope: 'operate',
  });
  return token;
}

/** Makes the parts and connects them. Only those that need no order of their own run already. */
function composeParts(config: Config, foundation: Foundation, state: ServiceState, logger: Logger) {
  const { dataDir, repositories, store, storageBinding, isStoreRemote, originalsLock: lock, engine } = foundation;
  const { media, jobs, regions, events, shared } = repositories;
  const common = { repositories, settings: config, store, dataDir, engine, lock, logger };
  const region = resolveRegion(config.region);
  const supervisor = config.roles.includes('worker') ? superviseWorker(config, jobs, logger) : null;
  const delivery = composeDelivery({
    ...common,
    isStoreRemote,
    region: region.code,
    publicUrl: () => state.publicUrl,
  });
  const { evict } = delivery.delivery;
  const queueLimit = createQueueLimit({ media, maxQueued: config.maxQueuedJobs, shared });
  const ingest = composeIngest({
    ...common,
    onAccepted({ projectId }) {
      queueLimit.queued(projectId);
      supervisor?.wake();
    },
    onRemoved: evict,
    isMoving: () => ['running', 'done'].includes(migrations.migration?.current()?.state ?? ''),
  });
  const writes = createWriteGate();
  const mayRemove = () => storageBinding.holds;
  const uploads = composeUploads({ ...common, ...ingest, isStoreRemote, mayRemove, writes });
  const fetches = composeFetches({ ...common, ...ingest });
  const fetchRunner = createRestartableFetchRunner(() => fetches.createRunner());
  const migrations = composeMigration({ ...common, writes, fetchRunner, supervisor });
  const verifier = createMediaVerifier({
    ...{ media, store, lock, logger, presets: foundation.presets },
    onRederive(ids) {
      for (const id of ids) evict(id);
      supervisor?.wake();
    },
  });
  const formats = createFormatCatalogue({ engine, proofs: repositories.formatProofs, logger });
  const regionMonitor = createRegionMonitor({ regions, events, self: region, nodeId: dataDir.nodeId, logger });
  const status = composeStatus({ ...common, region, regionMonitor, delivery: delivery.delivery, formats });
  const follower = createNodeFollower({
    ...{ events, regions, logger, delivery: delivery.delivery },
    self: { id: dataDir.nodeId, region: region.code },
  });
  const eventStream = createEventStream({ events, jobs, logger });
  return {
    ...{ region, supervisor, delivery, queueLimit, ingest, writes, uploads, fetchRunner, migrations, verifier },
    ...{ formats, regionMonitor, status, follower, eventStream },
  };
}

/**
 * Starts the parts that the first request needs.
 * @returns starts the others, which would delay the moment at which the service listens
 */
async function startParts(
  parts: Parts,
  { repositories, storageBinding }: Foundation,
  teardown: Teardown,
  logger: Logger,
): Promise<() => void> {
  const { supervisor, formats, delivery, uploads, ingest, regionMonitor, status, follower, eventStream } = parts;
  const leases = createLeaseMonitor({ jobs: repositories.jobs, logger });
  leases.start();
  teardown.add(() => leases.stop());
  teardown.add(() => supervisor?.stop());
  let formatsKnown = Promise.resolve();
  teardown.add(async () => {
    await formats.stop();
    await formatsKnown;
  });
  teardown.add(() => delivery.stop());
  teardown.add(() => uploads.stop());
  teardown.add(() => ingest.stop());
  await regionMonitor.start();
  teardown.add(() => regionMonitor.stop());
  teardown.add(() => status.stop());
  // A node that is alone has done everything itself.
  if (repositories.shared) await follower.start();
  teardown.add(() => follower.stop());
  await eventStream.start();
  return () => {
    supervisor?.start();
    // If it is another deployment's storage, `storageKnown` ends the process.
    storageBinding.known.then(
      () => ingest.removalSweep.start(),
      () => undefined,
    );
    status.start().catch((error: unknown) => logger.error({ err: error }, 'a round of probes failed'));
    formatsKnown = formats
      .start()
      .catch((error: unknown) => logger.error({ err: error }, 'the stored proofs of the formats could not be read'));
    formatsKnown
      .then(() => status.settle())
      .catch((error: unknown) => logger.error({ err: error }, 'a round of probes failed'));
  };
}

/** The HTTP server over all parts. */
function createServer(
  config: Config,
  { dataDir, repositories, presets }: Foundation,
  parts: Parts,
  state: ServiceState,
  token: string,
  logger: Logger,
) {
  const { media, jobs, assets, regions, projects, events, fetches } = repositories;
  const { supervisor, queueLimit, uploads, fetchRunner, migrations, verifier, writes } = parts;
  const { formats, regionMonitor, status, eventStream } = parts;
  const { delivery, resolver, resolverFor } = parts.delivery;
  const { ingest, removal } = parts.ingest;
  const publicUrl = () => state.publicUrl;
  const metrics = createMetrics({
    deliveries: () => delivery.stats,
    queue: () => jobs.counts(),
    workers: async () => (await jobs.workers()).length,
    ingest: () => ingest.stats,
    regions: regionMonitor.overview,
    uploads: () => uploads.stats(),
  });
  const app = createApp({
    ...{ logger, publicUrl, metrics },
    async notReady() {
      if (state.stopping) return 'This process is stopping.';
      return repositories.probe().then(
        () => null,
        () => 'The database does not answer.',
      );
    },
    read: { media, assets, regions, projects, regionMonitor, statusBoard: status, formats, presets },
    control: {
      ...{ projects, media, jobs, presets, events: eventStream, queueLimit, ingest, uploads, removal, verifier },
      ...{ migrations, writes, rateLimit: config.rateLimit, uploadOrigins: config.uploadOrigins },
      hidden: { ...secretsOf(config), [dataDir.root]: 'DATA', [token]: 'TOKEN' },
      fetches: { fetches, runner: fetchRunner },
      wakeWorkers: () => supervisor?.wake(),
      regions: { regions, regionMonitor, events, regionsChanged: () => status.refreshRegions() },
      cache: { media, events, regionMonitor, resolver, delivery },
      edges: {
        ...{ regions, assets, keptAssets: KEPT_ASSETS, regionMonitor, events: eventStream, delivery },
        resolverFor: (baseUrl) => resolverFor(() => baseUrl),
      },
    },
  });
  const guard = createOverloadGuard(logger, createAdmission({ databaseWaitMs: repositories.waitMs }));
  const listener = createRequestListener({
    ...{ app, metrics, logger, guard, versions: repositories.versions },
    delivery: config.roles.includes('edge') ? delivery : null,
  });
  return createHttpServer(listener);
}
