import {
  CONTROL_API_PREFIX,
  type EdgeReport,
  EdgeReportReceipt,
  MAX_REPORTED_DELIVERIES,
  ReportedDelivery,
} from '@mds/contract';
import { z } from 'zod';
import type { Logger } from '../base/logger.ts';
import type { AssetRepository } from '../db/delivery-repository.ts';
import { errorFields, OriginUnavailableError } from '../delivery/object-origin.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import type { OriginConnection } from './origin-connection.ts';
import type { StateFile } from './state-file.ts';

/** Deliveries that a node could not report before it stopped. */
export const UnsentDeliveries = z.strictObject({ region: z.string(), deliveries: z.array(ReportedDelivery) });
export type UnsentDeliveries = z.infer<typeof UnsentDeliveries>;

/** Reports to the origin: heartbeats, the last event that was acted upon, and deliveries. */
export interface Reporter {
  /** For the request log. Resolves when the origin has the deliveries. @throws OriginUnavailableError: they must be sent again */
  record: AssetRepository['record'];
  /** Reports at once that events were acted upon. */
  acknowledge(): void;
  start(): Promise<void>;
  /** From now on, deliveries that cannot be reported are stored for the next start, and `record` does not fail. */
  keepUnsent(): void;
  /** Reports that this node leaves. */
  stop(): Promise<void>;
  /** Deliveries of this process, and of the one before, that are not reported yet. */
  readonly unsent: number;
}

/** Between two heartbeats. The origin defines how many may be missing. */
const HEARTBEAT_MS = 5_000;

/** @param deps.eventsThrough the last event that was acted upon; null while there is none */
export function createReporter(deps: {
  origin: OriginConnection;
  region: RegionIdentity;
  nodeId: string;
  eventsThrough: () => string | null;
  unsent: StateFile<UnsentDeliveries>;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  heartbeatMs?: number;
}): Reporter {
  const { origin, region, nodeId, eventsThrough, unsent, logger } = deps;
  const { code, name, zone, country } = region;
  const heartbeatMs = deps.heartbeatMs ?? HEARTBEAT_MS;
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> = Promise.resolve();
  let waiting = false;
  let stopped = false;
  let isStoring = false;
  /** From before the last stop, oldest first. They are reported first, as the latest delivery of a path counts. */
  let earlier: ReportedDelivery[] = [];
  const failed: ReportedDelivery[] = [];
  let handedOver = 0;

  const send = async (deliveries: ReportedDelivery[], leaving: boolean) => {
    const report: EdgeReport = {
      node: nodeId,
      name,
      zone,
      country,
      events_through: eventsThrough(),
      deliveries,
      leaving,
    };
    const target = `${CONTROL_API_PREFIX}/edges/${code}/report`;
    const answer = await origin.fetch({ method: 'POST', target, json: report });
    if (answer.status === 200 && isReceipt(answer.body)) {
      origin.acceptance.noteAccepted();
      return;
    }
    // Logs what an operator must do.
    const error = origin.acceptance.noteUnexpected({ ...answer, target });
    throw new OriginUnavailableError('The origin does not accept reports.', { cause: error });
  };

  /** One report at a time, so that none overtakes another. */
  const report = (deliveries: ReportedDelivery[], leaving = false): Promise<void> => {
    const mine = sending.then(async () => {
      if (earlier.length > 0) await sendEarlier();
      await send(deliveries, leaving);
    });
    sending = mine.catch(() => undefined);
    return mine;
  };

  const sendEarlier = async () => {
    while (earlier.length > 0) {
      const batch = earlier.slice(0, MAX_REPORTED_DELIVERIES);
      await send(batch, false);
      earlier = earlier.slice(batch.length);
    }
    await unsent.remove();
  };

  const schedule = () => {
    clearTimeout(timer);
    if (!stopped) timer = setTimeout(heartbeat, heartbeatMs).unref();
  };

  const heartbeat = () => {
    // The connection logs a failure. The next heartbeat tries again.
    report([])
      .catch(() => undefined)
      .finally(schedule);
  };

  return {
    async record(deliveries) {
      const reported = deliveries.map(
        ({ path, bytes, cacheStatus, atMs }): ReportedDelivery => ({
          path,
          bytes,
          cache_status: cacheStatus,
          at_ms: Math.trunc(atMs),
        }),
      );
      handedOver += reported.length;
      try {
        for (let from = 0; from < reported.length; from += MAX_REPORTED_DELIVERIES) {
          await report(reported.slice(from, from + MAX_REPORTED_DELIVERIES));
        }
        schedule();
      } catch (error) {
        if (!isStoring) throw error;
        // Reporting a delivery twice is safe, as the latest of a path counts.
        failed.push(...reported);
      } finally {
        handedOver -= reported.length;
      }
    },

    acknowledge() {
      if (waiting || stopped) return;
      waiting = true;
      // Events arrive in groups. One report covers the whole group.
      setImmediate(() => {
        waiting = false;
        heartbeat();
      });
    },

    async start() {
      const found = await unsent.read();
      if (found !== null && found.region !== code) {
        logger.warn(
          { lost: found.deliveries.length, region: found.region },
          'unreported deliveries of another region dropped',
        );
        await unsent.remove();
      } else earlier = found?.deliveries ?? [];
      origin.onUp(heartbeat);
      heartbeat();
    },

    keepUnsent() {
      isStoring = true;
    },

    async stop() {
      if (stopped) return;
      stopped = true;
      clearTimeout(timer);
      await report([], true).catch((error: unknown) => {
        logger.warn(errorFields(error), 'leaving could not be reported to the origin');
      });
      const left = [...earlier, ...failed];
      if (left.length > 0) await unsent.write({ region: code, deliveries: left });
    },

    get unsent() {
      return earlier.length + failed.length + handedOver;
    },
  };
}

/** Whether the origin has stored the deliveries: any program may answer 200. */
function isReceipt(body: Buffer): boolean {
  try {
    return EdgeReportReceipt.loose().safeParse(JSON.parse(body.toString())).success;
  } catch {
    return false;
  }
}
