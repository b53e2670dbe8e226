import { setTimeout as delay } from 'node:timers/promises';
import { api } from '@mds/contract';
import type { Express } from 'express';
import { createApp } from './app.ts';
import type { Logger } from './base/logger.ts';
import { ConfigError } from './base/settings.ts';
import { createTeardown, startAll } from './base/teardown.ts';
import type { Config } from './config.ts';
import { composeEdgeParts } from './edge/compose.ts';
import { mountControlRefusal } from './edge/control-refusal.ts';
import { mountReadThrough } from './edge/read-through.ts';
import { allowEveryOrigin } from './http/cors.ts';
import { answerJson } from './http/json-answers.ts';
import { refuseOtherMethods } from './http/methods.ts';
import { listen } from './listen.ts';
import { announceLeaving, createHttpServer, drainServer } from './listener/http-server.ts';
import { createMetrics } from './listener/metrics.ts';
import { createRequestListener } from './listener/request-listener.ts';
import { resolveRegion } from './regions/region-setting.ts';
import type { Service } from './service.ts';
import type { StatusBoard } from './status/status-board.ts';
import { openDataDir } from './storage/data-dir.ts';

/**
 * Builds and starts a point of presence of a service elsewhere. It delivers the service's media out of its own caches. Apart from the
 * deliveries that are not reported yet, it stores nothing that it could not fetch again.
 * @throws ConfigError, DataDirError, ListenError: the operator must act; nothing is left running. An origin that is away is no error
 */
export async function composeEdge(config: Config, logger: Logger): Promise<Service> {
  const region = resolveRegion(config.region);
  const { originUrl, controlToken: token } = config;
  if (originUrl === null || token === null) throw new ConfigError(['MDS_ORIGIN_URL and MDS_CONTROL_TOKEN are needed']);
  const dataDir = await openDataDir(config.dataDir, { exclusive: true, cacheOnly: true });
  const teardown = createTeardown('parts of the point of presence');
  teardown.add(() => dataDir.release());
  let publicUrl = config.publicUrl ?? '';
  let stopping = false;
  return startAll(teardown, logger, async () => {
    const parts = composeEdgeParts({
      ...{ settings: config, originUrl, token, region, dataDir, logger },
      publicUrl: () => publicUrl,
    });
    teardown.add(() => parts.stop());
    const { origin, delivery, readThrough, status } = parts;
    const metrics = createMetrics({
      deliveries: () => delivery.stats,
      ...{ queue: null, workers: null, ingest: null },
      edge: parts.figures,
    });
    const app = createApp({
      ...{ logger, metrics, read: null, control: null },
      publicUrl: () => publicUrl,
      async notReady() {
        if (stopping) return 'This process is stopping.';
        // While the origin is away the node is ready, as it serves its caches. It is not if the origin has never accepted it.
        return origin.acceptance.wasEverAccepted ? null : origin.acceptance.refusal;
      },
      instead(app) {
        mountStatus(app, status);
        mountReadThrough(app, readThrough);
        mountControlRefusal(app, { originUrl, token });
      },
    });
    const server = createHttpServer(createRequestListener({ app, delivery, versions: null, metrics, logger }));
    const url = await listen(server, config);
    publicUrl = config.publicUrl ?? url;
    await parts.start();
    teardown.add(() => drainServer(server));
    await dataDir.announce({ url });
    logger.info({ url, region: region.code, origin: originUrl }, 'listening');
    return {
      url,
      storageKnown: Promise.resolve(),
      startInBackground: () => undefined,
      async stop({ graceMs = 0 } = {}) {
        stopping = true;
        announceLeaving(server);
        await delay(graceMs);
        await teardown.run();
      },
    };
  });
}

/** This node's own state; the only answer of the read API that it makes itself. */
function mountStatus(app: Express, status: StatusBoard): void {
  const { path } = api.read.status.get;
  app.use(path, allowEveryOrigin);
  app.get(path, async (req, res) => {
    const document = await status.document();
    answerJson(req, res, 'no-store');
    res.json(document);
  });
  app.all(path, refuseOtherMethods(['GET']));
}
