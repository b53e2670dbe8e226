import { constants } from 'node:fs';
import { mkdir, opendir, rm, rmdir, stat, statfs, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { ExpectedObject } from '../verified-body.ts';
import type { KeptFile } from './cached-pieces.ts';
import { openFile } from './open-file.ts';

/** How often a file in use is told so: the order of use has to survive a restart, but only roughly. */
const TOUCH_MS = 3 * 60_000;
/** A volume that is full takes a small file now and then; it is called well again after so long without a failure. */
const WELL_AGAIN_MS = 60_000;
const OWNER = /^[a-z0-9_-]{1,64}$/;
const CONTENT = /^[0-9a-f]{64}$/;
/** An object larger than this part of the folder is passed through: it would push out everything else. */
const LARGEST_SHARE = 1 / 2;

/**
 * The cache folder of a point of presence: a file for each object at `{medium}/{sha256}`, the least recently used of which go
 * when there is no more room. Nothing in it has to be believed: whoever reads a piece compares it first.
 */
export interface DiskFolder {
  /** The file of an object, made where there is none; null where it cannot be kept. */
  open(mediaId: string, object: ExpectedObject): Promise<KeptFile | null>;
  /** Whether all of an object seems to be there; touches nothing. */
  holds(mediaId: string, object: ExpectedObject): boolean;
  drop(mediaId: string, sha256: string): void;
  dropMedium(mediaId: string): void;
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

interface Entry {
  mediaId: string;
  sha256: string;
  /** On the disk: of a sparse file, what was written. */
  bytes: number;
  touchedMs: number;
}

/**
 * {@link DiskFolder} at a path. Looks in the background for what is there already; files of other names are left alone.
 * @param options.maxBytes of all files together
 */
export function createDiskFolder(options: {
  dir: string;
  maxBytes: number;
  /** What is asked for so often that it is answered from memory must not go as if nobody wanted it. */
  isInMemory: (sha256: string) => boolean;
  /** Told of each file that is let go of: while it is open, its room is not free. */
  onGone: (mediaId: string, sha256: string) => void;
  logger: Pick<Logger, 'warn' | 'info'>;
}): DiskFolder {
  const { dir: folder, maxBytes, isInMemory, onGone, logger } = options;
  /** In order of use, the latest last. */
  const entries = new Map<string, Entry>();
  const removing = new Map<string, Promise<void>>();
  let bytes = 0;
  let evictions = 0;
  let stopped = false;
  let known = false;
  let failing = false;
  let failedAtMs = 0;

  const keyOf = (mediaId: string, sha256: string) => `${mediaId}/${sha256}`;
  const pathOf = (key: string) => join(folder, key);

  const remove = (key: string, entry: Entry): void => {
    if (entries.get(key) !== entry) return;
    entries.delete(key);
    bytes -= entry.bytes;
    onGone(entry.mediaId, entry.sha256);
    const gone = (async () => {
      await rm(pathOf(key), { force: true });
      // Refused while the medium has other files here.
      await rmdir(join(folder, entry.mediaId)).catch(() => undefined);
    })()
      .catch((error: unknown) => logger.warn({ err: error, key }, 'A file of the cache could not be removed.'))
      .finally(() => {
        if (removing.get(key) === gone) removing.delete(key);
      });
    removing.set(key, gone);
  };

  const toNewest = (key: string, entry: Entry): void => {
    entries.delete(key);
    entries.set(key, entry);
  };

  /** Lets go of what was used longest ago until so many bytes more fit. @param except is not let go of */
  const makeRoom = (more: number, except: Entry | null): boolean => {
    if (bytes + more <= maxBytes) return true;
    for (const spareHot of [true, false]) {
      // What is spared goes to the end, where this walk would come to it again. No copy: there may be a million.
      let left = entries.size;
      for (const [key, entry] of entries) {
        if (bytes + more <= maxBytes) return true;
        if (left === 0) break;
        left -= 1;
        if (entry === except) continue;
        if (spareHot && isInMemory(entry.sha256)) {
          toNewest(key, entry);
          const now = new Date();
          // Only the order after a restart hangs on it.
          utimes(pathOf(key), now, now).catch(() => undefined);
          continue;
        }
        remove(key, entry);
        evictions += 1;
      }
    }
    return bytes + more <= maxBytes;
  };

  const scan = async (): Promise<void> => {
    const found: (Entry & { key: string })[] = [];
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
        found.push({ key, mediaId: owner.name, sha256: file.name, bytes: onDisk, touchedMs: state.mtimeMs });
      }
    }
    found.sort((a, b) => a.touchedMs - b.touchedMs);
    // Behind what has been used meanwhile.
    const used = [...entries];
    entries.clear();
    for (const { key, ...entry } of found) {
      if (used.some(([one]) => one === key) || removing.has(key)) continue;
      entries.set(key, entry);
      bytes += entry.bytes;
    }
    for (const [key, entry] of used) entries.set(key, entry);
    known = true;
    makeRoom(0, null);
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
    return more <= bavail * bsize + Math.max(0, bytes + more - maxBytes);
  };

  const openEntry = async (mediaId: string, object: ExpectedObject): Promise<KeptFile> => {
    const key = keyOf(mediaId, object.sha256);
    await ready;
    await removing.get(key);
    await mkdir(join(folder, mediaId), { recursive: true, mode: 0o700 });
    const file = await openFile(pathOf(key), constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    const state = await file.state();
    const entry = entries.get(key) ?? {
      mediaId,
      sha256: object.sha256,
      bytes: Math.min(state.size, state.blocks * 512),
      touchedMs: state.mtimeMs,
    };
    if (!entries.has(key)) bytes += entry.bytes;
    toNewest(key, entry);
    return {
      file,
      existed: state.size > 0,
      use() {
        if (entries.get(key) !== entry) return false;
        toNewest(key, entry);
        if (Date.now() - entry.touchedMs < TOUCH_MS) return false;
        entry.touchedMs = Date.now();
        return true;
      },
      reserve(more) {
        if (entries.get(key) !== entry || !makeRoom(more, entry)) return false;
        toNewest(key, entry);
        entry.bytes += more;
        bytes += more;
        return true;
      },
      wrote,
      hasRoomFor: async (more) => !failing && hasRoomFor(more),
      giveUp(error) {
        failed(error);
        remove(key, entry);
      },
      get placed() {
        return entries.get(key) === entry;
      },
    };
  };

  /** Removes files; what the scan has not come to yet, when it has. */
  const removeWhere = (applies: (entry: Entry) => boolean): void => {
    for (const [key, entry] of entries) if (applies(entry)) remove(key, entry);
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
      const entry = entries.get(keyOf(mediaId, object.sha256));
      return entry !== undefined && entry.bytes >= object.bytes;
    },

    drop: (mediaId, sha256) => removeWhere((entry) => entry.mediaId === mediaId && entry.sha256 === sha256),
    dropMedium: (mediaId) => removeWhere((entry) => entry.mediaId === mediaId),
    clear: () => removeWhere(() => true),

    scanned,

    async stop() {
      stopped = true;
      await scanned;
      await Promise.all(removing.values());
    },

    get bytes() {
      return bytes;
    },
    get entries() {
      return entries.size;
    },
    get evictions() {
      return evictions;
    },
    maxBytes,
    get failing() {
      return failing;
    },
  };
}
