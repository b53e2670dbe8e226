import { constants } from 'node:fs';
import { copyFile, link, open, opendir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UploadId } from '@mds/contract';
import { systemCode } from '../base/storage-error.ts';
import type { PieceWriting } from '../ingest/piece-writing.ts';

/** A second name of a file that is whole, for the ingest to take away. */
const WHOLE = '.whole';

/** The bytes of uploads. */
export interface UploadFiles {
  /** Makes an upload of no bytes, durably. */
  create(id: string): Promise<void>;
  /** Begins to add bytes at the upload's end. Whoever gets the writer closes it. */
  append(id: string, offset: number, options: AppendOptions): Promise<UploadWriter>;
  /** How many bytes are kept for good: the offset of the upload. */
  size(id: string): Promise<number>;
  /** The local file. Where {@link gather} was not called before, bytes of it may be missing. */
  pathOf(id: string): string;
  /**
   * Brings the bytes that are kept elsewhere only into the local file.
   * @param bytes that the upload has
   * @returns whether they took the place of bytes that {@link AppendOptions.onReadable} was told of, so that a hash of those is void
   */
  gather(id: string, bytes: number): Promise<boolean>;
  /**
   * A further name of the local file, which whoever gets it may move away. The bytes themselves stay until the upload is known to be
   * over, so that a crash in between loses nothing.
   */
  handOut(id: string): Promise<string>;
  remove(id: string): Promise<void>;
  /** Removes further names that a crash left: before anything else is done here. */
  clean(): Promise<void>;
  /** The uploads of which there are bytes, and how many. */
  all(): AsyncGenerator<{ id: string; bytes: number }>;
}

/** How bytes are added. */
export interface AppendOptions {
  /** Makes sure that the upload is still this process's. @throws AppError `upload_locked` */
  confirm(): Promise<void>;
  /** Told of each stretch that was written to the local disk, in order, with its length in bytes. */
  onWritten(bytes: number): void;
  /** The local file has all bytes before `end`, and they stay as they are. */
  onReadable(end: number): void;
}

/** Adds bytes to an upload. */
export interface UploadWriter {
  /** Takes the next piece. @returns when another may come */
  take(piece: Uint8Array): Promise<void>;
  /** All that was taken is kept for good on return. */
  commit(): Promise<void>;
  /** After a failure: no more is taken. Resolves when nothing is being written any more. */
  halt(): Promise<void>;
  /** Then: keeps for good what can be kept of what was taken. */
  keep(): Promise<void>;
  /** Or: the upload stands where it stood when the writer was made. */
  undo(): Promise<void>;
  /** Lets go of the upload, with what was neither committed nor kept given up. */
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
      // Made anew where a crash came between row and file.
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
            // The volume does not even let that be done: what came is given up.
            await file.truncate(offset);
          }
        },
        undo: () => file.truncate(offset),
        async close() {
          await writer.close();
          await file.close();
        },
      };
    },

    // All there is, is here.
    gather: async () => false,

    async handOut(id) {
      const path = `${pathOf(id)}${WHOLE}`;
      await rm(path, { force: true });
      try {
        await link(pathOf(id), path);
      } catch (error) {
        // Some file systems know no second names.
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
