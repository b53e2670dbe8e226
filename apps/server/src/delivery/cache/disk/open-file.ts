import { close, fstat, futimes, open, read, type Stats, write } from 'node:fs';

/** An open file, read and written at positions. */
export interface OpenFile {
  /** Fills `into` up to the end of the file. @returns bytes read */
  read(into: Buffer, position: number): Promise<number>;
  /** Writes all of `from`. */
  write(from: Buffer, position: number): Promise<void>;
  state(): Promise<FileState>;
  /** Sets the time of the last change, which serves as the time of the last use. */
  touch(): Promise<void>;
  /** Closes it when all calls have ended: its descriptor may belong to another file the moment after. */
  close(): Promise<void>;
}

/** Changes if the file is another one, or was written, linked or unlinked. */
export type FileState = Pick<Stats, 'dev' | 'ino' | 'size' | 'mtimeMs' | 'ctimeMs' | 'nlink' | 'blocks'>;

export function sameFile(a: FileState, b: FileState): boolean {
  return a.ctimeMs === b.ctimeMs && a.mtimeMs === b.mtimeMs && a.size === b.size && a.ino === b.ino && a.dev === b.dev;
}

/**
 * Opens a file. Uses descriptors and callbacks, because the promises of `node:fs` cost several times as much for each read.
 * @param flags as for `fs.open`
 */
export function openFile(path: string, flags: string | number = 'r', mode?: number): Promise<OpenFile> {
  return new Promise((resolve, reject) => {
    open(path, flags, mode, (error, fd) => {
      if (error) reject(error);
      else resolve(createOpenFile(fd));
    });
  });
}

function createOpenFile(fd: number): OpenFile {
  let underWay = 0;
  let onIdle: (() => void) | null = null;
  /** Runs one call of `node:fs` that takes a callback. */
  const call = <T>(start: (done: (error: Error | null, value: T) => void) => void): Promise<T> =>
    new Promise((resolve, reject) => {
      if (onIdle !== null) {
        reject(new Error('The file is closed.'));
        return;
      }
      underWay += 1;
      start((error, value) => {
        underWay -= 1;
        if (underWay === 0) onIdle?.();
        if (error) reject(error);
        else resolve(value);
      });
    });
  const readOnce = (into: Buffer, offset: number, position: number) =>
    call<number>((done) => read(fd, into, offset, into.length - offset, position, done));
  const writeOnce = (from: Buffer, offset: number, position: number) =>
    call<number>((done) => write(fd, from, offset, from.length - offset, position, done));
  return {
    async read(into, position) {
      let done = await readOnce(into, 0, position);
      while (done > 0 && done < into.length) {
        const more = await readOnce(into, done, position + done);
        if (more === 0) break;
        done += more;
      }
      return done;
    },
    async write(from, position) {
      for (let done = 0; done < from.length; ) done += await writeOnce(from, done, position + done);
    },
    state: () => call<FileState>((done) => fstat(fd, done)),
    touch: () =>
      call<void>((done) => {
        const now = new Date();
        futimes(fd, now, now, (error) => done(error));
      }),
    async close() {
      if (onIdle !== null) return;
      await new Promise<void>((resolve) => {
        onIdle = resolve;
        if (underWay === 0) resolve();
      });
      await new Promise<void>((resolve, reject) => close(fd, (error) => (error ? reject(error) : resolve())));
    },
  };
}
