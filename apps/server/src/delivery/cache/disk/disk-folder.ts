import { constants } from 'node:fs';
import { mkdir, opendir, rm, rmdir, stat, statfs, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { systemCode } from '../../../base/storage-error.ts';
import type { ExpectedObject } from '../../verified-body.ts';
import { createFolderIndex, type FolderEntry } from './folder-index.ts';
import { type OpenFile, openFile } from './open-file.ts';

/** How often a file in use is told so: the order of use has to survive a restart, but only roughly. */
const TOUCH_MS = 3 * 60_000;
/** A volume that is full takes a small file now and then; it is called well again after so long without a failure. */
const WELL_AGAIN_MS = 60_000;
const OWNER = /^[a-z0-9_-]{1,64}$/;
const CONTENT = /^[0-9a-f]{64}$/;
/** An object larger than this part of the folder is passed through: it would push out everything else. */
export const LARGEST_SHARE = 1 / 2;
/** Times that a media object's folder may vanish while a file is made in it. */
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
 * The cache folder of a point of presence: a file for each object at `{media object}/{sha256}`, the least recently used of which go
 * when there is no more room. Nothing in it has to be believed: whoever reads a piece compares it first.
 */
export interface DiskFolder {
  /** The file of an object, made where there is none; null where it cannot be kept. */
  open(mediaId: string, object: ExpectedObject): Promise<CacheFile | null>;
  /** Whether all of an object seems to be there; touches nothing. */
  holds(mediaId: string, object: ExpectedObject): boolean;
  drop(mediaId: string, sha256: string): void;
  dropMedia(mediaId: string): void;
  clear(): void;
  /** Resolves when what was in the folder at the start is known. */
  readonly scanned: Promise<void>;
  /** Ends the scan, and waits for what is being removed. */
  stop(): Promise<void>;
  readonly bytes: number;
  readonly entries: number;
  readonly evictions: number;
  readonly maxBytes: number;
  /** Whether what was written last found no room, or could not be written for another reason. */
  readonly failing: boolean;
}

/**
 * {@link DiskFolder} at a path. Looks in the background for what is there already; files of other names are left alone.
 * @param options.maxBytes of all files together
 */
export function createDiskFolder(options: {
  dir: string;
  maxBytes: number;
  isInMemory: (sha256: string) => boolean;
  /** Told of each file that is let go of: while it is open, its room is not free. */
  onGone: (mediaId: string, sha256: string) => void;
  logger: Pick<Logger, 'warn' | 'info'>;
}): DiskFolder {
  const { dir: folder, maxBytes, isInMemory, onGone, logger } = options;
  const removing = new Map<string, Promise<void>>();
  let stopped = false;
  let known = false;
  let failing = false;
  let failedAtMs = 0;

  const keyOf = (mediaId: string, sha256: string) => `${mediaId}/${sha256}`;
  const pathOf = (key: string) => join(folder, key);

  /** Removes the file of an entry that has lost its place. */
  const unlink = (key: string, { mediaId, sha256 }: FolderEntry): void => {
    onGone(mediaId, sha256);
    const gone = (async () => {
      await rm(pathOf(key), { force: true });
      // Refused while the media object has other files here.
      await rmdir(join(folder, mediaId)).catch(() => undefined);
    })()
      .catch((error: unknown) => logger.warn({ err: error, key }, 'A file of the cache could not be removed.'))
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
      // Only the order after a restart hangs on it.
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
        // One that vanishes meanwhile was evicted or purged.
        const state = await stat(pathOf(key)).catch(() => null);
        if (state === null) continue;
        const onDisk = Math.min(state.size, state.blocks * 512);
        found.push([key, { mediaId: owner.name, sha256: file.name, bytes: onDisk, touchedMs: state.mtimeMs }]);
      }
    }
    found.sort(([, a], [, b]) => a.touchedMs - b.touchedMs);
    known = true;
    index.addOlder(found.filter(([key]) => !removing.has(key)));
  };

  const ready = mkdir(folder, { recursive: true, mode: 0o700 });
  const scanned = ready.then(scan).catch((error: unknown) => {
    known = true;
    logger.warn({ err: error }, 'The cache folder could not be read to its end; what was not found is not counted.');
  });

  /** Says once that nothing can be kept, and once that it can again. */
  const failed = (error: unknown) => {
    if (!failing) {
      logger.warn({ err: error }, 'The cache folder takes no more: what is fetched is delivered without being kept.');
    }
    failing = true;
    failedAtMs = Date.now();
  };
  const wrote = () => {
    if (!failing || Date.now() - failedAtMs < WELL_AGAIN_MS) return;
    failing = false;
    logger.info('The cache folder takes what is fetched again.');
  };

  /** Whether so many bytes more find room on the volume, with what is let go of for them. */
  const hasRoomFor = async (more: number): Promise<boolean> => {
    const { bavail, bsize } = await statfs(folder);
    return more <= bavail * bsize + Math.max(0, index.bytes + more - maxBytes);
  };

  /** The media object's folder goes with its last file, also while another one is about to be made in it. */
  const openInFolderOf = async (mediaId: string, path: string): Promise<OpenFile> => {
    for (let tries = 1; ; tries += 1) {
      try {
        // It looks at what it made, or found, and fails where that is gone.
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

  /** Removes files; what the scan has not come to yet, when it has. */
  const removeWhere = (applies: (entry: FolderEntry) => boolean): void => {
    for (const [key, entry] of index.entries()) if (applies(entry)) remove(key, entry);
    if (!known && !stopped) void scanned.then(() => removeWhere(applies));
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
