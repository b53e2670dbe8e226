import { statfs } from 'node:fs/promises';
import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';

/** Room for one arriving file. */
export interface StagingReservation {
  /** The size up to which the file may grow without asking again. */
  readonly bytes: number;
  /**
   * Reserves room up to a new size, and some beyond if there is plenty. Less than `bytes` changes nothing.
   * @throws AppError `insufficient_storage`; the reservation is unchanged then
   */
  grow(bytes: number): Promise<void>;
  /** Sets the size of the file: written bytes show in the free space of the volume and must not count twice. */
  wrote(bytes: number): void;
  /** Gives the room back: the file is gone, or is no longer staged. Further calls do nothing. */
  release(): void;
}

/** Bounds what all arriving files together may take of a volume. */
export interface StagingSpace {
  /**
   * Reserves room for a file.
   * @param bytes the size that it will have; 0 if that is not known yet
   * @param written how much of it has arrived already
   * @throws AppError `insufficient_storage` (507, RFC 4918, section 11.5)
   */
  reserve(bytes: number, written?: number): Promise<StagingReservation>;
  /** Reserves room for a file of which a part arrived before this process started: never refused. */
  resume(bytes: number, written: number): StagingReservation;
  /** Sum of all reservations. */
  readonly reservedBytes: number;
}

export interface StagingSpaceParts {
  /** Any folder of the volume. */
  folder: string;
  /** Bound of all arriving files, in bytes; 0: none. */
  maxBytes: number;
  /** Bytes of the volume that stay free for everything else. */
  minFreeBytes: number;
}

/** When to try again if other arriving files take the room; in seconds. */
const RETRY_AFTER_S = '60';
/** A growing file reserves this much at once, so that not every piece has to look at the volume. */
const GROWTH_BYTES = 8 * 1024 * 1024;

/** Makes a {@link StagingSpace} for the files that arrive in this process. */
export function createStagingSpace({ folder, maxBytes, minFreeBytes }: StagingSpaceParts): StagingSpace {
  let reserved = 0;
  /** The part of it that is not written yet. */
  let unwritten = 0;

  /** Reserves first and checks then: simultaneous callers see each other. */
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
          // No room for more than needed; what is needed may fit.
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
