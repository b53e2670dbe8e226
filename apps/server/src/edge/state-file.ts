import { open, readFile, rename, rm } from 'node:fs/promises';
import type { z } from 'zod';

/** A small document in the data folder that outlives the process. */
export interface StateFile<T> {
  /** Null if there is none, or if it is damaged. */
  read(): Promise<T | null>;
  /** Writes durably; readers see the old or the new content, never a part. */
  write(content: T): Promise<void>;
  remove(): Promise<void>;
}

const PRIVATE_FILE = 0o600;

/** @param path absolute */
export function createStateFile<T>(path: string, schema: z.ZodType<T>): StateFile<T> {
  return {
    async read() {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (text === null) return null;
      try {
        return schema.parse(JSON.parse(text));
      } catch {
        // It is damaged, or of another version.
        return null;
      }
    },

    async write(content) {
      const temporary = `${path}.${process.pid}.tmp`;
      const handle = await open(temporary, 'w', PRIVATE_FILE);
      try {
        await handle.writeFile(JSON.stringify(content));
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, path);
    },

    remove: () => rm(path, { force: true }),
  };
}
