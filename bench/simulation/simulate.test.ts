import { describe, expect, it } from 'vitest';
import { createCatalogue } from './catalogue.ts';
import { createDeliveryLog, type Demand, type LogEntry } from './delivery-log.ts';
import { simulate } from './simulate.ts';

const MIB = 1024 * 1024;
const demand: Demand = {
  ...{ seed: 3, alpha: 0.8, media: 400, requests: 6_000, edges: 2 },
  ...{ regional: 0.3, arrivals: 0, purges: 0 },
};

function run(changes: Partial<Demand> = {}, cacheBytes = 200 * MIB, memoryCacheBytes = 8 * MIB) {
  const whole = { ...demand, ...changes };
  const log = createDeliveryLog(whole, () => createCatalogue(1, 0.1));
  const room = { cacheBytes, memoryCacheBytes };
  return simulate(log, { edges: whole.edges, requests: whole.requests, warmUp: 0.5, room });
}

function logOf(changes: Partial<Demand>): LogEntry[] {
  return [...createDeliveryLog({ ...demand, ...changes }, () => createCatalogue(1, 0.1)).entries()];
}

describe('a simulation', () => {
  it('gives the same figures for the same seed, and others for another seed', () => {
    const once = run();
    expect(run()).toEqual(once);
    expect(run({ seed: 4 })).not.toEqual(once);
    expect(once.requests).toBe(3_000);
    expect(once.originRequestRatio).toBeCloseTo(1 - once.hitRatio, 10);
    expect(once.memoryHitRatio).toBeGreaterThan(0);
    expect(once.firstRequestRatio).toBeLessThan(1 - once.hitRatio);
    expect(once.memoryHitRatio).toBeLessThan(once.hitRatio);
  });

  it('hits more with a larger cache, and with a larger exponent', () => {
    const ratios = [];
    for (const room of [20, 100, 2_000]) ratios.push(run({}, room * MIB).hitRatio);
    expect(ratios).toEqual(ratios.toSorted((a, b) => a - b));
    expect(run({ alpha: 1.1 }).hitRatio).toBeGreaterThan(run({ alpha: 0.6 }).hitRatio + 0.05);
  });

  it('hits less if more points of presence each have to fill a cache', () => {
    const [one, eight] = [run({ edges: 1 }), run({ edges: 8 })];
    expect(eight.hitRatio).toBeLessThan(one.hitRatio - 0.05);
  });

  it('hits less if media are replaced or purged', () => {
    const still = run({}, 5_000 * MIB).hitRatio;
    expect(run({ arrivals: 200_000 }, 5_000 * MIB).hitRatio).toBeLessThan(still - 0.02);
    expect(run({ purges: 100_000 }, 5_000 * MIB).hitRatio).toBeLessThan(still - 0.02);
  });
});

describe('a delivery log', () => {
  it('requests other media in each region if popularity is regional', () => {
    const common = (regional: number) => {
      const asked = [0, 1].map(
        (edge) =>
          new Set(
            logOf({ regional, alpha: 1 }).flatMap((one) =>
              one.kind === 'request' && one.edge === edge ? [one.owned.mediaId] : [],
            ),
          ),
      );
      return [...(asked[0] ?? [])].filter((id) => asked[1]?.has(id)).length;
    };
    expect(common(1)).toBeLessThan(common(0));
  });

  it('requests about as many new media as configured', () => {
    const media = (changes: Partial<Demand>) =>
      new Set(logOf(changes).flatMap((one) => (one.kind === 'request' ? [one.owned.mediaId] : []))).size;
    expect(media({})).toBeLessThanOrEqual(400);
    expect(media({ arrivals: 100_000 })).toBeGreaterThan(450);
    const purges = logOf({ purges: 100_000 }).filter(({ kind }) => kind === 'purge').length;
    expect(purges).toBeGreaterThan(500);
    expect(purges).toBeLessThan(700);
  });

  it('requests each object as often as in theory', () => {
    const log = createDeliveryLog({ ...demand, edges: 1 }, () => createCatalogue(1, 0.1));
    const sum = log.popularity(0).reduce((all, { probability }) => all + probability, 0);
    expect(sum).toBeCloseTo(1, 9);
    expect(log.popularity(0).reduce((all, { bytes }) => all + bytes, 0)).toBe(log.catalogueBytes);
  });
});
