import { createHash, type Hash } from 'node:crypto';
import type { UploadRecord } from '../db/upload-repository.ts';
import type { StagingReservation, StagingSpace } from '../ingest/staging-space.ts';

/** What this process knows of an upload beside its row and its file. */
export interface Progress {
  /** Room on the volume. */
  room: StagingReservation;
  /**
   * SHA-256 of the first `hashedBytes`. That is not the size of the file where another process, or this one before a restart, wrote
   * some, and {@link HASH_LOST} where it saw bytes that were not kept: the file is read then, once, when it is whole.
   */
  hash: Hash;
  hashedBytes: number;
}

/** No size that a file has. */
export const HASH_LOST = -1;

/** {@link Progress} of every open upload: some hundred bytes each. */
export interface UploadProgress {
  /**
   * Begins a new upload.
   * @throws AppError `insufficient_storage`
   */
  begin(id: string, length: number | null): Promise<void>;
  /** That of an upload of which `size` bytes are there. */
  of(upload: Pick<UploadRecord, 'id' | 'length'>, size: number): Progress;
  /** Nothing is on its way any more: the room is given back. */
  end(id: string): void;
}

export function createUploadProgress({ space }: { space: StagingSpace }): UploadProgress {
  const all = new Map<string, Progress>();
  const unhashed = () => ({ hash: createHash('sha256'), hashedBytes: 0 });

  return {
    async begin(id, length) {
      all.set(id, { room: await space.reserve(length ?? 0), ...unhashed() });
    },
    of({ id, length }, size) {
      const known = all.get(id);
      if (known) return known;
      const taken = { room: space.resume(Math.max(length ?? 0, size), size), ...unhashed() };
      all.set(id, taken);
      return taken;
    },
    end(id) {
      all.get(id)?.room.release();
      all.delete(id);
    },
  };
}
