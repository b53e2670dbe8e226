import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { systemCode } from '../../../base/storage-error.ts';
import type { ObjectOrigin } from '../../object-origin.ts';
import { type ExpectedObject, ObjectDamagedError, type OwnedObject, wrongSize } from '../../verified-body.ts';
import { CachedPieces } from './cached-pieces.ts';
import type { DiskFolder } from './disk-folder.ts';
import { createLocalPieces } from './local-pieces.ts';
import { type FileState, openFile, sameFile } from './open-file.ts';
import { createOpenPieces } from './open-pieces.ts';
import { createPieceMap, type PieceFile, type PieceMap } from './piece-file.ts';

/** The open files of objects: their own files if the origin is on this machine, else files of the cache folder. */
export interface ObjectFiles {
  /** The file of an object, held until `release`. */
  hold(owned: OwnedObject): Promise<PieceFile>;
  release(file: PieceFile): void;
  /** Releases a file that turned out to be another one, for all readers. @returns the object's file as it is now, held */
  reopen(stale: PieceFile, owned: OwnedObject): Promise<PieceFile>;
  /** Whether all pieces from `first` to `last` are known to be here. Reads nothing. */
  holds(owned: OwnedObject, first: number, last: number): boolean;
  /** Withdraws the files of a media object, or of one of its objects, from further requests. Their readers finish. */
  withdraw(mediaId: string, sha256?: string): void;
  /** As {@link withdraw}, and verifies the pieces again before they are used again. */
  forget(mediaId: string, sha256: string): void;
  forgetAll(): void;
  closeAll(): Promise<void>;
}

/** Files that stay open without a reader. Opening and verifying cost more than reading. */
const IDLE_FILES = 256;

/** The verified pieces of a file, and the state of the file when they were verified. */
interface Verdict {
  state: FileState;
  verified: PieceMap;
}

export interface ObjectFilesParts {
  origin: ObjectOrigin;
  /** Stores objects of a remote origin; null: in memory only. */
  folder: DiskFolder | null;
  gate: ByteGate;
  /** Stores digests of pieces that verifying the whole object has yielded. */
  keepDigests: (sha256: string, pieces: Buffer) => Promise<void>;
  /** Called for each read of the origin, and for each pass over an unverified file. */
  onRead: () => void;
  /** Called for damage that a further read of the origin repairs. */
  onRepairedDamage: (error: ObjectDamagedError) => void;
  signal: AbortSignal;
  logger: Pick<Logger, 'warn'>;
}

/** Makes {@link ObjectFiles}. */
export function createObjectFiles(parts: ObjectFilesParts): ObjectFiles {
  const { origin, folder, gate, onRead, logger } = parts;
  const verdicts = new LRUCache<string, Verdict>({ max: 10_000 });
  const pieces = createOpenPieces(IDLE_FILES, (error) => logger.warn({ err: error }, 'a file could not be closed'));

  /** From now on each piece can be verified by itself, and by other processes too once the digests are stored. */
  const learnDigests = (object: ExpectedObject, digests: Buffer): void => {
    object.pieces = digests;
    parts
      .keepDigests(object.sha256, digests)
      .catch((error: unknown) =>
        logger.warn({ err: error, objectKey: object.key }, 'the digests of an object could not be stored'),
      );
  };

  const openLocal = async (owned: OwnedObject, path: string): Promise<PieceFile> => {
    const { object } = owned;
    const file = await openFile(path).catch((error: unknown) => {
      throw isMissingFile(error) ? new ObjectDamagedError(object, 'is missing') : error;
    });
    try {
      const state = await file.state();
      if (state.size !== object.bytes) throw wrongSize(object, state.size);
      const known = verdicts.get(keyOf(owned));
      const verdict = known && sameFile(known.state, state) ? known : { state, verified: createPieceMap(object) };
      verdicts.set(keyOf(owned), verdict);
      const onDigests = (digests: Buffer) => learnDigests(object, digests);
      return createLocalPieces({ object, file, ...verdict, gate, onVerify: onRead, onDigests });
    } catch (error) {
      await file.close();
      throw error;
    }
  };

  const open = async (owned: OwnedObject): Promise<PieceFile> => {
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
    return new CachedPieces({
      ...{ object, origin, gate, signal: parts.signal },
      cacheFile: (await folder?.open(mediaId, object)) ?? null,
      report: {
        onFetch: onRead,
        onDamage: parts.onRepairedDamage,
        onDigests: (digests) => learnDigests(object, digests),
      },
    });
  };

  const hold = (owned: OwnedObject) => pieces.hold(keyOf(owned), () => open(owned));
  const withdraw = (mediaId: string, sha256?: string) => pieces.discardWhere(isKeyOf(mediaId, sha256));

  return {
    hold,
    release: pieces.release,

    reopen(stale, owned) {
      pieces.discardFile(stale);
      pieces.release(stale);
      return hold(owned);
    },

    holds(owned, first, last) {
      const file = pieces.peek(keyOf(owned));
      return file ? file.holds(first, last) : (folder?.holds(owned.mediaId, owned.object) ?? false);
    },

    withdraw,

    forget(mediaId, sha256) {
      withdraw(mediaId, sha256);
      const applies = isKeyOf(mediaId, sha256);
      for (const key of verdicts.keys()) if (applies(key)) verdicts.delete(key);
    },

    forgetAll() {
      pieces.discardWhere(() => true);
      verdicts.clear();
    },

    closeAll: pieces.closeAll,
  };
}

const keyOf = ({ mediaId, object }: OwnedObject) => `${mediaId} ${object.sha256} ${object.key}`;
const isKeyOf = (mediaId: string, sha256?: string) => (key: string) =>
  key.startsWith(sha256 === undefined ? `${mediaId} ` : `${mediaId} ${sha256} `);

/** Whether a system error means that a file does not exist. */
export function isMissingFile(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}
