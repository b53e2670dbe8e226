import { constants } from 'node:fs';
import { mkdir, opendir, rm, rmdir, stat, statfs, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import { systemCode } from '../../../base/storage-error.ts';
import type { FolderEntry } from './folder-index.ts';
import { type FileState, type OpenFile, openFile } from './open-file.ts';

/** Media objects that can have files here. */
export const OWNER = /^[a-z0-9_-]{1,64}$/;
const CONTENT = /^[0-9a-f]{64}$/;
/** How often a media object's folder may vanish while a file is made in it. */
const MAX_OPEN_TRIES = 5;

/** The path of an object's file, relative to the cache folder. */
export function keyOf(mediaId: string, sha256: string): string {
  return `${mediaId}/${sha256}`;
}

/** The entry of a file that an earlier process may have left. */
export function entryOf(mediaId: string, sha256: string, { size, blocks, mtimeMs }: FileState): FolderEntry {
  return { mediaId, sha256, bytes: Math.min(size, blocks * 512), touchedMs: mtimeMs };
}

/** The files of the cache folder by their keys. Makes the folder, and the folder of each media object. Counts no bytes. */
export class FolderFiles {
  readonly #dir: string;
  readonly #logger: Pick<Logger, 'warn'>;
  readonly #ready: Promise<unknown>;
  readonly #removing = new Map<string, Promise<void>>();

  constructor(dir: string, logger: Pick<Logger, 'warn'>) {
    this.#dir = dir;
    this.#logger = logger;
    this.#ready = mkdir(dir, { recursive: true, mode: 0o700 });
  }

  /** Finds all files, the least recently used first; none once `signal` is aborted. Files with other names are left alone. */
  async scan(signal: AbortSignal): Promise<[key: string, entry: FolderEntry][]> {
    await this.#ready;
    const found: [key: string, entry: FolderEntry][] = [];
    for await (const owner of await opendir(this.#dir)) {
      if (!owner.isDirectory() || !OWNER.test(owner.name)) continue;
      for await (const file of await opendir(join(this.#dir, owner.name))) {
        if (signal.aborted) return [];
        if (!file.isFile() || !CONTENT.test(file.name)) continue;
        const key = keyOf(owner.name, file.name);
        // A file that vanishes meanwhile was evicted or purged.
        const state = await stat(join(this.#dir, key)).catch(() => null);
        if (state !== null) found.push([key, entryOf(owner.name, file.name, state)]);
      }
    }
    return found.sort(([, a], [, b]) => a.touchedMs - b.touchedMs);
  }

  /** Opens a file, made if there is none. A removal of the same file ends first. */
  async open(key: string): Promise<OpenFile> {
    await this.#ready;
    await this.#removing.get(key);
    const path = join(this.#dir, key);
    // The media object's folder is removed with its last file, even if another file is about to be made in it.
    for (let tries = 1; ; tries += 1) {
      try {
        // It checks the folder that it made or found, and fails if that is gone.
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        return await openFile(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
      } catch (error) {
        if (systemCode(error) !== 'ENOENT' || tries === MAX_OPEN_TRIES) throw error;
        const isBeside = (other: string) => dirname(other) === dirname(key);
        await Promise.all([...this.#removing].flatMap(([other, gone]) => (isBeside(other) ? [gone] : [])));
      }
    }
  }

  /** Sets the time of a file that counts as used but is not open. */
  touch(key: string): void {
    const now = new Date();
    // Only the order after a restart depends on it.
    utimes(join(this.#dir, key), now, now).catch(() => undefined);
  }

  /** Removes a file in the background. */
  remove(key: string): void {
    const path = join(this.#dir, key);
    const gone = rm(path, { force: true })
      // Fails while the media object has other files here.
      .then(() => rmdir(dirname(path)).catch(() => undefined))
      .catch((error: unknown) => this.#logger.warn({ err: error, key }, 'a file of the cache could not be removed'))
      .finally(() => {
        if (this.#removing.get(key) === gone) this.#removing.delete(key);
      });
    this.#removing.set(key, gone);
  }

  isRemoving(key: string): boolean {
    return this.#removing.has(key);
  }

  /** Resolves when the files that are being removed are gone. */
  async removed(): Promise<void> {
    await Promise.all(this.#removing.values());
  }

  /** Room on the volume. */
  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#dir);
    return bavail * bsize;
  }
}
