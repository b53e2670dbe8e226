import { type CacheStatus, PIECE_BYTES } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { createByteGate } from '../../base/byte-gate.ts';
import { systemCode } from '../../base/storage-error.ts';
import type { ByteRange } from '../byte-ranges.ts';
import type { ObjectOrigin } from '../object-origin.ts';
import {
  type ExpectedObject,
  ObjectDamagedError,
  pieceCount,
  readFromVerified,
  type VerifiedBuffer,
  verifyHashed,
  wrongSize,
} from '../verified-body.ts';
import { createCachedPieces, RUN_PIECES } from './disk/cached-pieces.ts';
import type { DiskFolder } from './disk/disk-folder.ts';
import { createLocalPieces } from './disk/local-pieces.ts';
import { type FileState, openFile, sameFile } from './disk/open-file.ts';
import { createOpenPieces } from './disk/open-pieces.ts';
import type { PieceFile } from './disk/piece-file.ts';
import { createPieceMap, type PieceMap } from './disk/piece-map.ts';
import { createReadingThreads } from './disk/reading-threads.ts';
import type { MemoryTier } from './memory/memory-tier.ts';
import type { PinnedMemory } from './memory/pinned-memory.ts';
import { createObjectReader, type ObjectReader } from './object-reader.ts';

/** A verified object and how the cache came by it: decided here, once, for header, request log and metric alike. */
export interface FoundObject {
  body: VerifiedBuffer | ObjectReader;
  /** `HIT`: every byte of the answer was held and had been verified. */
  cacheStatus: CacheStatus;
  /** Whether the cache holds it from now on. */
  stored: boolean;
  /** Whether it shared the read that another request had begun (RFC 9211, 2.7). */
  collapsed: boolean;
}

/** Which of a media object's objects. */
export interface OwnedObject {
  mediaId: string;
  object: ExpectedObject;
}

/** The cache tiers over the origin: memory, then files of this machine. */
export interface ObjectCache {
  /** The object if it is in memory, and may go to one more reader from there. */
  hit(object: ExpectedObject): VerifiedBuffer | undefined;
  /** Whether a request for the object would be a hit; reads nothing. */
  holds(owned: OwnedObject): boolean;
  /**
   * The object from the nearest tier that has it, as soon as its first wanted piece is verified. Requests that miss it at the
   * same time share one read, which belongs to none of them. A reader in the answer is the caller's to close.
   * @param wanted what is going to be sent of it
   * @throws ObjectDamagedError where the stored object is missing or not what was recorded, OriginUnavailableError
   */
  fetch(owned: OwnedObject, wanted: ByteRange): Promise<FoundObject>;
  /** As `fetch`, but never out of memory: a reader, which holds no more than a piece at a time. */
  open(owned: OwnedObject, wanted: ByteRange): Promise<FoundObject & { body: ObjectReader }>;
  /** Takes an open file away from those who come, as it has lost its place. */
  closeFile(mediaId: string, sha256: string): void;
  /** Under whichever keys it is held. */
  drop(owned: { mediaId: string; object: Pick<ExpectedObject, 'sha256'> }): void;
  dropMedia(mediaId: string): void;
  clear(): void;
  /** Has ready what the first miss needs. */
  warmUp(): void;
  /** Ends the fills that are under way and closes every file. */
  stop(): Promise<void>;
  /** Reads of the origin: objects and runs of pieces that were not held, and passes over files that had not been verified. */
  readonly reads: number;
  /** Answers that shared a read. */
  readonly collapsed: number;
  readonly damaged: number;
}

/** How long a damaged object is not read again, so that its readers can't keep the disk and the log busy. */
const DAMAGED_MS = 1_000;
/** Bytes that are read and not yet verified, at most: what a thousand misses at once hold together. */
const UNVERIFIED_BYTES = 16 * 1024 * 1024;
/** Files that stay open though nobody reads them, as opening and verifying cost more than reading. */
const IDLE_FILES = 256;

/** Which pieces of a file were verified, and as which file. */
interface Verdict {
  state: FileState;
  verified: PieceMap;
}

export function createObjectCache(deps: {
  origin: ObjectOrigin;
  /** Where objects of an origin elsewhere are kept; null: in memory alone. */
  folder: DiskFolder | null;
  memory: MemoryTier;
  pinned: PinnedMemory;
  /** Keeps the digests of an object's pieces that were found out by verifying the whole. */
  keepDigests: (sha256: string, pieces: Buffer) => Promise<void>;
  logger: Pick<Logger, 'error' | 'warn'>;
}): ObjectCache {
  const { origin, folder, memory, pinned, keepDigests, logger } = deps;
  const fills = new Map<string, Promise<Filled>>();
  const verdicts = new LRUCache<string, Verdict>({ max: 10_000 });
  const damaged = new LRUCache<string, ObjectDamagedError>({ max: 1000, ttl: DAMAGED_MS });
  const gate = createByteGate(UNVERIFIED_BYTES);
  const stopping = new AbortController();
  const threads = createReadingThreads();
  const pieces = createOpenPieces(IDLE_FILES, (error) => logger.warn({ err: error }, 'A file could not be closed.'));
  let reads = 0;
  let collapsedCount = 0;
  let damagedCount = 0;

  const keyOf = ({ mediaId, object }: OwnedObject) => `${mediaId} ${object.sha256} ${object.key}`;

  /** Tells the operator of a damaged object, once for all who asked for it in this moment. */
  const report = (error: unknown): unknown => {
    if (!(error instanceof ObjectDamagedError)) return error;
    const place = placeOf(error.object, error.piece);
    if (damaged.has(place)) return error;
    damagedCount += 1;
    damaged.set(place, error);
    logger.error(
      { event: 'object_corrupt', objectKey: error.object.key, err: error },
      `${error.message} It is not delivered. Have it made again: \`mds doctor --repair\`.`,
    );
    return error;
  };

  /** Damage that the origin makes good: told of and counted, but not in anybody's way. */
  const reportMended = (error: ObjectDamagedError): void => {
    damagedCount += 1;
    logger.error(
      { event: 'cache_corrupt', objectKey: error.object.key, err: error },
      `${error.message} It is not delivered, but fetched anew.`,
    );
  };

  /** From now on each piece is verified by itself, here and, once it is written down, everywhere. */
  const learn = (object: ExpectedObject, digests: Buffer): void => {
    object.pieces = digests;
    keepDigests(object.sha256, digests).catch((error: unknown) =>
      logger.warn({ err: error, objectKey: object.key }, 'the digests of an object could not be kept'),
    );
  };

  const countRead = () => {
    reads += 1;
  };

  /** The object's own file where the origin is on this machine, else one of the cache folder. */
  const openPieces = async (owned: OwnedObject): Promise<PieceFile> => {
    const { mediaId, object } = owned;
    const local = await origin.localFile(object);
    if (local !== null) {
      try {
        return await openLocal(owned, local.path);
      } finally {
        // An open file outlives its name.
        await local.release();
      }
    }
    return createCachedPieces({
      object,
      kept: (await folder?.open(mediaId, object)) ?? null,
      origin,
      gate,
      report: { onFetch: countRead, onDamage: reportMended, onDigests: (digests) => learn(object, digests) },
      signal: stopping.signal,
    });
  };

  const openLocal = async (owned: OwnedObject, path: string): Promise<PieceFile> => {
    const { object } = owned;
    const file = await openFile(path).catch((error: unknown) => {
      throw isMissing(error) ? new ObjectDamagedError(object, 'is missing') : error;
    });
    try {
      const state = await file.state();
      if (state.size !== object.bytes) throw wrongSize(object, state.size);
      const known = verdicts.get(keyOf(owned));
      const verdict = known && sameFile(known.state, state) ? known : { state, verified: createPieceMap(object) };
      verdicts.set(keyOf(owned), verdict);
      const onDigests = (digests: Buffer) => learn(object, digests);
      return createLocalPieces({ object, file, ...verdict, gate, onVerify: countRead, onDigests });
    } catch (error) {
      await file.close();
      throw error;
    }
  };

  const hold = (owned: OwnedObject) => pieces.hold(keyOf(owned), () => openPieces(owned));

  /** A reader of an object's file, once the first piece that is wanted is verified. */
  const read = async (owned: OwnedObject, wanted: ByteRange): Promise<FoundObject & { body: ObjectReader }> => {
    const first = firstPiece(wanted);
    const last = Math.max(first, Math.floor(wanted.end / PIECE_BYTES));
    const file = await hold(owned);
    try {
      file.use();
      if (!file.holds(first, last)) await file.lookInFile(first, Math.min(last, first + RUN_PIECES - 1));
      const held = file.holds(first, last);
      const collapsed = file.isUnderWay(first);
      if (!held) await file.ensure(first, last);
      if (collapsed) collapsedCount += 1;
      const stored = held || (await file.keeps(first, last));
      const body = createObjectReader(file, {
        last,
        report,
        release: pieces.release,
        async reopen(stale) {
          pieces.discardFile(stale);
          pieces.release(stale);
          return hold(owned);
        },
      });
      return { body, cacheStatus: held ? 'HIT' : 'MISS', stored, collapsed };
    } catch (error) {
      pieces.release(file);
      throw error;
    }
  };

  /** The whole of a small object, verified; where the origin is on this machine, without keeping its file open. */
  const fill = async (owned: OwnedObject): Promise<Filled> => {
    const { mediaId, object } = owned;
    const local = await origin.localFile(object);
    const filled =
      local === null ? await fillFromPieces(owned) : { body: await fillFromFile(object, local), held: false };
    memory.put(object.sha256, filled.body, mediaId);
    return filled;
  };

  const fillFromFile = async (
    object: ExpectedObject,
    local: { path: string; release(): Promise<void> },
  ): Promise<VerifiedBuffer> => {
    countRead();
    await gate.enter(object.bytes);
    try {
      return verifyHashed(await threads.read(local.path, object.bytes), object);
    } catch (error) {
      throw isMissing(error) ? new ObjectDamagedError(object, 'is missing') : error;
    } finally {
      gate.leave(object.bytes);
      await local.release();
    }
  };

  const fillFromPieces = async (owned: OwnedObject): Promise<Filled> => {
    const { object } = owned;
    const whole = { start: 0, end: Math.max(0, object.bytes - 1) };
    const { body, cacheStatus } = await read(owned, whole);
    try {
      const bytes = Buffer.allocUnsafeSlow(object.bytes);
      for (let at = 0; at < bytes.length; ) {
        const view = bytes.subarray(at);
        const part = await body.read(view, at, view.length);
        if (part.buffer !== bytes.buffer) part.copy(view);
        at += part.length;
      }
      return { body: readFromVerified(bytes), held: cacheStatus === 'HIT' };
    } finally {
      body.close();
    }
  };

  const fetchSmall = async (owned: OwnedObject): Promise<FoundObject> => {
    const id = keyOf(owned);
    const begun = fills.get(id);
    if (begun !== undefined) collapsedCount += 1;
    const filling = begun ?? fill(owned).finally(() => fills.delete(id));
    if (begun === undefined) fills.set(id, filling);
    const { body, held } = await filling;
    return { body, cacheStatus: held ? 'HIT' : 'MISS', stored: true, collapsed: begun !== undefined && !held };
  };

  const hit = (object: ExpectedObject) => {
    const body = memory.get(object.sha256);
    return body && pinned.allows(body) ? body : undefined;
  };

  const throwIfDamaged = ({ object }: OwnedObject, wanted: ByteRange): void => {
    const known = damaged.get(placeOf(object, null)) ?? damaged.get(placeOf(object, firstPiece(wanted)));
    if (known) throw known;
  };

  return {
    hit,

    holds(owned) {
      if (memory.has(owned.object.sha256)) return true;
      const open = pieces.peek(keyOf(owned));
      if (open) return open.holds(0, pieceCount(owned.object) - 1);
      return folder?.holds(owned.mediaId, owned.object) ?? false;
    },

    async fetch(owned, wanted) {
      const { object } = owned;
      const body = hit(object);
      if (body) return { body, cacheStatus: 'HIT', stored: true, collapsed: false };
      throwIfDamaged(owned, wanted);
      try {
        if (memory.admits(object.bytes) && pinned.hasRoom) return await fetchSmall(owned);
        return await read(owned, wanted);
      } catch (error) {
        throw report(error);
      }
    },

    async open(owned, wanted) {
      throwIfDamaged(owned, wanted);
      try {
        return await read(owned, wanted);
      } catch (error) {
        throw report(error);
      }
    },

    closeFile: (mediaId, sha256) => pieces.discardWhere((key) => key.startsWith(`${mediaId} ${sha256} `)),

    drop({ mediaId, object: { sha256 } }) {
      const isOfIt = (key: string) => key.startsWith(`${mediaId} ${sha256} `);
      memory.drop(sha256);
      pieces.discardWhere(isOfIt);
      for (const key of verdicts.keys()) if (isOfIt(key)) verdicts.delete(key);
      folder?.drop(mediaId, sha256);
    },

    dropMedia(mediaId) {
      memory.dropOwned(mediaId);
      pieces.discardWhere((key) => key.startsWith(`${mediaId} `));
      folder?.dropMedia(mediaId);
    },

    clear() {
      memory.clear();
      pieces.discardWhere(() => true);
      verdicts.clear();
      folder?.clear();
    },

    warmUp: threads.warmUp,

    async stop() {
      stopping.abort(new Error('The service stops.'));
      await Promise.allSettled(fills.values());
      await threads.stop();
      await pieces.closeAll();
    },

    get reads() {
      return reads;
    },
    get collapsed() {
      return collapsedCount;
    },
    get damaged() {
      return damagedCount;
    },
  };
}

interface Filled {
  body: VerifiedBuffer;
  /** Whether it was held, and only had to be brought into memory. */
  held: boolean;
}

/** What is damaged: an object, or one piece of it. */
const placeOf = ({ key, sha256 }: ExpectedObject, piece: number | null) => `${key} ${sha256} ${piece}`;
const firstPiece = ({ start }: ByteRange) => Math.floor(start / PIECE_BYTES);

function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}
