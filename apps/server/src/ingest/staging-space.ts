import { statfs } from 'node:fs/promises';
import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';

/** Room for one file on its way in. */
export interface StagingReservation {
  /** How large the file may become without asking again. */
  readonly bytes: number;
  /**
   * Asks for room up to a new size, and for some beyond where there is plenty; less than `bytes` changes nothing.
   * @throws AppError `insufficient_storage`; the reservation stays as it was
   */
  grow(bytes: number): Promise<void>;
  /** Tells how large the file has become: what is written shows in the free space of the volume and is not held twice. */
  wrote(bytes: number): void;
  /** Gives the room back: the file is gone, or is no longer staged. More than once does nothing. */
  release(): void;
}

/** What files on their way in may take of a volume, all together. */
export interface StagingSpace {
  /**
   * Sets room for a file aside.
   * @param bytes the size that it will have; 0 where that is not known yet
   * @param written how much of it is there already
   * @throws AppError `insufficient_storage` (507, RFC 4918, section 11.5)
   */
  reserve(bytes: number, written?: number): Promise<StagingReservation>;
  /** Takes up the reservation of a file of which a part is there since before this process: never refused. */
  resume(bytes: number, written: number): StagingReservation;
  /** Sum of all reservations. */
  readonly reservedBytes: number;
}

export interface StagingSpaceParts {
  /** Any folder of the volume. */
  folder: string;
  /** Bound of all files on their way in, in bytes; 0: none. */
  maxBytes: number;
  /** What must be left free on the volume for everything else. */
  minFreeBytes: number;
}

/** How soon it is worth asking again where others on their way in take the room; in seconds. */
const RETRY_AFTER_S = '60';
/** A file that grows piece by piece asks for this much at once, so that not every piece looks at the volume. */
const GROWTH_BYTES = 8 * 1024 * 1024;

/** Makes {@link StagingSpace} for the files that this process takes in. */
export function createStagingSpace({ folder, maxBytes, minFreeBytes }: StagingSpaceParts): StagingSpace {
  let reserved = 0;
  /** Of that, what is not on the volume yet. */
  let unwritten = 0;

  /** Holds first and looks then, so that those who ask at the same time see each other. */
  const hold = async (more: number): Promise<void> => {
    if (maxBytes > 0 && reserved + more > maxBytes) {
      throw new AppError(
        'insufficient_storage',
        `Files on their way in take ${reserved} of the ${maxBytes} bytes that are set aside for them. Try again when some of them are done.`,
        { headers: { 'Retry-After': RETRY_AFTER_S } },
      );
    }
    reserved += more;
    unwritten += more;
    try {
      const { bavail, bsize } = await statfs(folder);
      if (bavail * bsize >= unwritten + minFreeBytes) return;
    } catch (error) {
      reserved -= more;
      unwritten -= more;
      throw storageError(error);
    }
    reserved -= more;
    unwritten -= more;
    throw new AppError('insufficient_storage', 'The storage has no room for this file. Try again when there is room.');
  };

  const reservation = (initial: number, alreadyWritten: number): StagingReservation => {
    let bytes = initial;
    let written = alreadyWritten;
    let released = false;
    return {
      get bytes() {
        return bytes;
      },
      async grow(to) {
        const more = to - bytes;
        if (more <= 0 || released) return;
        try {
          await hold(more + GROWTH_BYTES);
          bytes = to + GROWTH_BYTES;
        } catch {
          // Not that much beyond; what is needed may be there.
          await hold(more);
          bytes = to;
        }
      },
      wrote(to) {
        if (released) return;
        const now = Math.min(to, bytes);
        unwritten -= now - written;
        written = now;
      },
      release() {
        if (released) return;
        released = true;
        reserved -= bytes;
        unwritten -= bytes - written;
      },
    };
  };

  return {
    async reserve(bytes, written = 0) {
      await hold(bytes);
      const made = reservation(bytes, 0);
      made.wrote(written);
      return made;
    },
    resume(bytes, written) {
      reserved += bytes;
      unwritten += bytes - written;
      return reservation(bytes, written);
    },
    get reservedBytes() {
      return reserved;
    },
  };
}
