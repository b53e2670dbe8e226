import type { ServiceStatus } from '@mds/contract';
import type { RegionNodeRecord, RegionRecord, RegionRepository } from '../db/delivery-repository.ts';
import type { EventRepository } from '../db/event-repository.ts';
import type { Logger } from '../logger.ts';
import { createBeatWatch } from './beat-watch.ts';
import type { RegionIdentity } from './region-identity.ts';
import { createSettled, type Settled } from './settled.ts';

/** A node beats this often; one that missed this many beats counts as gone. */
export const HEARTBEAT_MS = 5_000;
export const MISSED_BEATS = 3;

/** A silent node is forgotten after this time where others serve its region, and where nobody does. */
const FORGET_REPLACED_MS = 10 * 60_000;
const FORGET_OUTAGE_MS = 24 * 3_600_000;

/** A region that is served, with its state. */
export type RegionState = RegionRecord & { status: ServiceStatus };

export interface RegionMonitorParts {
  regions: RegionRepository;
  /** Told of every change of a region's measured state. */
  events?: Pick<EventRepository, 'append'>;
  /** The region that this node serves. */
  self: RegionIdentity;
  /** Stable over restarts of the same node, so that it takes its own place again after a crash. */
  nodeId: string;
  logger: Logger;
  /** Milliseconds that never jump. */
  monotonicNow?: () => number;
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
  intervalMs?: number;
}

/** This node's heartbeat, and what the heartbeats of all nodes say about their regions. */
export interface RegionMonitor {
  /** Registers the region, beats once and looks around, then goes on in the background. */
  start(): Promise<void>;
  /** Says goodbye: the node leaves its region at once. */
  stop(): Promise<void>;
  /** The regions that are served, by code. Maintenance shows at once; an outage when two looks in a row agree on it. */
  states(): Promise<RegionState[]>;
  /** One beat and one look: what the background does every {@link HEARTBEAT_MS}. */
  tick(): Promise<void>;
}

/** `null`: no node serves the region, as all have said goodbye. Then it is not listed. */
type Measured = Exclude<ServiceStatus, 'under_maintenance' | 'degraded_performance'> | null;

/** {@link RegionMonitor} over the repository that all nodes share. */
export function createRegionMonitor(parts: RegionMonitorParts): RegionMonitor {
  const { regions, self, nodeId, logger } = parts;
  const intervalMs = parts.intervalMs ?? HEARTBEAT_MS;
  const now = parts.now ?? Date.now;
  const watch = createBeatWatch(parts.monotonicNow ?? (() => performance.now()));
  const measured = new Map<string, { settled: Settled<Measured>; state: Measured }>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | null = null;
  let stopped = false;

  const lives = (node: RegionNodeRecord) => (watch.silentMs(node.id) ?? 0) < MISSED_BEATS * intervalMs;

  const measure = (nodes: RegionNodeRecord[]): Measured => {
    if (nodes.length === 0) return null;
    const living = nodes.filter(lives).length;
    if (living === nodes.length) return 'operational';
    return living > 0 ? 'partial_outage' : 'major_outage';
  };

  const forgetLongGone = async (nodes: RegionNodeRecord[]) => {
    for (const node of nodes) {
      const replaced = nodes.some((other) => other.region === node.region && lives(other));
      const patience = replaced ? FORGET_REPLACED_MS : FORGET_OUTAGE_MS;
      if ((watch.silentMs(node.id) ?? 0) >= patience) {
        logger.info({ node: node.id, region: node.region }, 'a node that is long gone is forgotten');
        await regions.removeNode(node.id);
      }
    }
  };

  const look = async () => {
    const nodes = await regions.nodes();
    watch.observe(nodes);
    const codes = new Set([...measured.keys(), ...nodes.map(({ region }) => region)]);
    for (const code of codes) {
      const entry = measured.get(code) ?? { settled: createSettled<Measured>(), state: null };
      const before = entry.state;
      entry.state = entry.settled.observe(measure(nodes.filter(({ region }) => region === code)));
      if (measured.has(code) && before !== entry.state) {
        logger.info({ region: code, from: before, to: entry.state }, 'the state of a region changed');
        if (entry.state !== null) {
          const data = { code, status: entry.state };
          await parts.events?.append({ projectId: null, type: 'region.status_changed', data });
        }
      }
      measured.set(code, entry);
    }
    await forgetLongGone(nodes);
  };

  const beatAndLook = async () => {
    await regions.heartbeat({ id: nodeId, region: self.code, atMs: now() });
    await look();
  };

  const tick = (): Promise<void> => {
    running ??= beatAndLook().finally(() => {
      running = null;
    });
    return running;
  };

  const register = async () => {
    const known = await regions.find(self.code);
    await regions.put({ ...self, maintenance: known?.maintenance ?? false });
    // A wall clock that was far ahead may take living nodes with it: they are back with their next beat.
    await regions.removeNodesSeenBefore(now() - FORGET_OUTAGE_MS);
  };

  const inBackground = () => {
    tick().catch((error: unknown) => {
      logger.warn({ err: error }, 'the heartbeat of this region failed; it is tried again');
    });
  };

  return {
    async start() {
      await register();
      await tick();
      timer = setInterval(inBackground, intervalMs).unref();
    },

    async stop() {
      if (stopped) return;
      stopped = true;
      clearInterval(timer);
      await running?.catch(() => undefined);
      await regions.removeNode(nodeId);
    },

    async states() {
      const records = await regions.list();
      return records
        .flatMap((record): RegionState[] => {
          const state = measured.get(record.code)?.state ?? null;
          if (record.maintenance) return [{ ...record, status: 'under_maintenance' }];
          return state === null ? [] : [{ ...record, status: state }];
        })
        .sort((a, b) => (a.code < b.code ? -1 : 1));
    },

    tick,
  };
}
