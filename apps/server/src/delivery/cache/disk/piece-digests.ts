import { createHash, subtle } from 'node:crypto';
import { type ExpectedObject, pieceCount } from '../../verified-body.ts';

const DIGEST_BYTES = 32;

/** SHA-256 of an object and of its pieces, which are given one after another, from the first on. */
export interface PieceDigests {
  /** The bytes must not change until it resolves. */
  take(piece: Buffer): Promise<void>;
  /** `sha256` of what was given, lower-case hex; `pieces` as {@link ExpectedObject} has them. */
  end(): { sha256: string; pieces: Buffer };
}

export function createPieceDigests(object: Pick<ExpectedObject, 'bytes'>): PieceDigests {
  const whole = createHash('sha256');
  const pieces = Buffer.alloc(pieceCount(object) * DIGEST_BYTES);
  let taken = 0;
  return {
    async take(piece) {
      // The pool works on the piece while the whole, which cannot be divided, is worked on here.
      const digest = subtle.digest('SHA-256', piece);
      whole.update(piece);
      pieces.set(new Uint8Array(await digest), taken * DIGEST_BYTES);
      taken += 1;
    },
    end: () => ({ sha256: whole.digest('hex'), pieces }),
  };
}
