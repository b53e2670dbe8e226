import { randomUUID } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { PieceWriter, PieceWriting } from '../ingest/piece-writing.ts';
import type { FileHashing } from '../storage/file-hashing.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { UploadWriter } from './upload-files.ts';
import { segmentKey, type UploadSegment } from './upload-segments.ts';

export interface SegmentWriterParts {
  id: string;
  /** The offset of the upload when the writer is created. */
  offset: number;
  segmentBytes: number;
  store: Pick<ObjectStore, 'put' | 'delete'>;
  /** Folder of the segment that is being filled. */
  stagingDir: string;
  writing: PieceWriting;
  hashing: FileHashing;
  /** Called before each segment is put. @throws AppError `upload_locked` */
  confirm(): Promise<void>;
  onWritten(bytes: number): void;
  /** Called before the local file `path` is put, which moves it away. */
  beforePut(segment: UploadSegment, path: string): Promise<void>;
  afterPut(segment: UploadSegment, key: string): void;
  /** Called when a segment that was put has been deleted again. */
  onReverted(key: string): void;
}

/** A segment on the local disk. */
interface Filling {
  path: string;
  file: FileHandle;
  writer: PieceWriter;
  offset: number;
  bytes: number;
}

/**
 * {@link UploadWriter} that puts segments into the store. The next segment is filled while one is put. One is put at a time: no segment
 * is in the store without those before it.
 */
export function createSegmentWriter(parts: SegmentWriterParts): UploadWriter {
  const { id, store, segmentBytes, writing, hashing } = parts;
  const put: string[] = [];
  let at = parts.offset;
  let filling: Filling | null = null;
  let putting: Promise<void> = Promise.resolve();
  let failure: { error: unknown } | null = null;

  const begin = async (): Promise<Filling> => {
    const path = join(parts.stagingDir, `upload-${randomUUID()}`);
    const file = await open(path, 'wx', 0o600);
    return { path, file, writer: writing.begin(file, 0, parts.onWritten), offset: at, bytes: 0 };
  };

  const drop = async ({ writer, file, path }: Filling) => {
    await writer.close();
    await file.close();
    await rm(path, { force: true });
  };

  const putSealed = async (sealed: Filling) => {
    const { path, file, writer, offset, bytes } = sealed;
    try {
      await writer.finish();
      const hash = hashing.of(path);
      const sha256 = await hash.digest(bytes).finally(() => hash.forget());
      const segment = { id, offset, bytes, sha256 };
      const key = segmentKey(segment);
      await parts.beforePut(segment, path);
      await writer.close();
      await file.close();
      await parts.confirm();
      await store.put(key, { path, bytes, sha256 });
      put.push(key);
      parts.afterPut(segment, key);
    } finally {
      await drop(sealed);
    }
  };

  /** Puts the filled segment, after the one before it. @throws what that one failed with */
  const seal = async () => {
    const sealed = filling;
    if (sealed === null) return;
    await putting;
    if (failure) throw failure.error;
    filling = null;
    putting = putSealed(sealed).catch((error: unknown) => {
      failure = { error };
    });
  };

  const commit = async () => {
    await seal();
    await putting;
    if (failure) throw failure.error;
  };

  const abandon = async () => {
    await putting;
    const left = filling;
    filling = null;
    if (left !== null) await drop(left);
  };

  return {
    async take(piece) {
      if (failure) throw failure.error;
      for (let from = 0; from < piece.length; ) {
        if (filling?.bytes === segmentBytes) await seal();
        filling ??= await begin();
        const part = piece.subarray(from, from + segmentBytes - filling.bytes);
        filling.bytes += part.length;
        from += part.length;
        at += part.length;
        await filling.writer.take(part);
      }
    },

    commit,
    halt: () => putting,

    async keep() {
      // The first failure is the one that is reported. After a missing segment none may follow.
      await commit().catch(() => undefined);
      await abandon();
    },

    async revert() {
      await abandon();
      // From the end: what a crash leaves of them has no gap.
      for (const key of put.splice(0).reverse()) {
        await store.delete(key);
        parts.onReverted(key);
      }
    },

    close: abandon,
  };
}
