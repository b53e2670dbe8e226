import type { ServiceStatus } from '@mds/contract';
import type { Logger } from '../base/logger.ts';
import { createHeartbeatWatch } from '../heartbeats/heartbeat-watch.ts';
import type { RegionNodeRecord, RegionRecord, RegionRepository } from '../db/delivery-repository.ts';
import type { EventRepository } from '../db/event-repository.ts';
import type { RegionIdentity } from './region-identity.ts';
import { createSettled, type Settled } from './settled.ts';

/** A node beats this often; one that missed this many beats counts as gone. */
export const HEARTBEAT_MS = 5_000;
export const MISSED_BEATS = 3;
/** Between two looks at the beats: an outage is told of two looks after the third beat was missed, within 20 s. */
const LOOK_MS = 1_000;

/** A silent node is forgotten after this time where others serve its region, and where nobody does. */
const FORGET_REPLACED_MS = 10 * 60_000;
const FORGET_OUTAGE_MS = 24 * 3_600_000;

/** A region that is served, with its state. */
export type RegionState = RegionRecord & { status: ServiceStatus };

/** A region as its operator sees it; `status` null: nobody serves it. */
export type RegionOverview = RegionRecord & { status: ServiceStatus | null; nodes: NodeState[] };

/** A node, and whether its heartbeats come. */
export type NodeState = RegionNodeRecord & { alive: boolean };

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
  lookMs?: number;
}

/** This node's heartbeat, and what the heartbeats of all nodes say about their regions. */
export interface RegionMonitor {
  /** Registers the region, beats once and looks around, then goes on in the background. */
  start(): Promise<void>;
  /** Says goodbye: the node leaves its region at once. */
  stop(): Promise<void>;
  /** The regions that are served, by code. Maintenance shows at once; an outage when two looks in a row agree on it. */
  states(): Promise<RegionState[]>;
  /** Every region that is known, by code, with its nodes. */
  overview(): Promise<RegionOverview[]>;
  /** Every node that is known, by region and name. */
  nodes(): Promise<NodeState[]>;
  /** Calls back when the measured state of a region has changed. */
  onChanged(listener: () => void): void;
  /** Name of this very node. */
  readonly nodeId: string;
  /** One beat and one look. The background beats every {@link HEARTBEAT_MS}, and looks more often. */
  tick(): Promise<void>;
}

/** `null`: no node serves the region, as all have said goodbye. Then it is not listed. */
type Measured = Exclude<ServiceStatus, 'under_maintenance' | 'degraded_performance'> | null;

/** {@link RegionMonitor} over the repository that all nodes share. */
export function createRegionMonitor(parts: RegionMonitorParts): RegionMonitor {
  const { regions, self, nodeId, logger } = parts;
  const intervalMs = parts.intervalMs ?? HEARTBEAT_MS;
  const now = parts.now ?? Date.now;
  const lookMs = parts.lookMs ?? LOOK_MS;
  const watch = createHeartbeatWatch(parts.monotonicNow ?? (() => performance.now()), { maxGapMs: 2 * lookMs });
  const listeners = new Set<() => void>();
  /** How long nodes had been silent by the wall clock when this process began to watch, and the beat at which they were. */
  const silentBefore = new Map<string, { beat: number; silentMs: number }>();
  const measured = new Map<string, { settled: Settled<Measured>; state: Measured }>();
  let timers: NodeJS.Timeout[] = [];
  let running: Promise<void> | null = null;
  let stopped = false;

  const lives = (node: RegionNodeRecord) => (watch.silentMs(node.id) ?? 0) < MISSED_BEATS * intervalMs;

  const measure = (nodes: RegionNodeRecord[]): Measured => {
    if (nodes.length === 0) return null;
    const living = nodes.filter(lives).length;
    if (living === nodes.length) return 'operational';
    return living > 0 ? 'partial_outage' : 'major_outage';
  };

  /** What passed before this process was there counts as well: a restart does not begin the wait anew. */
  const goneMs = ({ id, beat }: RegionNodeRecord) => {
    const earlier = silentBefore.get(id);
    return (watch.goneMs(id) ?? 0) + (earlier?.beat === beat ? earlier.silentMs : 0);
  };

  const forgetLongGone = async (nodes: RegionNodeRecord[]) => {
    for (const node of nodes.filter((one) => !lives(one))) {
      const replaced = nodes.some((other) => other.region === node.region && lives(other));
      const patience = replaced ? FORGET_REPLACED_MS : FORGET_OUTAGE_MS;
      if (goneMs(node) >= patience) {
        logger.info({ node: node.id, region: node.region }, 'a node that is long gone is forgotten');
        await regions.removeNode(node.id);
      }
    }
  };

  const look = async () => {
    const nodes = await regions.nodes();
    watch.observe(nodes);
    const codes = new Set([...measured.keys(), ...nodes.map(({ region }) => region)]);
    let changed = false;
    for (const code of codes) {
      const entry = measured.get(code) ?? { settled: createSettled<Measured>(), state: null };
      const before = entry.state;
      entry.state = entry.settled.observe(measure(nodes.filter(({ region }) => region === code)));
      if (measured.has(code) && before !== entry.state) {
        changed = true;
        const level = entry.state === 'partial_outage' || entry.state === 'major_outage' ? 'warn' : 'info';
        logger[level]({ region: code, from: before, to: entry.state }, 'the state of a region changed');
        if (entry.state !== null) {
          const data = { code, status: entry.state };
          await parts.events?.append({ projectId: null, type: 'region.status_changed', data });
        }
      }
      changed ||= !measured.has(code);
      measured.set(code, entry);
    }
    if (changed) for (const listener of listeners) listener();
    await forgetLongGone(nodes);
  };

  const beat = () => regions.heartbeat({ id: nodeId, region: self.code, atMs: now() });

  const beatAndLook = async () => {
    await beat();
    await look();
  };

  /** One at a time, whichever it is. */
  const run = (work: () => Promise<void>): Promise<void> => {
    running ??= work().finally(() => {
      running = null;
    });
    return running;
  };

  const tick = async (): Promise<void> => {
    // A look that is under way has no beat in it.
    await running;
    await run(beatAndLook);
  };

  const register = async () => {
    // A region keeps the name that its operator gave it.
    if ((await regions.find(self.code)) === null) await regions.put({ ...self, maintenance: false });
    // A wall clock that was far ahead may take living nodes with it: they are back with their next beat.
    await regions.removeNodesSeenBefore(now() - FORGET_OUTAGE_MS);
    for (const { id, beat, seenAtMs } of await regions.nodes()) {
      silentBefore.set(id, { beat, silentMs: Math.max(0, now() - seenAtMs) });
    }
  };

  const inBackground = (work: () => Promise<void>) => () => {
    work().catch((error: unknown) => {
      logger.warn({ err: error }, 'the heartbeat of this region failed; it is tried again');
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
        // Without a look of its own: two looks in the same moment would agree on everything.
        setInterval(inBackground(beat), intervalMs).unref(),
        setInterval(
          inBackground(() => run(look)),
          lookMs,
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

/** Codes and names are ASCII. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
