import { type CacheStatus, PIECE_BYTES } from '@mds/contract';
import type { Logger } from 'pino';
import { createByteGate } from '../../base/byte-gate.ts';
import type { ByteRange } from '../byte-ranges.ts';
import type { ObjectOrigin } from '../object-origin.ts';
import {
  type ExpectedObject,
  firstPieceOf,
  lastPieceOf,
  ObjectDamagedError,
  type OwnedObject,
  pieceCount,
  pieceLength,
  readFromVerified,
  type VerifiedBuffer,
  type VerifiedRun,
  verifyHashed,
} from '../verified-body.ts';
import { createDamageLog, type DamageLog } from './damage-log.ts';
import type { DiskFolder } from './disk/disk-folder.ts';
import { createObjectFiles, isMissingFile, type ObjectFiles } from './disk/object-files.ts';
import { createReadingThreads } from './disk/reading-threads.ts';
import type { MemoryTier } from './memory/memory-tier.ts';
import type { PinnedMemory } from './memory/pinned-memory.ts';
import { createObjectReader, type ObjectReader } from './object-reader.ts';
import { RUN_PIECES } from './origin/origin-run.ts';

/** How the cache took part in an answer: decided once, for header, asset record and metric alike. */
export interface CacheDecision {
  /** `HIT`: the cache held every byte of the answer, and had verified it. */
  readonly cacheStatus: CacheStatus;
  /** Whether the cache holds it from now on. */
  readonly stored: boolean;
  /** Whether the answer shared a read that another request had begun (RFC 9211, 2.7). */
  readonly collapsed: boolean;
}

/** The verified bytes of an answer, and how the cache came by them. */
export interface FoundObject extends CacheDecision {
  /** All wanted bytes in memory, or a reader, which the caller must close. */
  readonly body: VerifiedRun | ObjectReader;
}

type FoundReader = FoundObject & { readonly body: ObjectReader };

/** Bytes in memory that are not verified yet, at most: a thousand misses at once share them. */
const UNVERIFIED_BYTES = 16 * 1024 * 1024;
/** Bytes that are being copied from verified files into memory, at most. */
const COPIED_BYTES = 16 * 1024 * 1024;

export const HIT: CacheDecision = { cacheStatus: 'HIT', stored: true, collapsed: false };

export interface ObjectCacheParts {
  origin: ObjectOrigin;
  /** Stores objects of a remote origin; null: in memory only. */
  folder: DiskFolder | null;
  memory: MemoryTier;
  pinned: PinnedMemory;
  /** Stores digests of pieces that verifying the whole object has yielded. */
  keepDigests: (sha256: string, pieces: Buffer) => Promise<void>;
  logger: Pick<Logger, 'error' | 'warn'>;
}

/**
 * The cache tiers over the origin: memory, then files of this machine. Every tier holds verified pieces:
 * - an object of one piece is read into memory by its first request;
 * - a larger object is read from its file, each piece verified before its first use, and fetched piece by piece if it is not here;
 * - pieces of a larger object that are requested again enter memory, if the answer needs only a few of them.
 */
export class ObjectCache {
  readonly #parts: ObjectCacheParts;
  readonly #damage: DamageLog;
  readonly #files: ObjectFiles;
  readonly #unverified = createByteGate(UNVERIFIED_BYTES);
  readonly #copied = createByteGate(COPIED_BYTES);
  readonly #threads = createReadingThreads();
  readonly #loads = new Map<string, Promise<LoadedPiece>>();
  readonly #stopping = new AbortController();
  #reads = 0;
  #collapsed = 0;

  constructor(parts: ObjectCacheParts) {
    this.#parts = parts;
    this.#damage = createDamageLog(parts.logger);
    this.#files = createObjectFiles({
      ...parts,
      gate: this.#unverified,
      onRead: () => this.#countRead(),
      onRepairedDamage: this.#damage.reportRepaired,
      signal: this.#stopping.signal,
    });
  }

  /** The wanted bytes, if they are in memory and one more reader may be sent them from there. */
  hit({ mediaId, object }: OwnedObject, wanted: ByteRange): VerifiedRun | undefined {
    const { memory, pinned, folder } = this.#parts;
    const run = memory.find(object, wanted);
    if (run === undefined || !pinned.allows(run.pieces)) return undefined;
    // Its other pieces are on the disk alone, and are likely to be wanted next.
    if (pieceCount(object) > 1) folder?.use(mediaId, object.sha256);
    return run;
  }

  /** Whether a request for the whole object would be a hit. Reads nothing. */
  holds(owned: OwnedObject): boolean {
    const last = pieceCount(owned.object) - 1;
    if (last === 0 && this.#parts.memory.has(owned.object.sha256)) return true;
    return this.#files.holds(owned, 0, last);
  }

  /**
   * The wanted bytes from the nearest tier that has them, as soon as the first piece is verified. Requests that miss the same
   * object at the same time share one read, which belongs to none of them.
   * @throws ObjectDamagedError if the stored object is missing or not what was recorded, OriginUnavailableError
   */
  async fetch(owned: OwnedObject, wanted: ByteRange): Promise<FoundObject> {
    const { memory, pinned } = this.#parts;
    const { object } = owned;
    const body = this.hit(owned, wanted);
    if (body) return { body, ...HIT };
    const isForMemory = pinned.hasRoom && memory.admits(object.bytes);
    if (pieceCount(object) === 1 && isForMemory) return this.#guard(owned, wanted, () => this.#fetchOnePiece(owned));
    const isWantedAgain = isForMemory && memory.wants(object, wanted);
    const found = await this.open(owned, wanted);
    if (!isWantedAgain || found.cacheStatus === 'MISS') return found;
    try {
      return { ...found, body: await this.#guard(owned, wanted, () => this.#loadRun(owned, wanted)) };
    } finally {
      found.body.close();
    }
  }

  /** As {@link fetch}, but always a reader, which holds at most a piece in memory at a time. */
  open(owned: OwnedObject, wanted: ByteRange): Promise<FoundReader> {
    return this.#guard(owned, wanted, () => this.#openReader(owned, wanted));
  }

  /** Withdraws the open file of an object that was evicted from the cache folder. */
  closeFile(mediaId: string, sha256: string): void {
    this.#files.withdraw(mediaId, sha256);
  }

  /** Drops an object from every tier. */
  drop(mediaId: string, { sha256, bytes }: Pick<ExpectedObject, 'sha256'> & { bytes?: number }): void {
    this.#parts.memory.drop(sha256, bytes);
    this.#files.forget(mediaId, sha256);
    this.#parts.folder?.drop(mediaId, sha256);
  }

  dropMedia(mediaId: string): void {
    this.#parts.memory.dropOwned(mediaId);
    this.#files.withdraw(mediaId);
    this.#parts.folder?.dropMedia(mediaId);
  }

  clear(): void {
    this.#parts.memory.clear();
    this.#files.forgetAll();
    this.#parts.folder?.clear();
  }

  /** Starts what the first miss needs. */
  warmUp(): void {
    this.#threads.warmUp();
  }

  /** Ends the fetches in progress and closes every file. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('The service stops.'));
    await Promise.allSettled(this.#loads.values());
    await this.#threads.stop();
    await this.#files.closeAll();
  }

  /** Reads of the origin, and passes over files that had not been verified. */
  get reads(): number {
    return this.#reads;
  }

  /** Answers that shared a read. */
  get collapsed(): number {
    return this.#collapsed;
  }

  /** Objects, or pieces of them, found damaged. */
  get damaged(): number {
    return this.#damage.count;
  }

  #countRead(): void {
    this.#reads += 1;
  }

  async #guard<T>({ object }: OwnedObject, wanted: ByteRange, work: () => Promise<T>): Promise<T> {
    this.#damage.refuse(object, firstPieceOf(wanted));
    try {
      return await work();
    } catch (error) {
      throw this.#damage.report(error);
    }
  }

  /** A reader of an object's file, as soon as the first wanted piece is verified. */
  async #openReader(owned: OwnedObject, wanted: ByteRange): Promise<FoundReader> {
    const [first, last] = [firstPieceOf(wanted), lastPieceOf(wanted)];
    const file = await this.#files.hold(owned);
    try {
      file.use();
      if (!file.holds(first, last)) await file.lookInFile(first, Math.min(last, first + RUN_PIECES - 1));
      const isHeld = file.holds(first, last);
      const collapsed = file.isUnderWay(first);
      const loose = isHeld ? null : await file.ensure(first, last);
      if (collapsed) this.#collapsed += 1;
      const stored = isHeld || (await file.keeps(first, last));
      const body = createObjectReader(file, {
        ...{ first, last, loose },
        report: this.#damage.report,
        release: this.#files.release,
        reopen: (stale) => this.#files.reopen(stale, owned),
      });
      return { body, cacheStatus: isHeld ? 'HIT' : 'MISS', stored, collapsed };
    } catch (error) {
      this.#files.release(file);
      throw error;
    }
  }

  /** An object of one piece, which enters memory. */
  async #fetchOnePiece(owned: OwnedObject): Promise<FoundObject> {
    const isBegun = this.#loads.has(loadKey(owned, 0));
    if (isBegun) this.#collapsed += 1;
    const { piece, wasHeld } = await this.#load(owned, 0);
    const body = { start: 0, pieces: [piece] };
    return { body, cacheStatus: wasHeld ? 'HIT' : 'MISS', stored: true, collapsed: isBegun && !wasHeld };
  }

  /** Pieces of a larger object, which enter memory. */
  async #loadRun(owned: OwnedObject, wanted: ByteRange): Promise<VerifiedRun> {
    const first = firstPieceOf(wanted);
    const loading: Promise<VerifiedBuffer>[] = [];
    for (let index = first; index <= lastPieceOf(wanted); index += 1) {
      const ready = this.#parts.memory.get(owned.object.sha256, index);
      loading.push(ready ? Promise.resolve(ready) : this.#load(owned, index).then(({ piece }) => piece));
    }
    return { start: first * PIECE_BYTES, pieces: await Promise.all(loading) };
  }

  /** Reads a piece into memory, once for all requests that want it at the same time. */
  #load(owned: OwnedObject, index: number): Promise<LoadedPiece> {
    const key = loadKey(owned, index);
    const begun = this.#loads.get(key);
    if (begun !== undefined) return begun;
    const loading = this.#readPiece(owned, index).finally(() => this.#loads.delete(key));
    this.#loads.set(key, loading);
    return loading;
  }

  async #readPiece(owned: OwnedObject, index: number): Promise<LoadedPiece> {
    const { mediaId, object } = owned;
    const local = pieceCount(object) === 1 ? await this.#parts.origin.localFile(object) : null;
    const loaded =
      local === null
        ? await this.#copyPiece(owned, index)
        : { piece: await this.#readSmallFile(object, local), wasHeld: false };
    this.#parts.memory.put(object.sha256, loaded.piece, mediaId, index);
    return loaded;
  }

  /** Reads and verifies an object of one piece where it is stored, without keeping its file open. */
  async #readSmallFile(
    object: ExpectedObject,
    local: { path: string; release(): Promise<void> },
  ): Promise<VerifiedBuffer> {
    this.#countRead();
    await this.#unverified.enter(object.bytes);
    try {
      return verifyHashed(await this.#threads.read(local.path, object.bytes), object);
    } catch (error) {
      throw isMissingFile(error) ? new ObjectDamagedError(object, 'is missing') : error;
    } finally {
      this.#unverified.leave(object.bytes);
      await local.release();
    }
  }

  /** Copies a piece from the object's file, or from the origin if the file does not have it. */
  async #copyPiece(owned: OwnedObject, index: number): Promise<LoadedPiece> {
    const length = pieceLength(owned.object, index);
    const start = index * PIECE_BYTES;
    const { body, cacheStatus } = await this.#openReader(owned, { start, end: start + length - 1 });
    await this.#copied.enter(length);
    try {
      const bytes = Buffer.allocUnsafeSlow(length);
      for (let at = 0; at < length; ) {
        const view = bytes.subarray(at);
        const part = await body.read(view, start + at, view.length);
        if (part.buffer !== bytes.buffer) part.copy(view);
        at += part.length;
      }
      return { piece: readFromVerified(bytes), wasHeld: cacheStatus === 'HIT' };
    } finally {
      this.#copied.leave(length);
      body.close();
    }
  }
}

interface LoadedPiece {
  piece: VerifiedBuffer;
  /** Whether a file of this machine held it already. */
  wasHeld: boolean;
}

const loadKey = ({ mediaId, object }: OwnedObject, index: number) =>
  `${mediaId} ${object.sha256} ${object.key} ${index}`;
