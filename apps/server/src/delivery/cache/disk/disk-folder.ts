import type { Logger } from 'pino';
import type { ExpectedObject } from '../../verified-body.ts';
import { entryOf, FolderFiles, keyOf, OWNER } from './folder-files.ts';
import { createFolderIndex, type FolderEntry } from './folder-index.ts';
import type { OpenFile } from './open-file.ts';

/** Time between two updates of a file's time: the order of use must survive a restart, but only roughly. */
const TOUCH_MS = 3 * 60_000;
/** A full volume still takes a small file now and then. It counts as recovered after this time without a failure. */
const RECOVERED_MS = 60_000;
/** An object larger than this part of the folder is not stored, because it would evict everything else. */
export const LARGEST_SHARE = 1 / 2;

/** A file of the cache folder, and its place there. */
export interface CacheFile {
  file: OpenFile;
  /** Whether an earlier process may have left pieces in it. */
  existed: boolean;
  /** Notes a use. @returns whether to set the time of the file, so that the order of use survives a restart */
  use(): boolean;
  /** Makes room for this many bytes. False: there is none. */
  reserve(bytes: number): boolean;
  /** Whether this many bytes are likely to be stored: no write has failed lately, and the volume has room for them. */
  hasRoomFor(bytes: number): Promise<boolean>;
  /** Notes a successful write. */
  wrote(): void;
  /** Removes the file from the folder, because it cannot be written. */
  giveUp(error: unknown): void;
  /** Whether it still has its place. A file that was evicted or purged was unlinked by us and changes no more. */
  readonly isPlaced: boolean;
}

/**
 * The cache folder of a point of presence, with a file for each object at `{media object}/{sha256}`. The least recently used files
 * are removed to make room. Nothing in it is trusted: every piece is verified before it is used.
 */
export interface DiskFolder {
  /** The file of an object, made if there is none. Null: it cannot be stored. */
  open(mediaId: string, object: ExpectedObject): Promise<CacheFile | null>;
  /** Whether the whole object seems to be there. Does not count as a use. */
  holds(mediaId: string, object: ExpectedObject): boolean;
  /** Notes a use of an object whose bytes came from memory. */
  use(mediaId: string, sha256: string): void;
  drop(mediaId: string, sha256: string): void;
  dropMedia(mediaId: string): void;
  clear(): void;
  /** Resolves when the content of the folder at the start is known. */
  readonly scanned: Promise<void>;
  /** Ends the scan, and waits for files that are being removed. */
  stop(): Promise<void>;
  readonly bytes: number;
  readonly entries: number;
  readonly evictions: number;
  readonly maxBytes: number;
  /** Whether the last write failed, for lack of room or another reason. */
  readonly failing: boolean;
}

/**
 * Makes a {@link DiskFolder} at a path. Scans its content in the background; files with other names are left alone.
 * @param options.maxBytes size of all files together
 */
export function createDiskFolder(options: {
  dir: string;
  maxBytes: number;
  isInMemory: (sha256: string) => boolean;
  /** Called for each file that is removed: while it is open, its room is not free. */
  onGone: (mediaId: string, sha256: string) => void;
  logger: Pick<Logger, 'warn' | 'info'>;
}): DiskFolder {
  const { dir, maxBytes, isInMemory, onGone, logger } = options;
  const files = new FolderFiles(dir, logger);
  const writes = createWriteState(logger);
  const stopping = new AbortController();
  let isScanned = false;

  /** Removes the file of an entry that is no longer in the index. */
  const unlink = (key: string, { mediaId, sha256 }: FolderEntry): void => {
    onGone(mediaId, sha256);
    files.remove(key);
  };

  const index = createFolderIndex({ maxBytes, isInMemory, onEvict: unlink, onSpare: (key) => files.touch(key) });

  const remove = (key: string, entry: FolderEntry): void => {
    if (index.remove(key, entry)) unlink(key, entry);
  };

  const scan = async (): Promise<void> => {
    const found = await files.scan(stopping.signal);
    isScanned = true;
    index.addOlder(found.filter(([key]) => !files.isRemoving(key)));
  };

  const scanned = scan().catch((error: unknown) => {
    isScanned = true;
    logger.warn({ err: error }, 'the cache folder could not be scanned completely, the rest is not counted');
  });

  const openEntry = async (mediaId: string, { sha256 }: ExpectedObject): Promise<CacheFile> => {
    const key = keyOf(mediaId, sha256);
    const file = await files.open(key);
    const state = await file.state();
    const entry = index.get(key) ?? entryOf(mediaId, sha256, state);
    index.use(key, entry);
    return {
      file,
      existed: state.size > 0,
      use() {
        if (!index.isPlaced(key, entry)) return false;
        index.use(key, entry);
        return isTouchDue(entry);
      },
      reserve: (more) => index.grow(key, entry, more),
      async hasRoomFor(more) {
        if (writes.failing) return false;
        const freeBytes = await files.freeBytes();
        // Room comes from evictions too.
        return more <= freeBytes + Math.max(0, index.bytes + more - maxBytes);
      },
      wrote: writes.succeeded,
      giveUp(error) {
        writes.failed(error);
        remove(key, entry);
      },
      get isPlaced() {
        return index.isPlaced(key, entry);
      },
    };
  };

  /** Removes files. Those that the scan has not reached yet are removed when it has. */
  const removeWhere = (applies: (entry: FolderEntry) => boolean): void => {
    for (const [key, entry] of index.entries()) if (applies(entry)) remove(key, entry);
    if (!isScanned && !stopping.signal.aborted) void scanned.then(() => removeWhere(applies));
  };

  return {
    async open(mediaId, object) {
      if (stopping.signal.aborted || object.bytes > maxBytes * LARGEST_SHARE || !OWNER.test(mediaId)) return null;
      try {
        return await openEntry(mediaId, object);
      } catch (error) {
        writes.failed(error);
        return null;
      }
    },

    holds(mediaId, object) {
      const entry = index.get(keyOf(mediaId, object.sha256));
      return entry !== undefined && entry.bytes >= object.bytes;
    },

    use(mediaId, sha256) {
      const key = keyOf(mediaId, sha256);
      const entry = index.get(key);
      if (entry === undefined) return;
      index.use(key, entry);
      if (isTouchDue(entry)) files.touch(key);
    },

    drop: (mediaId, sha256) => removeWhere((entry) => entry.mediaId === mediaId && entry.sha256 === sha256),
    dropMedia: (mediaId) => removeWhere((entry) => entry.mediaId === mediaId),
    clear: () => removeWhere(() => true),

    scanned,

    async stop() {
      stopping.abort();
      await scanned;
      await files.removed();
    },

    get bytes() {
      return index.bytes;
    },
    get entries() {
      return index.size;
    },
    get evictions() {
      return index.evictions;
    },
    maxBytes,
    get failing() {
      return writes.failing;
    },
  };
}

/** Whether to set the time of a file that is used. If so, it counts as done. */
function isTouchDue(entry: FolderEntry): boolean {
  const now = Date.now();
  if (now - entry.touchedMs < TOUCH_MS) return false;
  entry.touchedMs = now;
  return true;
}

/** Whether the folder can be written. Logs once that nothing can be stored, and once that it can again. */
function createWriteState(logger: Pick<Logger, 'warn' | 'info'>) {
  let failing = false;
  let failedAtMs = 0;
  return {
    failed(error: unknown): void {
      if (!failing) {
        logger.warn(
          { err: error },
          'the cache folder cannot be written: fetched objects are delivered without being stored',
        );
      }
      failing = true;
      failedAtMs = Date.now();
    },
    succeeded(): void {
      if (!failing || Date.now() - failedAtMs < RECOVERED_MS) return;
      failing = false;
      logger.info('the cache folder can be written again');
    },
    get failing() {
      return failing;
    },
  };
}
