import { constants } from 'node:fs';
import { copyFile, link, open, opendir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UploadId } from '@mds/contract';
import { systemCode } from '../base/storage-error.ts';
import type { PieceWriting } from '../ingest/piece-writing.ts';

/** Suffix of the second name of a complete file, which ingest moves away. */
const WHOLE = '.whole';

/** The bytes of uploads. */
export interface UploadFiles {
  /** Makes an upload of no bytes, durably. */
  create(id: string): Promise<void>;
  /** Begins to add bytes at the upload's end. The caller closes the writer. */
  append(id: string, offset: number, options: AppendOptions): Promise<UploadWriter>;
  /** The number of durable bytes: the offset of the upload. */
  size(id: string): Promise<number>;
  /** The local file. It may lack bytes unless {@link gather} was called. */
  pathOf(id: string): string;
  /**
   * Copies bytes that the local file lacks into it.
   * @param bytes that the upload has
   * @returns whether they replaced bytes that {@link AppendOptions.onReadable} was called for, which voids a hash of those
   */
  gather(id: string, bytes: number): Promise<boolean>;
  /**
   * Makes a second name of the local file, which the caller may move away. The bytes stay until the upload is known to be over: a crash
   * in between loses nothing.
   */
  handOut(id: string): Promise<string>;
  remove(id: string): Promise<void>;
  /** Removes second names that a crash left. Called before anything else. */
  clean(): Promise<void>;
  /** The uploads that have bytes, with their number. */
  all(): AsyncGenerator<{ id: string; bytes: number }>;
}

/** How bytes are added. */
export interface AppendOptions {
  /** Makes sure that the upload is still this process's. @throws AppError `upload_locked` */
  confirm(): Promise<void>;
  /** Called for each stretch that was written to the local disk, in order, with its length in bytes. */
  onWritten(bytes: number): void;
  /** Called when the local file has all bytes before `end`; they no longer change. */
  onReadable(end: number): void;
}

/** Adds bytes to an upload. */
export interface UploadWriter {
  /** Takes the next piece. @returns when another may come */
  take(piece: Uint8Array): Promise<void>;
  /** Makes all pieces taken durable. */
  commit(): Promise<void>;
  /** Stops writing after a failure. Resolves when no write is under way. */
  halt(): Promise<void>;
  /** Makes durable what it can of the pieces taken; called after `halt`. */
  keep(): Promise<void>;
  /** Returns the upload to the offset at which the writer was made; called after `halt`. */
  revert(): Promise<void>;
  /** Releases the upload. Pieces that were neither committed nor kept are dropped. */
  close(): Promise<void>;
}

/** {@link UploadFiles} in a folder: one file each, named by its id. Ids are ours, and no part of a path comes from a client. */
export function createUploadFiles({ folder, writing }: { folder: string; writing: PieceWriting }): UploadFiles {
  const pathOf = (id: string) => join(folder, UploadId.parse(id));

  const size = async (id: string): Promise<number> => {
    try {
      return (await stat(pathOf(id))).size;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return 0;
      throw error;
    }
  };

  return {
    pathOf,
    size,

    async create(id) {
      const file = await open(pathOf(id), 'wx', 0o600);
      await file.close();
      const directory = await open(folder, 'r');
      try {
        await directory.sync();
      } finally {
        await directory.close();
      }
    },

    async append(id, offset, { onWritten, onReadable }) {
      // Created here if a crash came between row and file.
      const file = await open(pathOf(id), constants.O_RDWR | constants.O_CREAT, 0o600);
      let end = offset;
      const writer = writing.begin(file, offset, (bytes) => {
        end += bytes;
        onWritten(bytes);
        onReadable(end);
      });
      return {
        take: (piece) => writer.take(piece),
        async commit() {
          await writer.finish();
          await file.datasync();
        },
        halt: () => writer.close(),
        async keep() {
          try {
            await file.datasync();
          } catch {
            // The volume refuses even this: drop what came.
            await file.truncate(offset);
          }
        },
        revert: () => file.truncate(offset),
        async close() {
          await writer.close();
          await file.close();
        },
      };
    },

    // The local file has all bytes.
    gather: async () => false,

    async handOut(id) {
      const path = `${pathOf(id)}${WHOLE}`;
      await rm(path, { force: true });
      try {
        await link(pathOf(id), path);
      } catch (error) {
        // Some file systems have no hard links.
        if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(systemCode(error) ?? '')) throw error;
        await copyFile(pathOf(id), path);
      }
      return path;
    },

    async remove(id) {
      await rm(pathOf(id), { force: true });
    },

    async clean() {
      for await (const { name } of await opendir(folder)) {
        if (name.endsWith(WHOLE)) await rm(join(folder, name), { force: true });
      }
    },

    async *all() {
      for await (const { name: id } of await opendir(folder)) {
        if (UploadId.safeParse(id).success) yield { id, bytes: await size(id) };
      }
    },
  };
}
