import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceStatus, Status } from '@mds/contract';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { collectGarbage } from '../../test/support/collect-garbage.ts';
import type { RegionState } from '../regions/region-monitor.ts';
import { resolveRegion } from '../regions/region-setting.ts';
import {
  apiProbe,
  databaseProbe,
  processingProbe,
  QUEUE_DEGRADED_MS,
  QUEUE_OUTAGE_MS,
  WORKER_SILENT_MS,
  workingProbe,
} from './probes.ts';
import { createStatusBoard, type Probe, type StatusBoard } from './status-board.ts';

const logger = pino({ level: 'silent' });
const region = resolveRegion('fra1');
const boards: StatusBoard[] = [];
afterEach(async () => {
  for (const board of boards.splice(0)) await board.stop();
});

function boardOf(probes: Probe[], regions: RegionState[] = [], timeoutMs = 200): StatusBoard {
  const board = createStatusBoard({
    probes,
    regionMonitor: { states: async () => regions },
    region,
    logger,
    timeoutMs,
    intervalMs: 20,
    now: () => Date.parse('2026-01-31T08:15:00.500Z'),
  });
  boards.push(board);
  return board;
}

const regionState = (code: string, status: ServiceStatus = 'operational'): RegionState => ({
  ...resolveRegion(code),
  maintenance: false,
  status,
});

describe('the status document', () => {
  it('lists every part and region of the deployment, and shows the worst status', async () => {
    const board = boardOf(
      [workingProbe('Database', async () => undefined)],
      [regionState('fra1'), { ...regionState('fra1', 'partial_outage'), code: 'fra2' }, regionState('sin1')],
    );
    await board.tick();
    expect(Status.parse(await board.document())).toEqual({
      status: 'partial_outage',
      version: 'v1',
      region: 'Frankfurt',
      components: [
        { name: 'Database', status: 'operational' },
        { name: 'Region Frankfurt (fra1)', status: 'operational' },
        { name: 'Region Frankfurt (fra2)', status: 'partial_outage' },
        { name: 'Region Singapore', status: 'operational' },
      ],
      updated_at: '2026-01-31T08:15:00Z',
    });
  });

  it('shows the name that the operator gave to its region', async () => {
    const board = boardOf([], [{ ...regionState('fra1'), name: 'Frankfurt West' }]);
    // A request before the first round waits for it: a document without components would be wrong.
    const early = board.document();
    await board.tick();
    expect(await early).toMatchObject({
      region: 'Frankfurt West',
      components: [{ name: 'Region Frankfurt West', status: 'operational' }],
    });
  });

  it('shows a change during a round without waiting for the next interval', async () => {
    let known: ServiceStatus = 'operational';
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const check = async () => {
      const seen = known;
      await held;
      return seen;
    };
    const board = boardOf([{ name: 'Part', check }]);
    const first = board.tick();
    known = 'degraded_performance';
    const settled = board.settle();
    release();
    await first;
    expect((await board.document()).status).toBe('operational');
    await settled;
    expect((await board.document()).status).toBe('degraded_performance');
  });

  it('shows a change after two equal rounds, and the first round at once', async () => {
    const sequence: ServiceStatus[] = [
      'operational',
      'major_outage',
      'operational',
      'major_outage',
      'major_outage',
      'operational',
      'operational',
    ];
    let round = 0;
    const board = boardOf([{ name: 'Part', check: async () => sequence[round++] ?? 'operational' }]);
    const seen: string[] = [];
    for (let i = 0; i < sequence.length; i += 1) {
      await board.tick();
      seen.push((await board.document()).status);
    }
    expect(seen).toEqual([
      'operational',
      'operational',
      'operational',
      'operational',
      'major_outage',
      'major_outage',
      'operational',
    ]);
    const broken = boardOf([{ name: 'Part', check: async () => 'major_outage' }]);
    await broken.tick();
    expect((await broken.document()).status).toBe('major_outage');
  });

  it('shows a part that fails or hangs without waiting for it', async () => {
    let asked = 0;
    const board = boardOf(
      [
        workingProbe('Fails', () => Promise.reject(new Error('refused'))),
        workingProbe('Hangs', () => {
          asked += 1;
          return new Promise(() => undefined);
        }),
        workingProbe('Works', async () => undefined),
      ],
      [],
      50,
    );
    await board.tick();
    await board.tick();
    const began = performance.now();
    const states = Object.fromEntries((await board.document()).components.map(({ name, status }) => [name, status]));
    expect(performance.now() - began).toBeLessThan(20);
    expect(states).toEqual({ Fails: 'major_outage', Hangs: 'major_outage', Works: 'operational' });
    // A hanging part is not probed again, as its probes would pile up.
    expect(asked).toBe(1);
  });

  it('gives a hanging part less than one interval, so that its outage shows soon', async () => {
    let givenMs = 0;
    const check: Probe['check'] = async (signal) => {
      const began = performance.now();
      const given = once(signal, 'abort');
      // The garbage collection may remove timers of Node's own abort signals.
      setTimeout(collectGarbage, 100);
      await given;
      givenMs = performance.now() - began;
      return 'operational';
    };
    const probes = [{ name: 'Part', check }];
    const board = createStatusBoard({
      probes,
      regionMonitor: { states: async () => [] },
      region,
      logger,
      intervalMs: 1_000,
    });
    boards.push(board);
    await board.tick();
    expect(givenMs).toBeGreaterThan(500);
    expect(givenMs).toBeLessThan(1_000);
  });

  it('is updated in the background until the board is stopped', async () => {
    let rounds = 0;
    const board = boardOf([
      {
        name: 'Part',
        check: async () => {
          rounds += 1;
          return 'operational';
        },
      },
    ]);
    await board.start();
    expect((await board.document()).components).toHaveLength(1);
    await expect.poll(() => rounds, { timeout: 10_000 }).toBeGreaterThan(2);
    await board.stop();
    const atStop = rounds;
    await delay(80);
    expect(rounds).toBe(atStop);
  });
});

describe('the probe of', () => {
  const check = (probe: Probe) => probe.check(new AbortController().signal);

  it('the API detects a late event loop', async () => {
    expect(await check(apiProbe())).toBe('operational');
    const probing = check(apiProbe());
    setTimeout(() => {
      const until = performance.now() + 700;
      while (performance.now() < until);
    }, 12);
    expect(await probing).toBe('degraded_performance');
  });

  it('the database writes to it', async () => {
    let probed = 0;
    const probe = databaseProbe({
      async probe() {
        probed += 1;
      },
    });
    expect(await check(probe)).toBe('operational');
    expect(probed).toBe(1);
  });

  const WORKER = { id: 'w', host: null, pid: 1, region: null, concurrency: 1, sinceMs: null };
  it('processing shows each failure, and gives new workers time to start', async () => {
    let clock = 0;
    const world = {
      beat: 0 as number | null,
      oldestDueMs: 0,
      codecs: true,
      formats: 'operational' as ServiceStatus,
    };
    const probe = processingProbe({
      engine: { selfTest: async () => ({ ok: world.codecs, detail: '' }) },
      jobs: {
        counts: async () => ({ queued: 0, running: 0, oldestDueMs: world.oldestDueMs }),
        workers: async () => (world.beat === null ? [] : [{ ...WORKER, beat: world.beat }]),
      },
      formats: { state: () => world.formats },
      monotonicNow: () => clock,
    });
    const now = async () => {
      await check(probe);
      return check(probe);
    };

    world.beat = null;
    expect(await now()).toBe('operational');
    clock += WORKER_SILENT_MS;
    expect(await now()).toBe('major_outage');
    world.beat = 1;
    expect(await now()).toBe('operational');
    clock += WORKER_SILENT_MS;
    expect(await now()).toBe('major_outage');
    world.beat = 2;
    expect(await now()).toBe('operational');

    world.oldestDueMs = QUEUE_DEGRADED_MS + 1;
    expect(await now()).toBe('degraded_performance');
    world.oldestDueMs = QUEUE_OUTAGE_MS + 1;
    expect(await now()).toBe('partial_outage');
    world.oldestDueMs = 0;

    world.formats = 'degraded_performance';
    expect(await now()).toBe('degraded_performance');
    world.formats = 'operational';

    clock += 61_000;
    world.beat = 3;
    world.codecs = false;
    expect(await now()).toBe('major_outage');
    world.codecs = true;
    expect(await now()).toBe('operational');
  });
});
