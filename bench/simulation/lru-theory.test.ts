import { describe, expect, it } from 'vitest';
import type { OwnedObject } from '../../apps/server/src/delivery/verified-body.ts';
import { type Catalogue, mediaObjectOf } from './catalogue.ts';
import { createDeliveryLog, type Demand } from './delivery-log.ts';
import { cheHitRatios, exactLruHitRatio } from './lru-theory.ts';
import { simulate } from './simulate.ts';
import { createZipf } from './zipf.ts';

/** Media with one object each. */
function plainCatalogue(bytesOf: (index: number) => number): Catalogue {
  let count = 0;
  return {
    next() {
      const [id, sha256] = [`med_${count}`, count.toString(16).padStart(64, '0')];
      const object = { key: id, sha256, bytes: bytesOf(count), pieces: null };
      count += 1;
      return mediaObjectOf(id, [{ mediaId: id, object, weight: 1 } satisfies OwnedObject & { weight: number }]);
    },
  };
}

/** Without memory the service's cache is only its folder, an LRU by bytes, as in the theory. */
function simulateLru(
  demand: Pick<Demand, 'alpha' | 'media' | 'requests'>,
  cacheBytes: number,
  size: (index: number) => number = () => 1,
) {
  const whole = { seed: 7, edges: 1, regional: 0, arrivals: 0, purges: 0, ...demand };
  const log = createDeliveryLog(whole, () => plainCatalogue(size));
  const room = { cacheBytes, memoryCacheBytes: 0 };
  const outcome = simulate(log, { edges: 1, requests: demand.requests, warmUp: 0.4, room });
  return { outcome, theory: cheHitRatios(log.popularity(0), cacheBytes), log };
}

describe('the simulated cache without memory', () => {
  it('has the exact hit ratio of LRU (King 1971), to 0.005', () => {
    const zipf = createZipf(9, 0.9);
    const probabilities = Array.from({ length: 9 }, (_, rank) => zipf.probability(rank));
    for (const slots of [2, 4]) {
      const { outcome } = simulateLru({ alpha: 0.9, media: 9, requests: 80_000 }, slots);
      expect(outcome.hitRatio).toBeCloseTo(exactLruHitRatio(probabilities, slots), 2);
      expect(Math.abs(outcome.hitRatio - exactLruHitRatio(probabilities, slots))).toBeLessThan(0.005);
    }
  });

  it.each([
    [0.6, 50],
    [0.8, 500],
    [1, 200],
    [1.2, 100],
  ])(
    'has the hit ratio that Che, Tung and Wang give for alpha %d and room for %d of 5,000, to 0.01',
    (alpha, slots) => {
      const { outcome, theory } = simulateLru({ alpha, media: 5_000, requests: 60_000 }, slots);
      expect(Math.abs(outcome.hitRatio - theory.hitRatio)).toBeLessThan(0.01);
    },
  );

  it('has the hit and byte hit ratios of objects of unequal size, to 0.015', () => {
    // Sizes 1 to 100, unrelated to popularity.
    const size = (index: number) => 1 + ((index * 7919) % 100);
    const { outcome, theory } = simulateLru({ alpha: 0.8, media: 5_000, requests: 60_000 }, 25_000, size);
    expect(Math.abs(outcome.hitRatio - theory.hitRatio)).toBeLessThan(0.015);
    expect(Math.abs(outcome.byteHitRatio - theory.byteHitRatio)).toBeLessThan(0.015);
  });
});

describe('the theory', () => {
  it('approximates the exact ratio well even for a dozen objects', () => {
    const zipf = createZipf(12, 0.8);
    const probabilities = Array.from({ length: 12 }, (_, rank) => zipf.probability(rank));
    const objects = probabilities.map((probability) => ({ probability, bytes: 1 }));
    for (const slots of [1, 3, 5]) {
      expect(Math.abs(cheHitRatios(objects, slots).hitRatio - exactLruHitRatio(probabilities, slots))).toBeLessThan(
        0.02,
      );
    }
    // A single slot holds the object requested last.
    const repeated = probabilities.reduce((sum, probability) => sum + probability ** 2, 0);
    expect(exactLruHitRatio(probabilities, 1)).toBeCloseTo(repeated, 10);
    expect(cheHitRatios(objects, 12)).toEqual({ hitRatio: 1, byteHitRatio: 1 });
  });
});
