import type { UploadRecord } from '../db/upload-repository.ts';
import type { StagingReservation, StagingSpace } from '../ingest/staging-space.ts';
import type { FileHash, FileHashing } from '../storage/file-hashing.ts';
import type { UploadFiles } from './upload-files.ts';

/** This process's knowledge of an upload, besides its row and its file. */
export interface Progress {
  /** Room on the volume. */
  room: StagingReservation;
  /** The hash of the file. Another process, or this one before a restart, may have started the file. */
  hash: FileHash;
}

export interface UploadProgressParts {
  space: StagingSpace;
  hashing: FileHashing;
  files: Pick<UploadFiles, 'pathOf'>;
}

/** {@link Progress} of every open upload: some hundred bytes each. */
export interface UploadProgress {
  /**
   * Begins a new upload.
   * @throws AppError `insufficient_storage`
   */
  begin(id: string, length: number | null): Promise<void>;
  /** Returns the progress of an upload that has `size` bytes. */
  of(upload: Pick<UploadRecord, 'id' | 'length'>, size: number): Progress;
  /** Gives the room back: nothing more arrives. */
  end(id: string): void;
  /** Ids of all uploads with progress here. */
  known(): string[];
}

export function createUploadProgress({ space, hashing, files }: UploadProgressParts): UploadProgress {
  const all = new Map<string, Progress>();

  return {
    async begin(id, length) {
      all.set(id, { room: await space.reserve(length ?? 0), hash: hashing.of(files.pathOf(id)) });
    },
    of({ id, length }, size) {
      const known = all.get(id);
      if (known) return known;
      const room = space.resume(Math.max(length ?? 0, size), size);
      const taken = { room, hash: hashing.of(files.pathOf(id)) };
      all.set(id, taken);
      return taken;
    },
    end(id) {
      const ended = all.get(id);
      ended?.room.release();
      ended?.hash.forget();
      all.delete(id);
    },
    known: () => [...all.keys()],
  };
}
