import { randomUUID } from 'node:crypto';
import { constants, copyFile, link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { systemCode } from '../base/storage-error.ts';
import { hashFile } from '../processing/hash-file.ts';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';

/** Objects that are copied at once: each spends most of its time waiting for a remote store. */
const AT_ONCE = 16;

/** Counts of objects so far. */
export interface ObjectFigures {
  /** Completed passes over the whole store. */
  passes: number;
  /** Objects that the destination is known to have with the same bytes. */
  verified: number;
  verifiedBytes: number;
  copied: number;
  copiedBytes: number;
}

/** The bytes of a key by the database. */
type RecordedSha256 = (key: string) => string | null;

/** Copies objects from one store to another, in as many passes as needed. A put that returns is done: remote stores read it back. */
export interface ObjectCopy {
  /** Passes over the source once. @returns how many objects were new */
  pass(recordedSha256: RecordedSha256, signal: AbortSignal): Promise<number>;
  /** Copies those of these objects that were not copied yet. */
  bring(
    objects: readonly { key: string; bytes: number }[],
    recordedSha256: RecordedSha256,
    signal: AbortSignal,
  ): Promise<void>;
  /** Lists the destination, and forgets objects that another program has removed there. */
  confirm(signal: AbortSignal): Promise<void>;
  /** Size of an object that the destination is known to have; null if that is not known. */
  verifiedBytes(key: string): number | null;
  readonly figures: ObjectFigures;
  /** Keys of objects that could not be copied correctly in the last pass, with the reason. */
  readonly damaged: ReadonlyMap<string, string>;
}

/** @param parts.scratchDir folder for copies on their way; made when first needed */
export function createObjectCopy(parts: { from: ObjectStore; to: ObjectStore; scratchDir: string }): ObjectCopy {
  const { from, to, scratchDir } = parts;
  const verified = new Map<string, number>();
  const figures = { passes: 0, verified: 0, verifiedBytes: 0, copied: 0, copiedBytes: 0 };
  let damaged = new Map<string, string>();
  /** Objects left by an earlier move, with sizes: one list costs less than a request for each. */
  const left = new Map<string, number>();
  let isListed = false;

  /** Whether the destination has exactly these bytes, perhaps from an earlier move. */
  const has = async (key: string, sha256: string): Promise<boolean> => {
    const found = await to.read(key);
    return found !== null && (await hashStream(found.stream)) === sha256;
  };

  /** @returns false if the object is gone by now */
  const takeOut = async (key: string, path: string): Promise<boolean> => {
    const local = await from.localFile(key);
    if (local === null) return false;
    try {
      // Objects never change: a hard link is as good as a copy, and costs nothing.
      await link(local.path, path).catch((error: unknown) => {
        if (systemCode(error) === 'ENOENT') throw error;
        return copyFile(local.path, path, constants.COPYFILE_EXCL);
      });
      return true;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return false;
      throw error;
    } finally {
      await local.release();
    }
  };

  /** @returns the size of the object at the destination; null if it is gone from the source */
  const bringOne = async (key: string, recorded: string | null, listedBytes: number, signal: AbortSignal) => {
    const before = left.get(key);
    if (recorded !== null && before === listedBytes && (await has(key, recorded))) return before;
    const path = join(scratchDir, `migration-${randomUUID()}`);
    try {
      if (!(await takeOut(key, path))) return null;
      const { sha256, bytes } = await hashFile(path, signal);
      if (recorded !== null && sha256 !== recorded) {
        throw new DamagedObjectError('Its bytes are not those that were recorded. `mds doctor` says what can be done.');
      }
      // A store assumes that objects of one key and size are equal.
      if (before !== undefined && !(await has(key, sha256))) await to.delete(key);
      await to.put(key, { path, bytes, sha256 });
      figures.copied += 1;
      figures.copiedBytes += bytes;
      return bytes;
    } finally {
      await rm(path, { force: true });
    }
  };

  const listDestination = async (signal: AbortSignal) => {
    for await (const { key, bytes } of to.list('')) {
      signal.throwIfAborted();
      left.set(key, bytes);
    }
    isListed = true;
  };

  /** Copies several at once. @returns how many were new */
  const bringAll = async (
    objects: AsyncIterator<{ key: string; bytes: number }>,
    recordedSha256: RecordedSha256,
    signal: AbortSignal,
  ) => {
    const found = new Map<string, string>();
    let news = 0;
    const work = async () => {
      for (;;) {
        signal.throwIfAborted();
        const next = await objects.next();
        if (next.done) return;
        const { key, bytes } = next.value;
        if (verified.has(key)) continue;
        try {
          const there = await bringOne(key, recordedSha256(key), bytes, signal);
          if (there === null) continue;
          left.delete(key);
          verified.set(key, there);
          figures.verified += 1;
          figures.verifiedBytes += there;
          news += 1;
        } catch (error) {
          if (!(error instanceof DamagedObjectError)) throw error;
          found.set(key, error.message);
        }
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
    // An early end leaves the folder open.
    await objects.return?.();
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    damaged = found;
    return news;
  };

  return {
    async pass(recordedSha256, signal) {
      await mkdir(scratchDir, { recursive: true });
      if (!isListed) await listDestination(signal);
      const news = await bringAll(from.list('')[Symbol.asyncIterator](), recordedSha256, signal);
      figures.passes += 1;
      return news;
    },

    async bring(objects, recordedSha256, signal) {
      await bringAll(Readable.from(objects)[Symbol.asyncIterator](), recordedSha256, signal);
    },

    async confirm(signal) {
      let confirmed = 0;
      for await (const { key, bytes } of to.list('')) {
        signal.throwIfAborted();
        if (verified.get(key) === bytes) confirmed += 1;
      }
      if (confirmed === verified.size) return;
      // Only after errors are the keys held twice.
      const listed = new Map<string, number>();
      for await (const { key, bytes } of to.list('')) listed.set(key, bytes);
      for (const [key, bytes] of verified) {
        if (listed.get(key) === bytes) continue;
        verified.delete(key);
        figures.verified -= 1;
        figures.verifiedBytes -= bytes;
      }
    },

    verifiedBytes: (key) => verified.get(key) ?? null,

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
