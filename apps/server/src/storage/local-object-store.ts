import { randomUUID } from 'node:crypto';
import {
  copyFile,
  type FileHandle,
  mkdir,
  open,
  opendir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { assertObjectKey } from '../base/object-key.ts';
import { storageError, systemCode } from '../base/storage-error.ts';
import type { ObjectStore } from './object-store.ts';

/** Folder of files that are not objects yet: on the store's own file system, so that a rename moves them. */
const INCOMING = '.incoming';
/** Pieces of this size read large objects faster than the default 64 KiB. */
const READ_PIECE_BYTES = 1024 * 1024;
/** A folder can be pruned between being made and being used; no put loses that race this often. */
const PUT_TRIES = 5;

/** Path of an object in a store in the folder `root`. @throws RangeError if it is not a valid key */
export function objectPath(root: string, key: string): string {
  assertObjectKey(key);
  return join(root, ...key.split('/'));
}

/**
 * {@link ObjectStore} in a folder of the local file system: one file per object.
 * @param root absolute path; made when first needed
 */
export function createLocalObjectStore({ root }: { root: string }): ObjectStore {
  const pathOf = (key: string) => objectPath(root, key);

  /** Renames a durable file into place and makes the rename durable, too. */
  const place = async (from: string, to: string) => {
    for (let tries = 0; ; tries++) {
      try {
        // Most folders exist: the first try is without this.
        if (tries > 0) await makeFolder(dirname(to));
        await rename(from, to);
        await syncFolder(dirname(to));
        return;
      } catch (error) {
        // The folder is new, or a delete pruned it because it was empty.
        if (systemCode(error) !== 'ENOENT' || tries === PUT_TRIES || (await sizeOf(from)) === null) throw error;
      }
    }
  };

  const copyIn = async (from: string, to: string) => {
    const incoming = join(root, INCOMING, randomUUID());
    try {
      await makeFolder(dirname(incoming));
      await copyFile(from, incoming);
      await syncFile(incoming);
      await place(incoming, to);
    } finally {
      await rm(incoming, { force: true });
    }
    await unlink(from);
  };

  /** Removes a folder that became empty, and those above it, up to the root. */
  const prune = async (folder: string) => {
    for (let empty = folder; empty.startsWith(root + sep); empty = dirname(empty)) {
      try {
        // rmdir refuses a folder that is not empty: another put may need it.
        await rmdir(empty);
      } catch {
        return;
      }
    }
  };

  return {
    async put(key, file) {
      const path = pathOf(key);
      try {
        if ((await sizeOf(path)) === file.bytes) {
          await unlink(file.path);
          return;
        }
        await syncFile(file.path);
        try {
          await place(file.path, path);
        } catch (error) {
          if (systemCode(error) !== 'EXDEV') throw error;
          await copyIn(file.path, path);
        }
      } catch (error) {
        throw storageError(error);
      }
    },

    async stat(key) {
      const bytes = await sizeOf(pathOf(key));
      return bytes === null ? null : { bytes };
    },

    async read(key, range) {
      const handle = await openObject(pathOf(key));
      if (handle === null) return null;
      try {
        const { size } = await handle.stat();
        const start = Math.min(range?.start ?? 0, size);
        const bytes = Math.max(0, Math.min(range?.end ?? size - 1, size - 1) - start + 1);
        // A stream cannot express an `end` before its `start`: an empty stretch starts at the end of the file.
        const stream =
          bytes === 0
            ? handle.createReadStream({ start: size })
            : handle.createReadStream({
                start,
                end: start + bytes - 1,
                highWaterMark: Math.min(bytes, READ_PIECE_BYTES),
              });
        return { stream, bytes };
      } catch (error) {
        await handle.close();
        throw error;
      }
    },

    async readAll(key) {
      const handle = await openObject(pathOf(key));
      if (handle === null) return null;
      try {
        return await handle.readFile();
      } finally {
        await handle.close();
      }
    },

    async localFile(key) {
      const path = pathOf(key);
      // Nothing to release: the object is the file itself, and objects never change.
      return (await sizeOf(path)) === null ? null : { path, release: async () => undefined };
    },

    async delete(key) {
      const path = pathOf(key);
      try {
        await unlink(path);
      } catch (error) {
        if (isMissing(error)) return;
        throw storageError(error);
      }
      await prune(dirname(path));
    },

    async *list(prefix) {
      const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
      for await (const key of keysUnder(root, folder)) {
        if (!key.startsWith(prefix)) continue;
        const bytes = await sizeOf(pathOf(key));
        if (bytes !== null) yield { key, bytes };
      }
    },

    async probe() {
      const path = join(root, INCOMING, `probe-${randomUUID()}`);
      try {
        await makeFolder(dirname(path));
        const handle = await open(path, 'wx', 0o600);
        try {
          await handle.writeFile(path);
          await handle.sync();
        } finally {
          await handle.close();
        }
        if ((await readFile(path, 'utf8')) !== path)
          throw new Error('The storage gave back other bytes than it was given.');
      } catch (error) {
        throw storageError(error);
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}

async function openObject(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Size of a file in bytes; null if it does not exist or is no file. */
async function sizeOf(path: string): Promise<number | null> {
  try {
    const found = await stat(path);
    return found.isFile() ? found.size : null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** No such entry, or one of the folders above it is a file. */
function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/**
 * Makes a folder and those above it, each entry durable. mkdir's own `recursive` would report a missing folder if the volume is in fact
 * read-only.
 */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(folder) === folder) throw error;
    await makeFolder(dirname(folder));
    return makeFolder(folder);
  }
  await syncFolder(dirname(folder));
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a rename in a folder durable. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Every key under a folder, depth first; entries that vanish meanwhile are left out. */
async function* keysUnder(root: string, folder: string): AsyncGenerator<string> {
  const entries = await opendir(join(root, folder)).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (entries === null) return;
  for await (const entry of entries) {
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) yield* keysUnder(root, `${folder}${entry.name}/`);
    else if (entry.isFile()) yield folder + entry.name;
  }
}
