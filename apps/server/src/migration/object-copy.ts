import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';

/** Objects that are on their way at once. */
const AT_ONCE = 4;

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

  /** Whether the destination has these very bytes, of an earlier try perhaps. */
  const has = async (key: string, sha256: string): Promise<boolean> => {
    const found = await to.read(key);
    return found !== null && (await hashStream(found.stream)) === sha256;
  };

  /** @returns the SHA-256 of what was written; null where the object is gone by now */
  const copyOut = async (key: string, path: string, signal: AbortSignal) => {
    const found = await from.read(key);
    if (found === null) return null;
    const hash = createHash('sha256');
    let bytes = 0;
    const hashing = async function* (source: AsyncIterable<Buffer>) {
      for await (const piece of source) {
        hash.update(piece);
        bytes += piece.length;
        yield piece;
      }
    };
    await pipeline(found.stream, hashing, createWriteStream(path, { mode: 0o600 }), { signal });
    return { bytes, sha256: hash.digest('hex') };
  };

  const bring = async (key: string, recorded: string | null, listedBytes: number, signal: AbortSignal) => {
    const before = await to.stat(key);
    if (recorded !== null && before?.bytes === listedBytes && (await has(key, recorded))) return;
    const path = join(scratchDir, `migration-${randomUUID()}`);
    try {
      const read = await copyOut(key, path, signal);
      if (read === null) return;
      if (recorded !== null && read.sha256 !== recorded) {
        throw new DamagedObjectError('Its bytes are not those that were recorded. `mds doctor` says what can be done.');
      }
      // A store takes it for granted that objects of one key and size are the same.
      if (before !== null && !(await has(key, read.sha256))) await to.delete(key);
      await to.put(key, { path, ...read });
      figures.copied += 1;
      figures.copiedBytes += read.bytes;
    } finally {
      await rm(path, { force: true });
    }
  };

  return {
    async pass(recordedSha256, signal) {
      await mkdir(scratchDir, { recursive: true });
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
