import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createRegionMonitor, HEARTBEAT_MS, type RegionMonitor } from './region-monitor.ts';
import { resolveRegion } from './region-setting.ts';

const logger = pino({ level: 'silent' });
const HOUR = 3_600_000;

let repositories: Repositories;
/** A shared clock that only moves forward, and a wall clock that may jump. */
let monotonic: number;
let wall: number;
const running: RegionMonitor[] = [];

beforeEach(() => {
  repositories = openSqliteRepositories(':memory:');
  monotonic = 1_000_000;
  wall = Date.parse('2026-01-31T08:00:00Z');
});
afterEach(async () => {
  for (const monitor of running.splice(0)) await monitor.stop();
  await repositories.close();
});

async function node(id: string, region = 'fra1'): Promise<RegionMonitor> {
  const monitor = createRegionMonitor({
    regions: repositories.regions,
    self: resolveRegion(region),
    nodeId: id,
    logger,
    monotonicNow: () => monotonic,
    now: () => wall,
    // Intervals this long leave all ticks to the tests.
    intervalMs: HEARTBEAT_MS,
    checkMs: HEARTBEAT_MS,
  });
  await monitor.start();
  running.push(monitor);
  return monitor;
}

/** Adds a node whose process ended without signing off. */
async function dead(id: string, region = 'fra1'): Promise<void> {
  const { code, name, zone, country } = resolveRegion(region);
  await repositories.regions.put({ code, name, zone, country, maintenance: false });
  await repositories.regions.heartbeat({ id, region, atMs: wall });
}

async function after(ms: number, ...monitors: RegionMonitor[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += HEARTBEAT_MS) {
    monotonic += HEARTBEAT_MS;
    wall += HEARTBEAT_MS;
    for (const monitor of monitors) await monitor.tick();
  }
}

async function seen(monitor: RegionMonitor): Promise<Record<string, string>> {
  return Object.fromEntries((await monitor.states()).map(({ code, status }) => [code, status]));
}

describe('the state of a region', () => {
  it('is operational from the first answer of a new service, for its region only', async () => {
    const monitor = await node('a');
    expect(await monitor.states()).toEqual([
      {
        code: 'fra1',
        name: 'Frankfurt',
        zone: 'europe-central',
        country: 'DE',
        maintenance: false,
        status: 'operational',
      },
    ]);
  });

  it('keeps the name and the maintenance that its operator set, even after a restart', async () => {
    const first = await node('one');
    const [known] = await repositories.regions.list();
    if (!known) throw new Error('The region is not there.');
    await repositories.regions.put({ ...known, name: 'Frankfurt West', maintenance: true });
    await first.stop();
    const again = await node('one');
    expect(await again.states()).toMatchObject([{ name: 'Frankfurt West', status: 'under_maintenance' }]);
  });

  it('shows the outage of an edge within half a minute, and its return', async () => {
    const here = await node('a', 'fra1');
    const edge = await node('b', 'sin1');
    await after(10_000, here, edge);
    expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'operational' });
    await after(15_000, here);
    expect(await seen(here)).toMatchObject({ sin1: 'operational' });
    await after(10_000, here);
    expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'major_outage' });
    await after(15_000, here, edge);
    expect(await seen(here)).toMatchObject({ sin1: 'operational' });
  });

  it('is a partial outage while some nodes of the region live', async () => {
    const here = await node('a', 'fra1');
    const edge = await node('b', 'sin1');
    await dead('c', 'sin1');
    await after(30_000, here, edge);
    expect(await seen(here)).toMatchObject({ sin1: 'partial_outage' });
  });

  it('is not changed by one lost heartbeat or one wrong check', async () => {
    const here = await node('a', 'fra1');
    const edge = await node('b', 'sin1');
    await after(10_000, here, edge);
    // The edge is silent just long enough to appear dead once.
    await after(15_000, here);
    await edge.tick();
    await after(20_000, here, edge);
    expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'operational' });
  });

  it('does not depend on the wall clock, even if it jumps by hours', async () => {
    const here = await node('a', 'fra1');
    const edge = await node('b', 'sin1');
    for (const jump of [5 * HOUR, -9 * HOUR, 20 * HOUR]) {
      await here.tick();
      wall += jump;
      // These ticks read heartbeats from before the jump.
      await here.tick();
      await here.tick();
      expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'operational' });
      await after(15_000, here, edge);
      expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'operational' });
    }
  });

  it('is maintenance as soon as the operator sets it, whatever is measured', async () => {
    const here = await node('a');
    const record = await repositories.regions.find('fra1');
    if (!record) throw new Error('the region was not registered');
    await repositories.regions.put({ ...record, maintenance: true });
    expect(await seen(here)).toEqual({ fra1: 'under_maintenance' });
    await here.stop();
    running.length = 0;
    const restarted = await node('a');
    expect(await seen(restarted)).toEqual({ fra1: 'under_maintenance' });
  });
});

describe('nodes that come and go', () => {
  it('cause no outage when they leave', async () => {
    const here = await node('a', 'fra1');
    const other = await node('b', 'fra1');
    const edge = await node('c', 'sin1');
    await after(10_000, here, other, edge);
    await other.stop();
    await edge.stop();
    running.splice(1);
    await after(60_000, here);
    expect(await seen(here)).toEqual({ fra1: 'operational' });
  });

  it('replace their own record after a crash, also in another region', async () => {
    await dead('a', 'fra1');
    const restarted = await node('a', 'ams1');
    await after(60_000, restarted);
    expect(await seen(restarted)).toEqual({ ams1: 'operational' });
  });

  it('do not degrade their region for ever after others have replaced them', async () => {
    await dead('lost');
    const here = await node('a');
    await after(60_000, here);
    expect(await seen(here)).toEqual({ fra1: 'partial_outage' });
    await after(10 * 60_000, here);
    expect(await seen(here)).toEqual({ fra1: 'operational' });
  });

  it('are removed after ten minutes, across restarts of the service', async () => {
    await dead('lost');
    const nodesKnown = async () => (await repositories.regions.nodes()).map(({ id }) => id).sort();
    for (let minute = 0; minute < 9; minute += 3) {
      const here = await node('a');
      await after(3 * 60_000, here);
      expect(await nodesKnown()).toEqual(['a', 'lost']);
      await here.stop();
      running.length = 0;
    }
    const here = await node('a');
    await after(70_000, here);
    expect(await nodesKnown()).toEqual(['a']);
  });

  it('stay if they are alive, even if a service was down for hours', async () => {
    const edge = await node('b', 'fra1');
    await edge.tick();
    wall += 5 * HOUR;
    monotonic += 5 * HOUR;
    const here = await node('a');
    await after(10_000, here, edge);
    await after(30_000, here);
    expect((await repositories.regions.nodes()).map(({ id }) => id).sort()).toEqual(['a', 'b']);
  });

  it('stay for a day if no other replaced them, so that the outage stays visible', async () => {
    await dead('lost', 'sin1');
    const here = await node('a');
    for (const hours of [1, 22]) {
      monotonic += hours * HOUR;
      await after(15_000, here);
      expect(await seen(here)).toEqual({ fra1: 'operational', sin1: 'major_outage' });
    }
    monotonic += HOUR;
    await after(15_000, here);
    expect(await seen(here)).toEqual({ fra1: 'operational' });
  });

  it('are removed at the start of a service if they were last seen days ago', async () => {
    await dead('lost', 'sin1');
    wall += 25 * HOUR;
    const here = await node('a');
    expect(await seen(here)).toEqual({ fra1: 'operational' });
  });
});
