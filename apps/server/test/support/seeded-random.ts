export type Random = () => number;

/** Numbers from 0 to below 1, the same ones for the same seed (a Weyl sequence, its words mixed by multiplication). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e37_79b9) >>> 0;
    let word = state;
    word = Math.imul(word ^ (word >>> 16), 0x85eb_ca6b);
    word = Math.imul(word ^ (word >>> 13), 0xc2b2_ae35);
    return ((word ^ (word >>> 16)) >>> 0) / 2 ** 32;
  };
}
