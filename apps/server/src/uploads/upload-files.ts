import { constants } from 'node:fs';
import { copyFile, type FileHandle, link, open, opendir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UploadId } from '@mds/contract';
import { systemCode } from '../storage/storage-error.ts';

/** A second name of a file that is whole, for the ingest to take away. */
const WHOLE = '.whole';

/** The bytes of uploads: one file each, named by its id. */
export interface UploadFiles {
  /** Makes an empty file, durably. */
  create(id: string): Promise<void>;
  /** Opens the file for writing at any place; makes it where a crash came between row and file. */
  open(id: string): Promise<FileHandle>;
  /** How many bytes are there: the offset of the upload. */
  size(id: string): Promise<number>;
  pathOf(id: string): string;
  /**
   * A further name of the file, which whoever gets it may move away. The file itself stays until the upload is known to be over, so
   * that a crash in between loses nothing.
   */
  handOut(id: string): Promise<string>;
  remove(id: string): Promise<void>;
  /** Removes second names that a crash left. @returns ids of the uploads that have a file */
  sweep(): AsyncGenerator<string>;
}

/** {@link UploadFiles} in a folder. Ids are ours, and no part of a path comes from a client. */
export function createUploadFiles({ folder }: { folder: string }): UploadFiles {
  const pathOf = (id: string) => join(folder, UploadId.parse(id));

  return {
    pathOf,

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

    open: (id) => open(pathOf(id), constants.O_RDWR | constants.O_CREAT, 0o600),

    async size(id) {
      try {
        return (await stat(pathOf(id))).size;
      } catch (error) {
        if (systemCode(error) === 'ENOENT') return 0;
        throw error;
      }
    },

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

    async *sweep() {
      for await (const { name } of await opendir(folder)) {
        if (UploadId.safeParse(name).success) yield name;
        else if (name.endsWith(WHOLE)) await rm(join(folder, name), { force: true });
      }
    },
  };
}
