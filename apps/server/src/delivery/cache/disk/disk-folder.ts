import { constants } from 'node:fs';
import { mkdir, opendir, rm, rmdir, stat, statfs, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { systemCode } from '../../../base/storage-error.ts';
import type { ExpectedObject } from '../../verified-body.ts';
import { createFolderIndex, type FolderEntry } from './folder-index.ts';
import { type OpenFile, openFile } from './open-file.ts';

/** Time between two updates of a file's time: the order of use must survive a restart, but only roughly. */
const TOUCH_MS = 3 * 60_000;
/** A full volume still takes a small file now and then. It counts as recovered after this time without a failure. */
const RECOVERED_MS = 60_000;
const OWNER = /^[a-z0-9_-]{1,64}$/;
const CONTENT = /^[0-9a-f]{64}$/;
/** An object larger than this part of the folder is not stored, because it would evict everything else. */
export const LARGEST_SHARE = 1 / 2;
/** How often a media object's folder may vanish while a file is made in it. */
const MAX_OPEN_TRIES = 5;

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
  const { dir: folder, maxBytes, isInMemory, onGone, logger } = options;
  const removing = new Map<string, Promise<void>>();
  let stopped = false;
  let isScanned = false;
  let failing = false;
  let failedAtMs = 0;

  const keyOf = (mediaId: string, sha256: string) => `${mediaId}/${sha256}`;
  const pathOf = (key: string) => join(folder, key);

  /** Removes the file of an entry that is no longer in the index. */
  const unlink = (key: string, { mediaId, sha256 }: FolderEntry): void => {
    onGone(mediaId, sha256);
    const gone = (async () => {
      await rm(pathOf(key), { force: true });
      // Fails while the media object has other files here.
      await rmdir(join(folder, mediaId)).catch(() => undefined);
    })()
      .catch((error: unknown) => logger.warn({ err: error, key }, 'a file of the cache could not be removed'))
      .finally(() => {
        if (removing.get(key) === gone) removing.delete(key);
      });
    removing.set(key, gone);
  };

  const index = createFolderIndex({
    maxBytes,
    isInMemory,
    onEvict: unlink,
    onSpare(key) {
      const now = new Date();
      // Only the order after a restart depends on it.
      utimes(pathOf(key), now, now).catch(() => undefined);
    },
  });

  const remove = (key: string, entry: FolderEntry): void => {
    if (index.remove(key, entry)) unlink(key, entry);
  };

  const scan = async (): Promise<void> => {
    const found: [key: string, entry: FolderEntry][] = [];
    for await (const owner of await opendir(folder)) {
      if (!owner.isDirectory() || !OWNER.test(owner.name)) continue;
      for await (const file of await opendir(join(folder, owner.name))) {
        if (stopped) return;
        if (!file.isFile() || !CONTENT.test(file.name)) continue;
        const key = keyOf(owner.name, file.name);
        // A file that vanishes meanwhile was evicted or purged.
        const state = await stat(pathOf(key)).catch(() => null);
        if (state === null) continue;
        const onDisk = Math.min(state.size, state.blocks * 512);
        found.push([key, { mediaId: owner.name, sha256: file.name, bytes: onDisk, touchedMs: state.mtimeMs }]);
      }
    }
    found.sort(([, a], [, b]) => a.touchedMs - b.touchedMs);
    isScanned = true;
    index.addOlder(found.filter(([key]) => !removing.has(key)));
  };

  const ready = mkdir(folder, { recursive: true, mode: 0o700 });
  const scanned = ready.then(scan).catch((error: unknown) => {
    isScanned = true;
    logger.warn({ err: error }, 'the cache folder could not be scanned completely, the rest is not counted');
  });

  /** Logs once that nothing can be stored, and once that it can again. */
  const failed = (error: unknown) => {
    if (!failing) {
      logger.warn(
        { err: error },
        'the cache folder cannot be written: fetched objects are delivered without being stored',
      );
    }
    failing = true;
    failedAtMs = Date.now();
  };
  const wrote = () => {
    if (!failing || Date.now() - failedAtMs < RECOVERED_MS) return;
    failing = false;
    logger.info('the cache folder can be written again');
  };

  /** Whether the volume has room for this many bytes more, counting what is evicted for them. */
  const hasRoomFor = async (more: number): Promise<boolean> => {
    const { bavail, bsize } = await statfs(folder);
    return more <= bavail * bsize + Math.max(0, index.bytes + more - maxBytes);
  };

  /** The media object's folder is removed with its last file, even if another file is about to be made in it. */
  const openInFolderOf = async (mediaId: string, path: string): Promise<OpenFile> => {
    for (let tries = 1; ; tries += 1) {
      try {
        // It checks the folder that it made or found, and fails if that is gone.
        await mkdir(join(folder, mediaId), { recursive: true, mode: 0o700 });
        return await openFile(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
      } catch (error) {
        if (systemCode(error) !== 'ENOENT' || tries === MAX_OPEN_TRIES) throw error;
        await Promise.all([...removing].flatMap(([key, gone]) => (key.startsWith(`${mediaId}/`) ? [gone] : [])));
      }
    }
  };

  const openEntry = async (mediaId: string, object: ExpectedObject): Promise<CacheFile> => {
    const key = keyOf(mediaId, object.sha256);
    await ready;
    await removing.get(key);
    const file = await openInFolderOf(mediaId, pathOf(key));
    const state = await file.state();
    const entry = index.get(key) ?? {
      mediaId,
      sha256: object.sha256,
      bytes: Math.min(state.size, state.blocks * 512),
      touchedMs: state.mtimeMs,
    };
    index.use(key, entry);
    return {
      file,
      existed: state.size > 0,
      use() {
        if (!index.isPlaced(key, entry)) return false;
        index.use(key, entry);
        if (Date.now() - entry.touchedMs < TOUCH_MS) return false;
        entry.touchedMs = Date.now();
        return true;
      },
      reserve: (more) => index.grow(key, entry, more),
      wrote,
      hasRoomFor: async (more) => !failing && hasRoomFor(more),
      giveUp(error) {
        failed(error);
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
    if (!isScanned && !stopped) void scanned.then(() => removeWhere(applies));
  };

  return {
    async open(mediaId, object) {
      if (stopped || object.bytes > maxBytes * LARGEST_SHARE || !OWNER.test(mediaId)) return null;
      try {
        return await openEntry(mediaId, object);
      } catch (error) {
        failed(error);
        return null;
      }
    },

    holds(mediaId, object) {
      const entry = index.get(keyOf(mediaId, object.sha256));
      return entry !== undefined && entry.bytes >= object.bytes;
    },

    drop: (mediaId, sha256) => removeWhere((entry) => entry.mediaId === mediaId && entry.sha256 === sha256),
    dropMedia: (mediaId) => removeWhere((entry) => entry.mediaId === mediaId),
    clear: () => removeWhere(() => true),

    scanned,

    async stop() {
      stopped = true;
      await scanned;
      await Promise.all(removing.values());
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
      return failing;
    },
  };
}
