import { describe, expect, it } from 'vitest';
import { madeHere } from '../../verified-body.ts';
import { createMemoryTier } from './memory-tier.ts';

const KIB = 1024;
const body = (bytes: number) => madeHere(Buffer.alloc(bytes));

describe('the memory tier', () => {
  it('never holds more than its bytes, so that the process does not outgrow its machine', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 500; n += 1) {
      tier.put(`object-${n}`, body((n % 7) * KIB + 1), 'owner');
      if (n % 3 === 0) tier.get(`object-${n}`);
      expect(tier.bytes).toBeLessThanOrEqual(64 * KIB);
    }
    expect(tier.entries).toBeGreaterThan(5);
  });

  it('counts what an entry costs beside its bytes: a flood of empty objects is bounded too', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 10_000; n += 1) tier.put(`object-${n}`, body(0), 'owner');
    expect(tier.entries).toBeLessThanOrEqual(128);
  });

  it('keeps what is in use when something walks over everything once', () => {
    const tier = createMemoryTier(64 * KIB);
    for (const hot of ['a', 'b', 'c', 'd']) {
      tier.put(hot, body(6 * KIB), 'owner');
      tier.get(hot);
    }
    for (let n = 0; n < 1000; n += 1) tier.put(`scan-${n}`, body(6 * KIB), 'owner');
    expect(['a', 'b', 'c', 'd'].filter((hot) => tier.has(hot))).toEqual(['a', 'b', 'c', 'd']);
  });

  it('lets what is no longer asked for go, however much it was in use before', () => {
    const tier = createMemoryTier(64 * KIB);
    const use = (name: string) => {
      tier.put(name, body(6 * KIB), 'owner');
      tier.get(name);
    };
    use('old');
    for (let n = 0; n < 50; n += 1) use(`new-${n}`);
    expect(tier.has('old')).toBe(false);
  });

  it('gives newcomers all the room that nothing else needs', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 8; n += 1) tier.put(`object-${n}`, body(7 * KIB), 'owner');
    for (let n = 0; n < 8; n += 1) expect(tier.get(`object-${n}`)).toHaveLength(7 * KIB);
  });

  it('refuses an object that would push out too many others', () => {
    const tier = createMemoryTier(64 * KIB);
    expect(tier.admits(7 * KIB)).toBe(true);
    expect(tier.admits(8 * KIB)).toBe(false);
    expect(createMemoryTier(0).admits(0)).toBe(false);
  });

  it('forgets what is dropped', () => {
    const tier = createMemoryTier(64 * KIB);
    tier.put('a', body(10), 'owner');
    tier.put('b', body(10), 'owner');
    tier.get('b');
    tier.drop('a');
    tier.drop('b');
    expect([tier.get('a'), tier.get('b'), tier.bytes, tier.entries]).toEqual([undefined, undefined, 0, 0]);
  });
});
