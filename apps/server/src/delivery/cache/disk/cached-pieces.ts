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
import { fetchPieces, type OriginReport, RUN_PIECES } from '../origin/origin-run.ts';
import type { CacheFile } from './disk-folder.ts';
import { type FileState, type OpenFile, sameFile } from './open-file.ts';
import {
  createPieceDigests,
  createPieceMap,
  type FileFinding,
  hashOpenFile,
  type PieceFile,
  verifyPieceInFile,
} from './piece-file.ts';

/** The next run begins this many pieces before the end of the last one. */
const READ_AHEAD_PIECES = 4;
/** A piece that cannot be stored waits this long for a request. */
const UNWANTED_MS = 5_000;
/** Reads of an object that is verified as a whole: bytes that arrive damaged once may have been damaged on their way. */
const WHOLE_TRIES = 2;

/** A piece that a run is fetching. */
interface ComingPiece {
  promise: Promise<VerifiedBuffer | null>;
  resolve(piece: VerifiedBuffer | null): void;
  reject(error: unknown): void;
  isWanted: boolean;
  onWanted: (() => void) | null;
}

export interface CachedPiecesParts {
  object: ExpectedObject;
  /** Null: nothing is stored. */
  cacheFile: CacheFile | null;
  origin: Pick<ObjectOrigin, 'read' | 'isStore'>;
  gate: ByteGate;
  report: OriginReport & {
    /** Called with digests that were not known, after the whole object has been verified. */
    onDigests(pieces: Buffer): void;
  };
  signal: AbortSignal;
}

/**
 * {@link PieceFile} over a sparse file of the cache folder that is filled from the origin, or over no file at all.
 * A run belongs to no request: it completes even if every reader leaves, and fetches nothing beyond its pieces.
 */
export class CachedPieces implements PieceFile {
  readonly object: ExpectedObject;
  readonly #parts: CachedPiecesParts;
  readonly #writer: FileWriter | null;
  readonly #verified;
  readonly #coming = new Map<number, ComingPiece>();
  /** Pieces of the file that have not been looked at since it was opened. */
  readonly #unknown = new Set<number>();
  readonly #looking = new Map<number, Promise<boolean>>();
  readonly #runs = new Set<Promise<void>>();
  #whole: Promise<void> | null = null;

  constructor(parts: CachedPiecesParts) {
    const { object, cacheFile } = parts;
    this.#parts = parts;
    this.object = object;
    this.#verified = createPieceMap(object);
    this.#writer = cacheFile && new FileWriter(cacheFile);
    if (cacheFile?.existed) for (let index = 0; index < pieceCount(object); index += 1) this.#unknown.add(index);
  }

  async keeps(first: number, last: number): Promise<boolean> {
    if (!this.#writer?.isWritable) return false;
    let missing = 0;
    for (let index = first; index <= last; index += 1) {
      if (!this.#verified.has(index)) missing += pieceLength(this.object, index);
    }
    // Pieces written meanwhile count twice. If room is that short, no promise is the safe answer.
    return (await this.#writer.cacheFile.hasRoomFor(missing)) && this.#writer.isWritable;
  }

  use(): void {
    this.#writer?.use();
  }

  holds(first: number, last: number): boolean {
    return this.#verified.hasAll(first, last);
  }

  isUnderWay(index: number): boolean {
    return this.#coming.has(index) || this.#whole !== null;
  }

  ensure(index: number, through: number): Promise<VerifiedBuffer | null> {
    if (this.#verified.has(index)) return Promise.resolve(null);
    if (!hasPieceDigests(this.object)) {
      this.#whole ??= this.#digestWhole().finally(() => {
        this.#whole = null;
      });
      return this.#whole.then(() => this.ensure(index, through));
    }
    const begun = this.#coming.get(index);
    if (begun !== undefined) {
      begun.isWanted = true;
      begun.onWanted?.();
      return begun.promise;
    }
    return this.#beginRun(index, through);
  }

  readAhead(from: number, through: number): void {
    if (!this.#writer?.isWritable || !hasPieceDigests(this.object)) return;
    const end = Math.min(from + READ_AHEAD_PIECES - 1, through);
    for (let index = from; index <= end; index += 1) {
      if (this.#verified.has(index) || this.#coming.has(index)) continue;
      this.ensure(index, through).catch(() => undefined);
      return;
    }
  }

  async lookInFile(first: number, last: number): Promise<void> {
    if (!hasPieceDigests(this.object)) return;
    for (let index = first; index <= last; index += 1) {
      if (!this.#verified.has(index) && !this.#coming.has(index) && !(await this.#isInFile(index))) return;
    }
  }

  read(into: Buffer, position: number): Promise<number> {
    return this.#writer?.cacheFile.file.read(into, position) ?? Promise.resolve(0);
  }

  examine(): Promise<FileFinding> {
    return this.#writer?.examine() ?? Promise.resolve('same');
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#runs, this.#whole, ...this.#looking.values()]);
    await this.#writer?.cacheFile.file.close();
  }

  /** Whether an earlier process left a piece in the file. Its digest decides, so that no record of it is needed. */
  async #isInFile(index: number): Promise<boolean> {
    if (this.#verified.has(index)) return true;
    if (this.#writer === null || !this.#unknown.has(index)) return false;
    const begun = this.#looking.get(index);
    if (begun !== undefined) return begun;
    const looking = this.#look(this.#writer, index).finally(() => this.#looking.delete(index));
    this.#looking.set(index, looking);
    return looking;
  }

  async #look(writer: FileWriter, index: number): Promise<boolean> {
    await writer.settle();
    const found = await verifyPieceInFile(writer.cacheFile.file, this.object, index, this.#parts.gate);
    this.#unknown.delete(index);
    if (found === 'wrong') {
      this.#parts.report.onDamage(new ObjectDamagedError(this.object, 'was damaged in the cache', index));
    }
    if (found === 'right') this.#verified.add(index);
    return found === 'right';
  }

  /** Begins a run of pieces from `first` on. @returns the first of them */
  #beginRun(first: number, through: number): Promise<VerifiedBuffer | null> {
    const isMissing = (index: number) => !this.#verified.has(index) && !this.#coming.has(index);
    let last = first;
    while (last < through && last - first + 1 < RUN_PIECES && isMissing(last + 1)) last += 1;
    for (let index = first; index <= last; index += 1) this.#coming.set(index, createComingPiece(index === first));
    const { promise } = this.#coming.get(first) as ComingPiece;
    const running = this.#run(first, last).finally(() => this.#runs.delete(running));
    this.#runs.add(running);
    return promise;
  }

  /** Obtains the pieces of a run. An error rejects every wait for one of them. */
  async #run(first: number, last: number): Promise<void> {
    try {
      const missing: number[] = [];
      for (let index = first; index <= last; index += 1) {
        if (await this.#isInFile(index)) this.#arrive(index, null);
        else missing.push(index);
      }
      for (let at = 0; at < missing.length; ) {
        let end = at;
        while (missing[end + 1] === (missing[end] as number) + 1) end += 1;
        await this.#fetchStretch(missing[at] as number, missing[end] as number);
        at = end + 1;
      }
    } catch (error) {
      for (let index = first; index <= last; index += 1) {
        this.#coming.get(index)?.reject(error);
        this.#coming.delete(index);
      }
    }
  }

  #fetchStretch(first: number, last: number): Promise<void> {
    return fetchPieces({
      ...this.#parts,
      ...{ first, last },
      beforePiece: (index) => this.#untilWanted(index),
      onPiece: async (buffer, index) => {
        const piece = await verifyPiece(buffer, this.object, index);
        if (piece === null) return 'wrong';
        if (await this.#writer?.write(piece, index)) {
          this.#verified.add(index);
          this.#arrive(index, null);
          return 'done';
        }
        this.#arrive(index, piece);
        return 'taken';
      },
    });
  }

  #arrive(index: number, piece: VerifiedBuffer | null): void {
    this.#coming.get(index)?.resolve(piece);
    this.#coming.delete(index);
  }

  /** Pieces that cannot be stored are fetched no faster than they are requested. @throws if no request comes */
  async #untilWanted(index: number): Promise<void> {
    const piece = this.#coming.get(index);
    if (piece === undefined || piece.isWanted || this.#writer?.isWritable) return;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('No request waits for the rest.')), UNWANTED_MS);
      piece.onWanted = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /**
   * Reads and compares an object whose piece digests are not known, before any byte of it is used. Its digests are known
   * afterwards, so the bytes need not be stored.
   */
  async #digestWhole(): Promise<void> {
    const { origin, report } = this.#parts;
    const inFile = await this.#digestFile();
    this.#unknown.clear();
    for (let failures = 0; ; ) {
      const found = inFile ? { pieces: inFile, isStored: true } : await this.#fetchWhole();
      if (found !== null) {
        if (found.isStored) this.#verified.addAll();
        report.onDigests(found.pieces);
        return;
      }
      failures += 1;
      if (origin.isStore && failures === WHOLE_TRIES) {
        throw new ObjectDamagedError(this.object, 'is not what was recorded');
      }
      report.onDamage(new ObjectDamagedError(this.object, 'came from the origin as something else'));
      if (!origin.isStore) throw new OriginUnavailableError(`The origin sent something else than ${this.object.key}.`);
    }
  }

  /** The digests of the pieces, if an earlier process left the whole object in the file. */
  async #digestFile(): Promise<Buffer | null> {
    if (this.#writer === null || this.#unknown.size === 0) return null;
    await this.#writer.settle();
    const { sha256, pieces } = await hashOpenFile(this.#writer.cacheFile.file, this.object, this.#parts.gate);
    return sha256 === this.object.sha256 ? pieces : null;
  }

  /** Fetches the whole object and stores it if possible. Null: it is not what was recorded. */
  async #fetchWhole(): Promise<{ pieces: Buffer; isStored: boolean } | null> {
    const digests = createPieceDigests(this.object);
    let isStored = true;
    await fetchPieces({
      ...this.#parts,
      ...{ first: 0, last: pieceCount(this.object) - 1 },
      beforePiece: async () => undefined,
      onPiece: async (buffer, index) => {
        await digests.take(buffer);
        if (isStored) isStored = (await this.#writer?.write(buffer, index)) ?? false;
        return 'done';
      },
    });
    const { sha256, pieces } = digests.end();
    return sha256 === this.object.sha256 ? { pieces, isStored } : null;
  }
}

function createComingPiece(isWanted: boolean): ComingPiece {
  let resolve: ComingPiece['resolve'] = () => undefined;
  let reject: ComingPiece['reject'] = () => undefined;
  const promise = new Promise<VerifiedBuffer | null>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  // Requests that wait for it handle the error. If none waits, the error must not count as unhandled.
  promise.catch(() => undefined);
  return { promise, resolve, reject, isWanted, onWanted: null };
}

/** Writes pieces into a file of the cache folder, and distinguishes our own writes from those of others. */
class FileWriter {
  readonly cacheFile: CacheFile;
  isWritable = true;
  /** State of the file after our last write; null while we write. */
  #settled: FileState | null = null;
  #writes = 0;
  #writing = 0;

  constructor(cacheFile: CacheFile) {
    this.cacheFile = cacheFile;
  }

  /** Notes a use, which changes the time of the file now and then. */
  use(): void {
    if (this.cacheFile.use()) this.#change((file) => file.touch()).catch(() => undefined);
  }

  /** Writes a piece. False: it cannot be stored. */
  async write(piece: Buffer, index: number): Promise<boolean> {
    if (!this.isWritable) return false;
    if (!this.cacheFile.reserve(piece.length)) {
      this.isWritable = false;
      return false;
    }
    try {
      await this.#change((file) => file.write(piece, index * PIECE_BYTES));
    } catch (error) {
      this.isWritable = false;
      this.cacheFile.giveUp(error);
      return false;
    }
    this.cacheFile.wrote();
    return true;
  }

  /** Records the state of the file, unless it is recorded already or we are writing. */
  async settle(): Promise<void> {
    if (this.#settled !== null || this.#writing > 0) return;
    const before = this.#writes;
    const state = await this.cacheFile.file.state();
    if (before === this.#writes && this.#writing === 0) this.#settled = state;
  }

  /** Compares the file with its recorded state. An evicted or purged file was unlinked by us and changes no more. */
  async examine(): Promise<FileFinding> {
    if (this.#settled === null || !this.cacheFile.isPlaced) return 'same';
    const [before, settled] = [this.#writes, this.#settled];
    const state = await this.cacheFile.file.state();
    if (before !== this.#writes || !this.cacheFile.isPlaced || sameFile(state, settled)) return 'same';
    return 'changed';
  }

  async #change(work: (file: OpenFile) => Promise<void>): Promise<void> {
    this.#writes += 1;
    this.#writing += 1;
    this.#settled = null;
    try {
      await work(this.cacheFile.file);
    } finally {
      this.#writing -= 1;
    }
    await this.settle();
  }
}
