import { type ServiceStatus, type Status, type StatusComponent, worstStatus } from '@mds/contract';
import type { Logger } from '../base/logger.ts';
import { type Presented, timestamp } from '../base/presented.ts';
import type { RegionIdentity } from '../regions/region-identity.ts';
import type { RegionMonitor, RegionState } from '../regions/region-monitor.ts';
import { createSettled, type Settled } from '../regions/settled.ts';

/** Checks one part of the deployment. */
export interface Probe {
  /** The component's name, for people. */
  name: string;
  /** Checks the part now. An error is a `major_outage`, and so is a timeout. */
  check(signal: AbortSignal): Promise<ServiceStatus>;
}

export interface StatusBoardParts {
  probes: Probe[];
  /** Each region is a component, with the state of its monitor. */
  regionMonitor: Pick<RegionMonitor, 'states'>;
  /** The region that answers. */
  region: RegionIdentity;
  logger: Logger;
  /** Time between two rounds of probes. */
  intervalMs?: number;
  /** For one probe; less than the interval, so that a part that hangs does not delay the next round. */
  timeoutMs?: number;
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
}

/** The state of every part of the deployment. It is updated in the background, so that reading it is cheap. */
export interface StatusBoard {
  /** Probes everything once, then again and again in the background. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The document as of the latest round. Waits for the first one. */
  document(): Promise<Status>;
  /** One round of all probes, or the round in progress. */
  tick(): Promise<void>;
  /** Runs two rounds after this call, so that a change of now shows without waiting for the next interval. */
  settle(): Promise<void>;
  /** Updates the states of the regions now, without a round of probes. */
  refreshRegions(): Promise<void>;
}

const INTERVAL_MS = 5_000;
/** Share of the interval that a probe may take. */
const TIMEOUT_SHARE = 0.8;

/** {@link StatusBoard}. A component changes its state when two rounds in a row agree; the first round counts at once. */
export function createStatusBoard(parts: StatusBoardParts): StatusBoard {
  const { probes, regionMonitor, region, logger, intervalMs = INTERVAL_MS } = parts;
  const timeoutMs = parts.timeoutMs ?? Math.round(intervalMs * TIMEOUT_SHARE);
  const now = parts.now ?? Date.now;
  const settled = new Map<string, Settled<ServiceStatus>>();
  const stopping = new AbortController();
  let components: StatusComponent[] = [];
  let regionComponents: StatusComponent[] = [];
  let ownName = region.name;
  let updatedAtMs = now();
  let rounds: NodeJS.Timeout | undefined;
  let running: Promise<void> | null = null;
  let haveProbed: () => void = () => undefined;
  const firstRound = new Promise<void>((resolve) => {
    haveProbed = resolve;
  });

  const checkOne = async (probe: Probe): Promise<ServiceStatus> => {
    // Not `AbortSignal.timeout`: Node 20 may collect the signal that `AbortSignal.any` derives from it too early.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error('The probe took too long.')), timeoutMs);
    const deadline = AbortSignal.any([late.signal, stopping.signal]);
    try {
      return await Promise.race([probe.check(deadline), rejection(deadline)]);
    } catch (error) {
      if (!stopping.signal.aborted) logger.warn({ err: error, component: probe.name }, 'probe failed');
      return 'major_outage';
    } finally {
      clearTimeout(timer);
    }
  };

  const refreshRegions = async () => {
    try {
      const states = await regionMonitor.states();
      regionComponents = nameRegions(states);
      ownName = states.find(({ code }) => code === region.code)?.name ?? ownName;
    } catch (error) {
      // The database component shows the failure. The regions keep their last state.
      logger.warn({ err: error }, 'states of the regions could not be read');
    }
  };

  const round = async () => {
    const states = await Promise.all(probes.map(checkOne));
    if (stopping.signal.aborted) return;
    const next = probes.map(({ name }, index): Presented<StatusComponent> => {
      const history = settled.get(name) ?? createSettled<ServiceStatus>();
      settled.set(name, history);
      return { name, status: history.observe(states[index] ?? 'major_outage') };
    });
    for (const { name, status } of next) {
      const before = components.find((component) => component.name === name)?.status ?? 'operational';
      if (before === status) continue;
      const level = status === 'operational' || status === 'under_maintenance' ? 'info' : 'warn';
      logger[level]({ component: name, from: before, to: status }, 'component changed its state');
    }
    components = next;
    await refreshRegions();
    updatedAtMs = now();
  };

  const tick = (): Promise<void> => {
    running ??= round().finally(() => {
      running = null;
      haveProbed();
    });
    return running;
  };

  return {
    async start() {
      await tick();
      if (stopping.signal.aborted) return;
      rounds = setInterval(() => {
        tick().catch((error: unknown) => logger.error({ err: error }, 'round of probes failed'));
      }, intervalMs).unref();
    },

    async stop() {
      clearInterval(rounds);
      stopping.abort();
      await running;
    },

    async document(): Promise<Presented<Status>> {
      await firstRound;
      const all = [...components, ...regionComponents];
      return {
        status: worstStatus(all.map(({ status }) => status)),
        version: 'v1',
        region: ownName,
        components: all,
        updated_at: timestamp(updatedAtMs),
      };
    },

    tick,

    async settle() {
      // The round in progress may have begun before the change.
      await running;
      await tick();
      await tick();
    },

    refreshRegions,
  };
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const fail = () => reject(signal.reason);
    if (signal.aborted) fail();
    else signal.addEventListener('abort', fail, { once: true });
  });
}

/** `Region Frankfurt`; with its code if several regions are in one city. */
function nameRegions(regions: RegionState[]): StatusComponent[] {
  return regions.map(({ code, name, status }): Presented<StatusComponent> => {
    const alone = regions.filter((other) => other.name === name).length === 1;
    return { name: `Region ${name}${alone ? '' : ` (${code})`}`, status };
  });
}
