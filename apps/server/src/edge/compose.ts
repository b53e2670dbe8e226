import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import { createTeardown } from '../base/teardown.ts';
import { createDelivery } from '../delivery/delivery.ts';
import { createRequestLog } from '../delivery/request-log.ts';
import type { DeliverySettings } from '../delivery/settings.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import { apiProbe, deliveryProbe } from '../status/probes.ts';
import { createStatusBoard } from '../status/status-board.ts';
import { createEventActions } from './event-actions.ts';
import { createEventFollower, EventPosition } from './event-follower.ts';
import { createOriginConnection } from './origin-connection.ts';
import { createOriginObjects } from './origin-objects.ts';
import { createOriginResolver } from './origin-resolver.ts';
import { createPathJournal } from './path-journal.ts';
import { createReadThrough } from './read-through.ts';
import { createReporter, UnsentDeliveries } from './reporter.ts';
import { createStateFile } from './state-file.ts';
import { cacheFolderProbe, originProbe } from './status-probes.ts';

/** Deliveries that wait to be reported while the origin is away, at most. */
const MAX_UNREPORTED = 50_000;

/** The parts of a point of presence: what it asks its origin for, what it caches, and what it reports. */
export function composeEdgeParts(parts: {
  settings: DeliverySettings;
  originUrl: string;
  /** An operator token of the origin. */
  token: string;
  region: RegionIdentity;
  dataDir: { root: string; nodeId: string; cacheDir: string };
  publicUrl(): string;
  logger: Logger;
}) {
  const { settings, originUrl, token, region, dataDir, publicUrl, logger } = parts;
  const inDataDir = (name: string) => join(dataDir.root, name);
  const origin = createOriginConnection({ originUrl, token, userAgent: `mds-edge/1 (${region.code})`, logger });
  const journal = createPathJournal({ file: inDataDir('known-paths.jsonl'), originUrl, logger });
  const isFollowing = () => follower.isFollowing;
  const resolver = createOriginResolver({ origin, journal, region: region.code, publicUrl, isFollowing });
  let acted: string | null = null;
  const reporter = createReporter({
    ...{ origin, region, logger },
    nodeId: dataDir.nodeId,
    // A receipt must hold for the next start of this node as well.
    eventsThrough() {
      if (journal.hasForgotten) acted = follower.through;
      return acted;
    },
    unsent: createStateFile(inDataDir('unsent-deliveries.json'), UnsentDeliveries),
  });
  const requestLog = createRequestLog({ assets: reporter, maxPending: MAX_UNREPORTED, logger });
  const delivery = createDelivery({
    ...{ resolver, requestLog, logger },
    origin: createOriginObjects({ origin, region: region.code }),
    region: region.code,
    memoryCacheBytes: settings.memoryCacheBytes,
    diskCache: { dir: dataDir.cacheDir, maxBytes: settings.cacheBytes },
    // The origin stores them.
    keepDigests: async () => undefined,
  });
  const readThrough = createReadThrough({ origin, region });
  const position = createStateFile(inDataDir('events-through.json'), EventPosition);
  const actions = createEventActions({ delivery, resolver, readThrough, journal, reporter });
  const follower = createEventFollower({
    ...{ origin, originUrl, logger, actions, region: region.code },
    position: {
      ...position,
      async write(content) {
        // Once the position has passed an event, the origin does not send it again: what it removed must be on disk.
        await journal.sync();
        await position.write(content);
      },
    },
  });
  const status = createStatusBoard({
    ...{ region, logger },
    // The origin answers for other regions and for the whole.
    regionMonitor: { states: async () => [] },
    probes: [
      apiProbe(),
      deliveryProbe(delivery),
      cacheFolderProbe(dataDir.cacheDir, () => delivery.stats.diskFailing),
      originProbe({ origin, follower }),
    ],
  });
  const teardown = createTeardown('parts of the point of presence');
  teardown.add(() => origin.stop());
  teardown.add(() => journal.stop());
  teardown.add(() => delivery.stop());

  return {
    ...{ origin, delivery, readThrough, status },
    /** Begins to follow and to report. Manifests name the address of this node, so it must be known. */
    async start() {
      resolver.restore(await journal.read());
      journal.start(() => resolver.known());
      await follower.start();
      await reporter.start();
      teardown.add(() => reporter.stop());
      teardown.add(() => follower.stop());
      requestLog.start();
      teardown.add(() => requestLog.stop());
      teardown.add(() => reporter.keepUnsent());
      await status.start();
      teardown.add(() => status.stop());
    },
    stop: teardown.run,
    figures: () => ({
      originUp: origin.isUp && origin.acceptance.refusal === null,
      eventsLagMs: follower.isFollowing ? 0 : performance.now() - follower.upToDateAtMs,
      unreported: requestLog.stats.pending + reporter.unsent,
      purges: actions.purges,
      reads: readThrough.stats,
    }),
  };
}
