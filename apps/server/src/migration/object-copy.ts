import { randomUUID } from 'node:crypto';
import { constants, copyFile, link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hashFile } from '../processing/hash-file.ts';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';

/** Objects that are on their way at once: each waits most of its time for a store that is elsewhere. */
const AT_ONCE = 16;

/** What became of the objects so far. */
export interface ObjectFigures {
  /** Times that the whole store was gone through. */
  passes: number;
  /** Objects of which it is known that the destination has the same bytes. */
  verified: number;
  copied: number;
  copiedBytes: number;
}

/** Brings objects from one store to another, as often as it takes. What a put returns from is there: stores elsewhere read it back. */
export interface ObjectCopy {
  /**
   * Goes through the source once. @param recordedSha256 what the database says of a key
   * @returns how many objects were new
   */
  pass(recordedSha256: (key: string) => string | null, signal: AbortSignal): Promise<number>;
  readonly figures: ObjectFigures;
  /** Keys of objects that could not be brought over as they should be, with the reason; those of the last pass. */
  readonly damaged: ReadonlyMap<string, string>;
}

/** @param parts.scratchDir folder for copies on their way; made when first needed */
export function createObjectCopy(parts: { from: ObjectStore; to: ObjectStore; scratchDir: string }): ObjectCopy {
  const { from, to, scratchDir } = parts;
  const verified = new Set<string>();
  const figures = { passes: 0, verified: 0, copied: 0, copiedBytes: 0 };
  let damaged = new Map<string, string>();
  /** What an earlier try has left, with its size: listed once, which costs less than a question for each. */
  const there = new Map<string, number>();
  let isListed = false;

  /** Whether the destination has these very bytes, of an earlier try perhaps. */
  const has = async (key: string, sha256: string): Promise<boolean> => {
    const found = await to.read(key);
    return found !== null && (await hashStream(found.stream)) === sha256;
  };

  /** @returns false where the object is gone by now */
  const takeOut = async (key: string, path: string): Promise<boolean> => {
    const local = await from.localFile(key);
    if (local === null) return false;
    try {
      // Objects never change, so another name for one is as good as a copy, and costs nothing.
      await link(local.path, path).catch(() => copyFile(local.path, path, constants.COPYFILE_EXCL));
      return true;
    } finally {
      await local.release();
    }
  };

  const bring = async (key: string, recorded: string | null, listedBytes: number, signal: AbortSignal) => {
    const before = there.get(key);
    if (recorded !== null && before === listedBytes && (await has(key, recorded))) return;
    const path = join(scratchDir, `migration-${randomUUID()}`);
    try {
      if (!(await takeOut(key, path))) return;
      const { sha256, bytes } = await hashFile(path, signal);
      if (recorded !== null && sha256 !== recorded) {
        throw new DamagedObjectError('Its bytes are not those that were recorded. `mds doctor` says what can be done.');
      }
      // A store takes it for granted that objects of one key and size are the same.
      if (before !== undefined && !(await has(key, sha256))) await to.delete(key);
      await to.put(key, { path, bytes, sha256 });
      figures.copied += 1;
      figures.copiedBytes += bytes;
    } finally {
      await rm(path, { force: true });
    }
  };

  return {
    async pass(recordedSha256, signal) {
      await mkdir(scratchDir, { recursive: true });
      if (!isListed) {
        for await (const { key, bytes } of to.list('')) {
          signal.throwIfAborted();
          there.set(key, bytes);
        }
        isListed = true;
      }
      const found = new Map<string, string>();
      let news = 0;
      const keys = from.list('')[Symbol.asyncIterator]();
      const work = async () => {
        for (;;) {
          signal.throwIfAborted();
          const next = await keys.next();
          if (next.done) return;
          const { key, bytes } = next.value;
          if (verified.has(key)) continue;
          try {
            await bring(key, recordedSha256(key), bytes, signal);
            there.delete(key);
            verified.add(key);
            figures.verified += 1;
            news += 1;
          } catch (error) {
            if (!(error instanceof DamagedObjectError)) throw error;
            found.set(key, error.message);
          }
        }
      };
      const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
      // Where it broke off, there is a folder open.
      await keys.return?.();
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
      damaged = found;
      figures.passes += 1;
      return news;
    },

    get figures() {
      return figures;
    },

    get damaged() {
      return damaged;
    },
  };
}

class DamagedObjectError extends Error {
  override name = 'DamagedObjectError';
}
