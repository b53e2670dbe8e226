import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ExpectedObject, hasPieceDigests, mismatch, ObjectDamagedError } from '../../verified-body.ts';
import { type FileState, type OpenFile, sameFile } from './open-file.ts';
import { hashOpenFile, type PieceFile, verifyPieceInFile } from './piece-file.ts';
import type { PieceMap } from './piece-map.ts';

/**
 * {@link PieceFile} over the file that is the object: nothing is copied, each piece is verified before its first use.
 * @param parts.state of the file when `verified` was begun
 */
export function createLocalPieces(parts: {
  object: ExpectedObject;
  file: OpenFile;
  state: FileState;
  verified: PieceMap;
  gate: ByteGate;
  /** Told of each pass over a piece, or over the whole where its pieces are not known. */
  onVerify: () => void;
  /** Told of digests that were not known, once the whole has been verified. */
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
      const which = byPiece ? index : 0;
      const begun = verifying.get(which);
      if (begun !== undefined) return begun;
      const mine = verify(index).finally(() => verifying.delete(which));
      verifying.set(which, mine);
      return mine;
    },

    // The system reads files ahead by itself, and whoever sends a body asks for its next stretch while the last one goes out.
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
