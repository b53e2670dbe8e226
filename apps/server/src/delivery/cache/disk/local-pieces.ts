import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ExpectedObject, hasPieceDigests, mismatch, ObjectDamagedError } from '../../verified-body.ts';
import { type FileState, type OpenFile, sameFile } from './open-file.ts';
import { hashOpenFile, type PieceFile, type PieceMap, verifyPieceInFile } from './piece-file.ts';

/**
 * {@link PieceFile} over the object's own file: nothing is copied, and each piece is verified before its first use.
 * @param parts.state of the file when the first piece of `verified` was verified
 */
export function createLocalPieces(parts: {
  object: ExpectedObject;
  file: OpenFile;
  state: FileState;
  verified: PieceMap;
  gate: ByteGate;
  /** Called for each pass over a piece, or over the whole object if its digests are not known. */
  onVerify: () => void;
  /** Called with digests that were not known, after the whole object has been verified. */
  onDigests: (pieces: Buffer) => void;
}): PieceFile {
  const { object, file, state, verified, gate, onVerify, onDigests } = parts;
  const byPiece = hasPieceDigests(object);
  const verifying = new Map<number, Promise<null>>();

  const verify = async (index: number): Promise<null> => {
    onVerify();
    if (byPiece) {
      if ((await verifyPieceInFile(file, object, index, gate)) !== 'right') {
        throw new ObjectDamagedError(object, 'is not what was recorded', index);
      }
      verified.add(index);
      return null;
    }
    const { sha256, pieces } = await hashOpenFile(file, object, gate);
    if (sha256 !== object.sha256) throw mismatch(object, sha256);
    if (!sameFile(await file.state(), state)) throw new ObjectDamagedError(object, 'changed while it was read');
    verified.addAll();
    onDigests(pieces);
    return null;
  };

  return {
    object,
    keeps: async () => true,
    use: () => undefined,
    holds: verified.hasAll,
    isUnderWay: (index) => verifying.has(byPiece ? index : 0),

    ensure(index) {
      if (verified.has(index)) return Promise.resolve(null);
      const place = byPiece ? index : 0;
      const begun = verifying.get(place);
      if (begun !== undefined) return begun;
      const mine = verify(index).finally(() => verifying.delete(place));
      verifying.set(place, mine);
      return mine;
    },

    // The system reads ahead by itself, and the sender asks for the next stretch while the last one goes out.
    readAhead: () => undefined,
    lookInFile: async () => undefined,
    read: file.read,

    async examine() {
      const now = await file.state();
      if (sameFile(now, state)) return 'same';
      const unlinked = now.nlink === 0 && now.size === state.size && now.mtimeMs === state.mtimeMs;
      return unlinked ? 'unlinked' : 'changed';
    },

    async close() {
      await Promise.allSettled(verifying.values());
      await file.close();
    },
  };
}
