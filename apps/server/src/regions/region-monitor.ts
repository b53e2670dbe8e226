import type { ServiceStatus } from '@mds/contract';
import type { Logger } from '../base/logger.ts';
import type { RegionNodeRecord, RegionRecord, RegionRepository } from '../db/delivery-repository.ts';
import type { EventRepository } from '../db/event-repository.ts';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import type { RegionIdentity } from './region-identity.ts';
import { createSettled, type Settled } from './settled.ts';

/** Between two heartbeats of a node. A node that missed this many counts as gone. */
export const HEARTBEAT_MS = 5_000;
export const MISSED_BEATS = 3;
/** Between two checks. An outage shows two checks after the third missed heartbeat: within 20 s. */
const CHECK_MS = 1_000;

/** A silent node is removed after this time, if others serve its region, and if none does. */
const FORGET_REPLACED_MS = 10 * 60_000;
const FORGET_OUTAGE_MS = 24 * 3_600_000;

/** A region that is served, with its state. */
export type RegionState = RegionRecord & { status: ServiceStatus };

/** A region as its operator sees it; `status` null: no node serves it. */
export type RegionOverview = RegionRecord & { status: ServiceStatus | null; nodes: NodeState[] };

/** A node, and whether its heartbeats arrive. */
export type NodeState = RegionNodeRecord & { alive: boolean };

export interface RegionMonitorParts {
  regions: RegionRepository;
  /** Every change of a region's measured state is appended. */
  events?: Pick<EventRepository, 'append'>;
  /** The region that this node serves. */
  self: RegionIdentity;
  /** The same after a restart, so that a node replaces its own record after a crash. */
  nodeId: string;
  logger: Logger;
  /** Milliseconds that never jump. */
  monotonicNow?: () => number;
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
  intervalMs?: number;
  checkMs?: number;
}

/** Sends this node's heartbeat, and derives the states of regions from the heartbeats of all nodes. */
export interface RegionMonitor {
  /** Registers the region, sends one heartbeat and checks once, then continues in the background. */
  start(): Promise<void>;
  /** The node leaves its region at once. */
  stop(): Promise<void>;
  /** The regions that are served, by code. Maintenance shows at once, an outage after two checks in a row agree. */
  states(): Promise<RegionState[]>;
  /** Every region that is known, by code, with its nodes. */
  overview(): Promise<RegionOverview[]>;
  /** Every node that is known, by region and name. */
  nodes(): Promise<NodeState[]>;
  /** Calls back when the measured state of a region has changed. */
  onChanged(listener: () => void): void;
  /** This node. */
  readonly nodeId: string;
  /** One heartbeat and one check. In the background, checks are more frequent than heartbeats. */
  tick(): Promise<void>;
}

/** `null`: every node has left the region. It is not listed. */
type Measured = Exclude<ServiceStatus, 'under_maintenance' | 'degraded_performance'> | null;

/** {@link RegionMonitor} over the repository that all nodes share. */
export function createRegionMonitor(parts: RegionMonitorParts): RegionMonitor {
  const { regions, self, nodeId, logger } = parts;
  const intervalMs = parts.intervalMs ?? HEARTBEAT_MS;
  const now = parts.now ?? Date.now;
  const checkMs = parts.checkMs ?? CHECK_MS;
  const watch = createHeartbeatWatch(parts.monotonicNow ?? (() => performance.now()), { maxGapMs: 2 * checkMs });
  const listeners = new Set<() => void>();
  /** How long nodes had been silent, by the wall clock, when this process started, and their heartbeat then. */
  const silentBefore = new Map<string, { beat: number; silentMs: number }>();
  const measured = new Map<string, { settled: Settled<Measured>; state: Measured }>();
  let timers: NodeJS.Timeout[] = [];
  let running: Promise<void> | null = null;
  let stopped = false;

  const lives = (node: RegionNodeRecord) => (watch.silentMs(node.id) ?? 0) < MISSED_BEATS * intervalMs;

  /** Includes the time before this process started, so that a restart does not begin the wait again. */
  const goneMs = ({ id, beat }: RegionNodeRecord) => {
    const earlier = silentBefore.get(id);
    return (watch.goneMs(id) ?? 0) + (earlier?.beat === beat ? earlier.silentMs : 0);
  };

  const removeLongGone = async (nodes: RegionNodeRecord[]) => {
    for (const node of nodes.filter((one) => !lives(one))) {
      const replaced = nodes.some((other) => other.region === node.region && lives(other));
      const maxGoneMs = replaced ? FORGET_REPLACED_MS : FORGET_OUTAGE_MS;
      if (goneMs(node) >= maxGoneMs) {
        logger.info({ node: node.id, region: node.region }, 'node removed: silent for too long');
        await regions.removeNode(node.id);
      }
    }
  };

  const check = async () => {
    const nodes = await regions.nodes();
    watch.observe(nodes);
    const codes = new Set([...measured.keys(), ...nodes.map(({ region }) => region)]);
    let changed = false;
    for (const code of codes) {
      const entry = measured.get(code) ?? { settled: createSettled<Measured>(), state: null };
      const before = entry.state;
      entry.state = entry.settled.observe(measure(nodes.filter(({ region }) => region === code).map(lives)));
      if (measured.has(code) && before !== entry.state) {
        changed = true;
        const level = entry.state === 'partial_outage' || entry.state === 'major_outage' ? 'warn' : 'info';
        logger[level]({ region: code, from: before, to: entry.state }, 'region changed its state');
        if (entry.state !== null) {
          const data = { code, status: entry.state };
          await parts.events?.append({ projectId: null, type: 'region.status_changed', data });
        }
      }
      changed ||= !measured.has(code);
      measured.set(code, entry);
    }
    if (changed) for (const listener of listeners) listener();
    await removeLongGone(nodes);
  };

  const sendHeartbeat = () => regions.heartbeat({ id: nodeId, region: self.code, atMs: now() });

  const beatAndCheck = async () => {
    await sendHeartbeat();
    await check();
  };

  /** One heartbeat or check at a time. */
  const run = (work: () => Promise<void>): Promise<void> => {
    running ??= work().finally(() => {
      running = null;
    });
    return running;
  };

  const tick = async (): Promise<void> => {
    // A check in progress has not seen the new heartbeat.
    await running;
    await run(beatAndCheck);
  };

  const register = async () => {
    // A region keeps the name that its operator gave it.
    if ((await regions.find(self.code)) === null) await regions.put({ ...self, maintenance: false });
    // If the wall clock was far ahead, living nodes are removed too. They return with their next heartbeat.
    await regions.removeNodesSeenBefore(now() - FORGET_OUTAGE_MS);
    for (const { id, beat, seenAtMs } of await regions.nodes()) {
      silentBefore.set(id, { beat, silentMs: Math.max(0, now() - seenAtMs) });
    }
  };

  const inBackground = (work: () => Promise<void>) => () => {
    work().catch((error: unknown) => {
      logger.warn({ err: error }, 'heartbeat or check of regions failed; retrying');
    });
  };

  const stateOf = ({ code, maintenance }: RegionRecord): ServiceStatus | null =>
    maintenance ? 'under_maintenance' : (measured.get(code)?.state ?? null);

  const nodes = async (): Promise<NodeState[]> =>
    (await regions.nodes())
      .map((node) => ({ ...node, alive: lives(node) }))
      .sort((a, b) => compare(a.region, b.region) || compare(a.id, b.id));

  return {
    async start() {
      await register();
      await tick();
      timers = [
        // Without a check: two checks at the same moment would agree, and confirm a change too early.
        setInterval(inBackground(sendHeartbeat), intervalMs).unref(),
        setInterval(
          inBackground(() => run(check)),
          checkMs,
        ).unref(),
      ];
    },

    async stop() {
      if (stopped) return;
      stopped = true;
      for (const timer of timers) clearInterval(timer);
      await running?.catch(() => undefined);
      await regions.removeNode(nodeId);
    },

    async states() {
      const records = await regions.list();
      return records.flatMap((record): RegionState[] => {
        const status = stateOf(record);
        return status === null ? [] : [{ ...record, status }];
      });
    },

    async overview() {
      const all = await nodes();
      return (await regions.list()).map((record) => ({
        ...record,
        status: stateOf(record),
        nodes: all.filter(({ region }) => region === record.code),
      }));
    },

    nodes,
    onChanged: (listener) => void listeners.add(listener),
    nodeId,
    tick,
  };
}

/** @param nodes whether each node of a region lives */
function measure(nodes: readonly boolean[]): Measured {
  if (nodes.length === 0) return null;
  if (nodes.every((lives) => lives)) return 'operational';
  return nodes.includes(true) ? 'partial_outage' : 'major_outage';
}

/** Codes and names are ASCII. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
