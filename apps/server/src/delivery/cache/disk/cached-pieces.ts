import { PIECE_BYTES } from '@mds/contract';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ObjectOrigin, OriginUnavailableError } from '../../object-origin.ts';
import {
  type ExpectedObject,
  hasPieceDigests,
  ObjectDamagedError,
  pieceCount,
  pieceLength,
  type VerifiedBuffer,
  verifyPiece,
} from '../../verified-body.ts';
import { fetchPieces } from '../origin/origin-run.ts';
import { type FileState, type OpenFile, sameFile } from './open-file.ts';
import { createPieceDigests } from './piece-digests.ts';
import { hashOpenFile, type PieceFile, verifyPieceInFile } from './piece-file.ts';
import { createPieceMap } from './piece-map.ts';

/** A file of the cache folder, and its place there. */
export interface KeptFile {
  file: OpenFile;
  /** Whether a process before this one may have left pieces in it. */
  existed: boolean;
  /** Notes that it is wanted. @returns whether its time is to be set, so that this is known after a restart */
  use(): boolean;
  /** Makes room for so many bytes more. False: there is none. */
  reserve(bytes: number): boolean;
  /** Whether so many bytes more are likely to be kept: nothing has failed lately, and the volume has room for them. */
  hasRoomFor(bytes: number): Promise<boolean>;
  /** Notes that it could be written. */
  wrote(): void;
  /** Says that the file cannot be written; it loses its place in the folder. */
  giveUp(error: unknown): void;
  /** Whether it has its place still: what was evicted or purged is unlinked by us and changes no more. */
  readonly placed: boolean;
}

/** Pieces that are fetched with one request, at most: what goes on when all readers have left. */
export const RUN_PIECES = 16;
/** How far before the end of what is there the next run begins. */
const READ_AHEAD_PIECES = 4;
/** How long a piece that cannot be kept waits for somebody to ask for it. */
const UNWANTED_MS = 5_000;
/** Times that a store is asked for an object that is verified as a whole: what came wrong once may have been damaged on its way. */
const WHOLE_TRIES = 2;

/** A piece that a run is going to bring. */
interface Coming {
  promise: Promise<VerifiedBuffer | null>;
  resolve(piece: VerifiedBuffer | null): void;
  reject(error: unknown): void;
  wanted: boolean;
  onWanted: (() => void) | null;
}

/** Told of what goes on. */
export interface FillReport {
  /** A request to the origin. */
  onFetch(): void;
  /** Something that is not what was recorded, in the file or from the origin. */
  onDamage(error: ObjectDamagedError): void;
  /** Digests of pieces that were not known, once the whole has been verified. */
  onDigests(pieces: Buffer): void;
}

/**
 * {@link PieceFile} over a sparse file of the cache folder that is filled from the origin, or over no file at all.
 * A fill belongs to nobody: it brings what it began to fetch whoever leaves meanwhile, and no more than that.
 */
export function createCachedPieces(parts: {
  object: ExpectedObject;
  kept: KeptFile | null;
  origin: Pick<ObjectOrigin, 'read' | 'isStore'>;
  gate: ByteGate;
  report: FillReport;
  signal: AbortSignal;
}): PieceFile {
  const { object, kept, gate, report } = parts;
  const verified = createPieceMap(object);
  const coming = new Map<number, Coming>();
  const lastPiece = pieceCount(object) - 1;
  let writable = kept !== null;
  /** Pieces of the file that nobody has looked at since it was opened. */
  const unknown = new Set<number>();
  if (kept?.existed) for (let index = 0; index <= lastPiece; index += 1) unknown.add(index);
  const runs = new Set<Promise<void>>();
  const looking = new Map<number, Promise<boolean>>();
  let whole: Promise<void> | null = null;
  /** The file after our own last write; null while we write. */
  let settled: FileState | null = null;
  let writes = 0;
  let writing = 0;

  const settle = async (file: OpenFile) => {
    const before = writes;
    const state = await file.state();
    if (before === writes && writing === 0) settled = state;
  };

  /** Changes the file, so that the change is known for our own. */
  const change = async (file: OpenFile, work: () => Promise<void>): Promise<void> => {
    writes += 1;
    writing += 1;
    settled = null;
    try {
      await work();
    } finally {
      writing -= 1;
    }
    if (writing === 0) await settle(file);
  };

  /** Writes a piece into the file. False: it cannot be kept. */
  const keep = async (piece: Buffer, index: number): Promise<boolean> => {
    if (kept === null || !writable) return false;
    if (!kept.reserve(piece.length)) {
      writable = false;
      return false;
    }
    try {
      await change(kept.file, () => kept.file.write(piece, index * PIECE_BYTES));
    } catch (error) {
      writable = false;
      kept.giveUp(error);
      return false;
    }
    kept.wrote();
    return true;
  };

  /** Whether a piece is in the file, left by a process before this one. The digest says so: nothing else has to be written down. */
  const look = async (file: OpenFile, index: number): Promise<boolean> => {
    if (settled === null && writing === 0) await settle(file);
    const found = await verifyPieceInFile(file, object, index, gate);
    unknown.delete(index);
    if (found === 'wrong') {
      report.onDamage(new ObjectDamagedError(object, 'was damaged in the cache', index));
    }
    if (found === 'right') verified.add(index);
    return found === 'right';
  };
  const isInFile = async (index: number): Promise<boolean> => {
    if (verified.has(index)) return true;
    if (kept === null || !unknown.has(index)) return false;
    const begun = looking.get(index) ?? look(kept.file, index).finally(() => looking.delete(index));
    looking.set(index, begun);
    return begun;
  };

  const expect = (index: number, wanted: boolean): void => {
    let resolve: Coming['resolve'] = () => undefined;
    let reject: Coming['reject'] = () => undefined;
    const promise = new Promise<VerifiedBuffer | null>((yes, no) => {
      resolve = yes;
      reject = no;
    });
    // Whoever waits hears of it; where nobody does, nobody needs to.
    promise.catch(() => undefined);
    coming.set(index, { promise, resolve, reject, wanted, onWanted: null });
  };

  const arrive = (index: number, piece: VerifiedBuffer | null) => {
    coming.get(index)?.resolve(piece);
    coming.delete(index);
  };

  /** What can't be kept is fetched no faster than it is asked for. @throws where nobody asks any more */
  const untilWanted = async (index: number): Promise<void> => {
    const piece = coming.get(index);
    if (piece === undefined || piece.wanted || writable) return;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('Nobody waits for the rest.')), UNWANTED_MS);
      piece.onWanted = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  };

  const fetchStretch = (first: number, last: number) =>
    fetchPieces({
      ...parts,
      first,
      last,
      async onPiece(buffer, index) {
        const piece = await verifyPiece(buffer, object, index);
        if (piece === null) return 'wrong';
        if (await keep(piece, index)) {
          verified.add(index);
          arrive(index, null);
          return 'done';
        }
        arrive(index, piece);
        return 'taken';
      },
      beforePiece: untilWanted,
    });

  /** Brings the pieces that `ensure` has promised. */
  const run = async (first: number, last: number): Promise<void> => {
    try {
      const missing: number[] = [];
      for (let index = first; index <= last; index += 1) {
        if (await isInFile(index)) arrive(index, null);
        else missing.push(index);
      }
      for (let at = 0; at < missing.length; ) {
        let end = at;
        while (missing[end + 1] === (missing[end] as number) + 1) end += 1;
        await fetchStretch(missing[at] as number, missing[end] as number);
        at = end + 1;
      }
    } catch (error) {
      for (let index = first; index <= last; index += 1) {
        coming.get(index)?.reject(error);
        coming.delete(index);
      }
    }
  };

  /** Whether the file is the whole object, left by a process before this one. */
  const isFileWhole = async (): Promise<Buffer | null> => {
    if (kept === null || unknown.size === 0) return null;
    await settle(kept.file);
    const { sha256, pieces } = await hashOpenFile(kept.file, object, gate);
    return sha256 === object.sha256 ? pieces : null;
  };

  /** Fetches all of the object, keeps what can be kept, and compares the whole. Null: it is something else. */
  const fetchWhole = async (): Promise<{ pieces: Buffer; isKept: boolean } | null> => {
    const digests = createPieceDigests(object);
    let isKept = true;
    await fetchPieces({
      ...parts,
      first: 0,
      last: lastPiece,
      async onPiece(buffer, index) {
        await digests.take(buffer);
        if (isKept) isKept = await keep(buffer, index);
        return 'done';
      },
      beforePiece: async () => undefined,
    });
    const { sha256, pieces } = digests.end();
    return sha256 === object.sha256 ? { pieces, isKept } : null;
  };

  /**
   * Of an object whose pieces cannot be told apart, all of it is read and compared before any of it is used; from then on the digests of
   * its pieces are known, so that it need not be kept for that.
   */
  const digestWhole = async (): Promise<void> => {
    const inFile = await isFileWhole();
    unknown.clear();
    for (let wrong = 0; ; ) {
      const found = inFile ? { pieces: inFile, isKept: true } : await fetchWhole();
      if (found !== null) {
        if (found.isKept) verified.addAll();
        report.onDigests(found.pieces);
        return;
      }
      wrong += 1;
      if (parts.origin.isStore && wrong === WHOLE_TRIES) {
        throw new ObjectDamagedError(object, 'is not what was recorded');
      }
      report.onDamage(new ObjectDamagedError(object, 'came from the origin as something else'));
      if (!parts.origin.isStore) throw new OriginUnavailableError(`The origin sent something else than ${object.key}.`);
    }
  };

  const ensure = (index: number, through: number): Promise<VerifiedBuffer | null> => {
    if (verified.has(index)) return Promise.resolve(null);
    if (!hasPieceDigests(object)) {
      whole ??= digestWhole().finally(() => {
        whole = null;
      });
      return whole.then(() => ensure(index, through));
    }
    const begun = coming.get(index);
    if (begun !== undefined) {
      begun.wanted = true;
      begun.onWanted?.();
      return begun.promise;
    }
    let last = index;
    while (last < through && last - index + 1 < RUN_PIECES && !verified.has(last + 1) && !coming.has(last + 1))
      last += 1;
    for (let piece = index; piece <= last; piece += 1) expect(piece, piece === index);
    const { promise } = coming.get(index) as Coming;
    const running = run(index, last).finally(() => runs.delete(running));
    runs.add(running);
    return promise;
  };

  return {
    object,
    async keeps(first, last) {
      if (kept === null || !writable) return false;
      let missing = 0;
      for (let index = first; index <= last; index += 1)
        if (!verified.has(index)) missing += pieceLength(object, index);
      // What was written meanwhile has become less room and is no longer missing: where both hardly fit, rather no promise.
      return (await kept.hasRoomFor(missing)) && writable;
    },
    use() {
      if (kept?.use()) change(kept.file, () => kept.file.touch()).catch(() => undefined);
    },
    holds: verified.hasAll,
    isUnderWay: (index) => coming.has(index) || whole !== null,
    ensure,

    readAhead(from, through) {
      if (!writable || !hasPieceDigests(object)) return;
      const end = Math.min(from + READ_AHEAD_PIECES - 1, through);
      for (let index = from; index <= end; index += 1) {
        if (verified.has(index) || coming.has(index)) continue;
        ensure(index, through).catch(() => undefined);
        return;
      }
    },

    async lookInFile(first, last) {
      if (!hasPieceDigests(object)) return;
      for (let index = first; index <= last; index += 1) {
        if (!verified.has(index) && !coming.has(index) && !(await isInFile(index))) return;
      }
    },

    read: (into, position) => kept?.file.read(into, position) ?? Promise.resolve(0),

    async examine() {
      if (kept === null || settled === null || !kept.placed) return 'same';
      const [before, was] = [writes, settled];
      const state = await kept.file.state();
      if (before !== writes || !kept.placed || sameFile(state, was)) return 'same';
      return 'changed';
    },

    async close() {
      await Promise.allSettled([...runs, whole, ...looking.values()]);
      await kept?.file.close();
    },
  };
}
