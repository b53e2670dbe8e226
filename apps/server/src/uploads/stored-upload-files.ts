import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Logger } from '../base/logger.ts';
import type { PieceWriting } from '../ingest/piece-writing.ts';
import type { FileHashing } from '../storage/file-hashing.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createSegmentWriter } from './segment-writer.ts';
import { createUploadFiles, type UploadFiles } from './upload-files.ts';
import { offsetConflict } from './upload-problems.ts';
import { bytesOf, chainOf, listSegments, type UploadSegment } from './upload-segments.ts';

/** Largest segment: the most that a sender has to send again, and that is read back at once. */
const SEGMENT_BYTES = 16 * 1024 * 1024;
const REMOVED_AT_ONCE = 8;

export interface StoredUploadFilesParts {
  store: ObjectStore;
  /** Folder of this node's copies. */
  folder: string;
  /** Folder of segments that are being filled; emptied at every start. */
  stagingDir: string;
  writing: PieceWriting;
  hashing: FileHashing;
  logger: Logger;
  segmentBytes?: number;
}

/** This process's knowledge of its copy of an upload: its segments, and its length up to the first gap. */
interface Copy {
  segments: Map<string, UploadSegment>;
  end: number;
}

/**
 * {@link UploadFiles} in an object store that several nodes share. The durable bytes are segments, and any node can resume any upload. The
 * local file is a copy, which saves reading back what the same process received.
 */
export function createStoredUploadFiles(parts: StoredUploadFilesParts): UploadFiles {
  const { store, folder, writing, hashing, logger, segmentBytes = SEGMENT_BYTES } = parts;
  const local = createUploadFiles({ folder, writing });
  const copies = new Map<string, Copy>();

  const copyOf = (id: string): Copy => {
    const copy = copies.get(id) ?? { segments: new Map<string, UploadSegment>(), end: 0 };
    copies.set(id, copy);
    return copy;
  };

  const openCopy = (id: string): Promise<FileHandle> =>
    open(local.pathOf(id), constants.O_RDWR | constants.O_CREAT, 0o600);

  const chain = async (id: string) => {
    // A store may list objects late, so add the segments that this process has stored itself.
    const found = new Map<string, UploadSegment & { key: string }>();
    for (const [key, segment] of copies.get(id)?.segments ?? []) found.set(key, { ...segment, key });
    for await (const segment of listSegments(store, id)) found.set(segment.key, segment);
    return chainOf(found.values());
  };

  /** Reads a segment into its place. One that does not match its name is removed: its sender still has the bytes. */
  const readBack = async (file: FileHandle, { key, offset, bytes, sha256 }: UploadSegment & { key: string }) => {
    const object = await store.read(key);
    if (object === null) throw offsetConflict();
    const hash = createHash('sha256');
    let at = offset;
    await pipeline(object.stream, async (pieces: AsyncIterable<Buffer>) => {
      for await (const piece of pieces) {
        hash.update(piece);
        for (let written = 0; written < piece.length; ) {
          written += (await file.write(piece, written, piece.length - written, at + written)).bytesWritten;
        }
        at += piece.length;
      }
    });
    if (at === offset + bytes && hash.digest('hex') === sha256) return;
    logger.error({ key }, 'damaged segment of an upload removed; its sender has to send it again');
    await store.delete(key);
    throw offsetConflict();
  };

  return {
    pathOf: local.pathOf,
    handOut: local.handOut,

    // An upload without bytes needs only its row.
    create: async () => undefined,

    async append(id, offset, { confirm, onWritten, onReadable }) {
      const copy = copyOf(id);
      return createSegmentWriter({
        ...{ id, offset, store, segmentBytes, writing, hashing, confirm, onWritten },
        stagingDir: parts.stagingDir,
        async beforePut(segment, path) {
          const file = await openCopy(id);
          try {
            await copyInto(file, path, segment);
          } finally {
            await file.close();
          }
        },
        afterPut(segment, key) {
          copy.segments.set(key, segment);
          if (segment.offset > copy.end) return;
          copy.end = Math.max(copy.end, segment.offset + segment.bytes);
          onReadable(copy.end);
        },
        onReverted(key) {
          copy.segments.delete(key);
          copy.end = Math.min(copy.end, offset);
        },
      });
    },

    size: async (id) => bytesOf(await chain(id)),

    async gather(id, bytes) {
      const copy = copyOf(id);
      // If all of it was received or read back here, the store need not be asked.
      const isHere = copy.end === bytes;
      const segments = isHere ? [] : await chain(id);
      const missing = segments.filter(({ key }) => !copy.segments.has(key));
      const overwrites = missing.some(({ offset }) => offset < copy.end);
      const file = await openCopy(id);
      try {
        for (const segment of missing) {
          await readBack(file, segment);
          copy.segments.set(segment.key, segment);
        }
        if (!isHere) copy.end = bytesOf(segments);
        // Bytes after it may never have been put.
        await file.truncate(copy.end);
      } finally {
        await file.close();
      }
      return overwrites;
    },

    async remove(id) {
      copies.delete(id);
      await local.remove(id);
      const keys: string[] = [];
      for await (const { key } of listSegments(store, id)) keys.push(key);
      while (keys.length > 0) await Promise.all(keys.splice(0, REMOVED_AT_ONCE).map((key) => store.delete(key)));
    },

    async clean() {
      await local.clean();
      // Only the process that left them knew which segments they hold.
      for await (const { id } of local.all()) await rm(local.pathOf(id), { force: true });
    },

    async *all() {
      const found = new Map<string, UploadSegment[]>();
      for await (const segment of listSegments(store, null)) {
        const of = found.get(segment.id) ?? [];
        of.push(segment);
        found.set(segment.id, of);
      }
      // Copies of uploads that ended on another node.
      for await (const { id } of local.all()) if (!found.has(id)) found.set(id, []);
      for (const [id, segments] of found) yield { id, bytes: bytesOf(chainOf(segments)) };
    },
  };
}

/** Writes the file `path` to the segment's place. */
async function copyInto(file: FileHandle, path: string, { offset }: UploadSegment): Promise<void> {
  const source = await open(path, 'r');
  await pipeline(source.createReadStream({ highWaterMark: 1024 * 1024 }), async (pieces: AsyncIterable<Buffer>) => {
    let at = offset;
    for await (const piece of pieces) {
      for (let written = 0; written < piece.length; ) {
        written += (await file.write(piece, written, piece.length - written, at + written)).bytesWritten;
      }
      at += piece.length;
    }
  });
}
