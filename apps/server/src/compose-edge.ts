import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { api } from '@mds/contract';
import type { Express } from 'express';
import { createApp } from './app.ts';
import type { Logger } from './base/logger.ts';
import type { Service } from './compose.ts';
import { type Config, ConfigError } from './config.ts';
import { openDataDir } from './data-dir.ts';
import { createDelivery } from './delivery/delivery.ts';
import { createRequestLog } from './delivery/request-log.ts';
import { createEventActions } from './edge/event-actions.ts';
import { createEventFollower, EventPosition } from './edge/event-follower.ts';
import { createOriginConnection } from './edge/origin-connection.ts';
import { createOriginObjects } from './edge/origin-objects.ts';
import { createOriginResolver } from './edge/origin-resolver.ts';
import { createPathJournal } from './edge/path-journal.ts';
import { createReadThrough, mountReadThrough } from './edge/read-through.ts';
import { createReporter, UnsentDeliveries } from './edge/reporter.ts';
import { mountSignpost } from './edge/signpost.ts';
import { createStateFile } from './edge/state-file.ts';
import { cacheFolderProbe, originProbe } from './edge/status-probes.ts';
import { allowEveryOrigin } from './http/cors.ts';
import { answerJson } from './http/json-answers.ts';
import { refuseOtherMethods } from './http/methods.ts';
import { listen } from './listen.ts';
import { announceLeaving, createHttpServer, drainServer } from './listener/http-server.ts';
import { createMetrics } from './listener/metrics.ts';
import { createRequestListener } from './listener/request-listener.ts';
import { resolveRegion } from './regions/region-setting.ts';
import { apiProbe, deliveryProbe } from './status/probes.ts';
import { createStatusBoard } from './status/status-board.ts';

/** Paths that wait for an origin that is away, at most. */
const MAX_UNREPORTED = 50_000;

/**
 * Builds and starts a point of presence that belongs to a service elsewhere: it delivers out of its own caches what that service has,
 * and keeps nothing that could not be fetched again but the request log that is not reported yet.
 * @throws ConfigError, DataDirError, ListenError: what the operator must see to; nothing is left running. An origin that is away is none
 */
export async function composeEdge(config: Config, logger: Logger): Promise<Service> {
  const region = resolveRegion(config.region);
  const { originUrl, controlToken: token } = config;
  if (originUrl === null || token === null) throw new ConfigError(['MDS_ORIGIN_URL and MDS_CONTROL_TOKEN are needed']);
  const dataDir = await openDataDir(config.dataDir, { exclusive: true, cacheOnly: true });
  /** Run in reverse order on stop, or when the start fails half-way. */
  const undo: (() => Promise<unknown>)[] = [() => dataDir.release()];
  const stopAll = async () => {
    const errors: unknown[] = [];
    for (const step of undo.splice(0).reverse()) await step().catch((error: unknown) => errors.push(error));
    if (errors.length > 0)
      throw new AggregateError(errors, 'parts of the point of presence did not stop in good order');
  };

  try {
    let publicUrl = config.publicUrl ?? '';
    const origin = createOriginConnection({ originUrl, token, userAgent: `mds-edge/1 (${region.code})`, logger });
    undo.push(async () => origin.stop());

    const journal = createPathJournal({ file: join(dataDir.root, 'known-paths.jsonl'), originUrl, logger });
    undo.push(() => journal.stop());
    const resolver = createOriginResolver({
      ...{ origin, journal },
      region: region.code,
      publicUrl: () => publicUrl,
      isFollowing: () => follower.isFollowing,
    });
    let acted: string | null = null;
    /** A receipt holds for this node's next start as well. */
    const actedThrough = () => {
      if (journal.hasForgotten) acted = follower.through;
      return acted;
    };
    const reporter = createReporter({
      origin,
      region,
      nodeId: dataDir.nodeId,
      eventsThrough: actedThrough,
      unsent: createStateFile(join(dataDir.root, 'unsent-deliveries.json'), UnsentDeliveries),
      logger,
    });
    const requestLog = createRequestLog({ assets: reporter, maxPending: MAX_UNREPORTED, logger });
    const delivery = createDelivery({
      origin: createOriginObjects({ origin, region: region.code }),
      resolver,
      region: region.code,
      memoryCacheBytes: config.memoryCacheBytes,
      diskCache: { dir: dataDir.cacheDir, maxBytes: config.cacheBytes },
      // They are the origin's to keep.
      keepDigests: async () => undefined,
      requestLog,
      logger,
    });
    undo.push(() => delivery.stop());
    const readThrough = createReadThrough({ origin, region });
    const position = createStateFile(join(dataDir.root, 'events-through.json'), EventPosition);
    const actions = createEventActions({ delivery, resolver, readThrough, journal, reporter });
    const follower = createEventFollower({
      ...{ origin, originUrl, logger, region: region.code },
      actions,
      position: {
        ...position,
        async write(content) {
          // What events had this node forget is not told again once the position has passed them.
          await journal.sync();
          await position.write(content);
        },
      },
    });

    const status = createStatusBoard({
      region,
      // Of other regions, and of the whole, the origin tells.
      regionMonitor: { states: async () => [] },
      logger,
      probes: [
        apiProbe(),
        deliveryProbe(delivery),
        cacheFolderProbe(dataDir.cacheDir, () => delivery.stats.diskFailing),
        originProbe({ origin, follower }),
      ],
    });

    let stopping = false;
    /** While the origin is away the node is ready: what is held is served. Not where the origin has never taken it for one of its own. */
    const neverServed = () => (origin.standing.wasGood ? null : origin.standing.trouble);
    const metrics = createMetrics({
      deliveries: () => delivery.stats,
      ...{ queue: null, workers: null, ingest: null },
      edge: () => ({
        originUp: origin.isUp && origin.standing.trouble === null,
        eventsLagMs: follower.isFollowing ? 0 : performance.now() - follower.upToDateAtMs,
        unreported: requestLog.stats.pending + reporter.unsent,
        purges: actions.purges,
        reads: readThrough.stats,
      }),
    });
    const app = createApp({
      logger,
      publicUrl: () => publicUrl,
      metrics,
      notReady: async () => (stopping ? 'This process is stopping.' : neverServed()),
      read: null,
      control: null,
      instead(app) {
        mountStatus(app, status);
        mountReadThrough(app, readThrough);
        mountSignpost(app, { originUrl, token });
      },
    });
    const server = createHttpServer(createRequestListener({ app, delivery, versions: null, metrics, logger }));
    const url = await listen(server, config);
    publicUrl = config.publicUrl ?? url;

    // Manifests name this address, which is known from now on.
    resolver.restore(await journal.read());
    journal.start(() => resolver.known());
    await follower.start();
    await reporter.start();
    undo.push(() => reporter.stop());
    undo.push(() => follower.stop());
    requestLog.start();
    undo.push(() => requestLog.stop());
    undo.push(async () => reporter.keepUnsent());
    await status.start();
    undo.push(() => status.stop());
    undo.push(() => drainServer(server));

    await dataDir.announce({ url });
    logger.info({ url, region: region.code, origin: originUrl }, 'listening');
    return {
      url,
      storageKnown: Promise.resolve(),
      async stop({ graceMs = 0 } = {}) {
        stopping = true;
        announceLeaving(server);
        await delay(graceMs);
        await stopAll();
      },
    };
  } catch (error) {
    await stopAll().catch((cause: unknown) => logger.error({ err: cause }, 'a part did not stop after a failed start'));
    throw error;
  }
}

/** This node's own state; the only answer of the read API that it makes itself. */
function mountStatus(app: Express, status: ReturnType<typeof createStatusBoard>): void {
  const { path } = api.read.status.get;
  app.use(path, allowEveryOrigin);
  app.get(path, (req, res) => {
    answerJson(req, res, 'no-store');
    res.json(status.document());
  });
  app.all(path, refuseOtherMethods(['GET']));
}
