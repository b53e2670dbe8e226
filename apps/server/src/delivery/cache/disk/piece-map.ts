import { type ExpectedObject, pieceCount } from '../../verified-body.ts';

/** Which pieces of an object were verified. */
export interface PieceMap {
  /** Whether all from `first` to `last`, both included, are. */
  hasAll(first: number, last: number): boolean;
  has(index: number): boolean;
  add(index: number): void;
  addAll(): void;
}

/** Makes a {@link PieceMap} in which nothing is verified. */
export function createPieceMap(object: Pick<ExpectedObject, 'bytes'>): PieceMap {
  const pieces = new Uint8Array(pieceCount(object));
  /** The common question, of a large object that is wholly there, must not cost a walk over its pieces. */
  let missing = pieces.length;
  return {
    hasAll(first, last) {
      if (missing === 0) return true;
      for (let index = first; index <= last; index += 1) if (pieces[index] !== 1) return false;
      return true;
    },
    has: (index) => pieces[index] === 1,
    add(index) {
      if (pieces[index] === 1) return;
      pieces[index] = 1;
      missing -= 1;
    },
    addAll() {
      pieces.fill(1);
      missing = 0;
    },
  };
}
