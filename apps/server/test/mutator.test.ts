import { describe, expect, it } from 'vitest';
import { mutantOf, mutationNames, type Sample } from './support/mutator.ts';
import { noisePng, png } from './support/pictures.ts';

const samples: Sample[] = [
  { name: 'a', bytes: png(1) },
  { name: 'b', bytes: noisePng('b') },
  { name: 'c', bytes: Buffer.from('GIF89a') },
];

describe('the mutator', () => {
  it('makes the same mutant from the same seed and number, and others otherwise', () => {
    const once = mutantOf(samples, 7, 41);
    expect(mutantOf(samples, 7, 41)).toEqual(once);
    expect(mutantOf(samples, 8, 41).bytes.equals(once.bytes)).toBe(false);
    expect(mutantOf(samples, 7, 41 + samples.length * mutationNames.length).bytes.equals(once.bytes)).toBe(false);
  });

  it('mutates each sample in each way within one turn, and leaves few unchanged', () => {
    const turn = samples.length * mutationNames.length;
    const mutants = Array.from({ length: turn * 10 }, (_, number) => mutantOf(samples, 1, number));
    const kinds = new Set(mutants.slice(0, turn).map(({ title, how }) => `${title.split(' ')[0]} ${how}`));
    expect(kinds.size).toBe(turn);
    const same = mutants.filter(({ bytes }) => samples.some((sample) => sample.bytes.equals(bytes)));
    expect(same.length).toBeLessThan(mutants.length / 20);
    for (const { bytes } of mutants) expect(bytes.length).toBeLessThan(8_000_000);
  });
});
