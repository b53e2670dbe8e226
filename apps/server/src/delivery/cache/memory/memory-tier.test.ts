import { describe, expect, it } from 'vitest';
import { cutRun, madeHere } from '../../verified-body.ts';
import { createMemoryTier } from './memory-tier.ts';

const KIB = 1024;
const body = (bytes: number) => madeHere(Buffer.alloc(bytes));

describe('the memory tier', () => {
  it('never exceeds its size, so that the process does not outgrow its machine', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 500; n += 1) {
      tier.put(`object-${n}`, body((n % 7) * KIB + 1), 'owner');
      if (n % 3 === 0) tier.get(`object-${n}`);
      expect(tier.bytes).toBeLessThanOrEqual(64 * KIB);
    }
    expect(tier.entries).toBeGreaterThan(5);
  });

  it('counts the overhead of entries, so that many empty objects are bounded too', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 10_000; n += 1) tier.put(`object-${n}`, body(0), 'owner');
    expect(tier.entries).toBeLessThanOrEqual(128);
  });

  it('keeps the objects in use during a scan over many others', () => {
    const tier = createMemoryTier(64 * KIB);
    for (const hot of ['a', 'b', 'c', 'd']) {
      tier.put(hot, body(6 * KIB), 'owner');
      tier.get(hot);
    }
    for (let n = 0; n < 1000; n += 1) tier.put(`scan-${n}`, body(6 * KIB), 'owner');
    expect(['a', 'b', 'c', 'd'].filter((hot) => tier.has(hot))).toEqual(['a', 'b', 'c', 'd']);
  });

  it('evicts objects no longer requested, however often they were used before', () => {
    const tier = createMemoryTier(64 * KIB);
    const use = (name: string) => {
      tier.put(name, body(6 * KIB), 'owner');
      tier.get(name);
    };
    use('old');
    for (let n = 0; n < 50; n += 1) use(`new-${n}`);
    expect(tier.has('old')).toBe(false);
  });

  it('gives new objects all the free room', () => {
    const tier = createMemoryTier(64 * KIB);
    for (let n = 0; n < 8; n += 1) tier.put(`object-${n}`, body(7 * KIB), 'owner');
    for (let n = 0; n < 8; n += 1) expect(tier.get(`object-${n}`)).toHaveLength(7 * KIB);
  });

  it('refuses an object that would evict too many others', () => {
    const tier = createMemoryTier(64 * KIB);
    expect(tier.admits(7 * KIB)).toBe(true);
    expect(tier.admits(8 * KIB)).toBe(false);
    expect(createMemoryTier(0).admits(0)).toBe(false);
  });

  it('removes dropped objects', () => {
    const tier = createMemoryTier(64 * KIB);
    tier.put('a', body(10), 'owner');
    tier.put('b', body(10), 'owner');
    tier.get('b');
    tier.drop('a');
    tier.drop('b');
    expect([tier.get('a'), tier.get('b'), tier.bytes, tier.entries]).toEqual([undefined, undefined, 0, 0]);
  });

  describe('with pieces of larger objects', () => {
    const MIB = 1024 * KIB;
    const film = { key: 'film', sha256: 'film', bytes: 20 * MIB, pieces: null };
    const range = (first: number, last: number) => ({ start: first * MIB + 5, end: last * MIB + 9 });

    it('answers only ranges that its pieces cover entirely, byte for byte', () => {
      const tier = createMemoryTier(64 * MIB);
      for (const index of [3, 4]) tier.put('film', madeHere(Buffer.alloc(MIB, index)), 'owner', index);
      const found = tier.find(film, range(3, 4));
      const bytes = found && Buffer.concat(cutRun(found, range(3, 4)));
      expect(bytes?.equals(Buffer.concat([Buffer.alloc(MIB - 5, 3), Buffer.alloc(10, 4)]))).toBe(true);
      expect([tier.find(film, range(2, 3)), tier.find(film, range(4, 5))]).toEqual([undefined, undefined]);
    });

    it('takes pieces that are requested again, and none of a film that is read once', () => {
      const tier = createMemoryTier(64 * MIB);
      const firstPass = Array.from({ length: 20 }, (_, index) => tier.wants(film, range(index, index)));
      expect(firstPass).toEqual(Array.from({ length: 20 }, () => false));
      expect([tier.wants(film, range(3, 4)), tier.wants(film, range(0, 19))]).toEqual([true, false]);
    });

    it('drops every piece of an object, whether its size is known or not', () => {
      for (const bytes of [film.bytes, undefined]) {
        const tier = createMemoryTier(64 * MIB);
        for (let index = 0; index < 20; index += 1) tier.put('film', body(KIB), 'owner', index);
        tier.put('other', body(KIB), 'owner');
        tier.drop('film', bytes);
        expect([tier.entries, tier.has('other')]).toEqual([1, true]);
      }
    });
  });
});
