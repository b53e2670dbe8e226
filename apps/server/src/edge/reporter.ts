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

/** Tells the origin that this node lives, how far it has followed the events, and what it has delivered. */
export interface Reporter {
  /** For the request log: resolves when the origin has the deliveries. @throws OriginUnavailableError: keep them and try again */
  record: AssetRepository['record'];
  /** Says at once that events were acted upon. */
  acknowledge(): void;
  start(): Promise<void>;
  /** From now on, what the origin does not take is kept in the data folder for the next start instead of being refused. */
  keepUnsent(): void;
  /** Says goodbye. */
  stop(): Promise<void>;
  /** Paths that were handed over, or were left by the process before, and that the origin has not been told of. */
  readonly unsent: number;
}

/** Between two reports of a node that has nothing else to say; the origin says how long it waits for them. */
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
  let keeping = false;
  /** From before the last stop, oldest first: reported before anything newer, as the latest of a path decides. */
  let earlier: ReportedDelivery[] = [];
  const kept: ReportedDelivery[] = [];
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
      origin.standing.good();
      return;
    }
    // What an operator has to see to is told there.
    const error = origin.standing.judge({ ...answer, target });
    throw new OriginUnavailableError('The origin does not take reports.', { cause: error });
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

  const plan = () => {
    clearTimeout(timer);
    if (!stopped) timer = setTimeout(beat, heartbeatMs).unref();
  };

  const beat = () => {
    // What fails is said by the connection; the next beat tries again.
    report([])
      .catch(() => undefined)
      .finally(plan);
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
        plan();
      } catch (error) {
        if (!keeping) throw error;
        // Reporting one twice is safe, as the latest of a path decides.
        kept.push(...reported);
      } finally {
        handedOver -= reported.length;
      }
    },

    acknowledge() {
      if (waiting || stopped) return;
      waiting = true;
      // Events come in bunches; the report says how far it has come by then.
      setImmediate(() => {
        waiting = false;
        beat();
      });
    },

    async start() {
      const found = await unsent.read();
      if (found !== null && found.region !== code) {
        logger.warn(
          { lost: found.deliveries.length, region: found.region },
          'the request log of another region is dropped',
        );
        await unsent.remove();
      } else earlier = found?.deliveries ?? [];
      origin.onUp(beat);
      beat();
    },

    keepUnsent() {
      keeping = true;
    },

    async stop() {
      if (stopped) return;
      stopped = true;
      clearTimeout(timer);
      await report([], true).catch((error: unknown) => {
        logger.warn(errorFields(error), 'the origin could not be told that this node leaves');
      });
      const left = [...earlier, ...kept];
      if (left.length > 0) await unsent.write({ region: code, deliveries: left });
    },

    get unsent() {
      return earlier.length + kept.length + handedOver;
    },
  };
}

/** Whether the deliveries of a report are in good hands: anybody can say 200. */
function isReceipt(body: Buffer): boolean {
  try {
    return EdgeReportReceipt.loose().safeParse(JSON.parse(body.toString())).success;
  } catch {
    return false;
  }
}
