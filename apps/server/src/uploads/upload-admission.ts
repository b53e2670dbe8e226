import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';
import type { NewUpload, UploadRepository } from '../db/upload-repository.ts';
import type { UploadFiles } from './upload-files.ts';
import { readUploadMetadata } from './upload-metadata.ts';
import type { UploadProgress } from './upload-progress.ts';

export interface UploadAdmissionParts {
  uploads: Pick<UploadRepository, 'create'>;
  files: UploadFiles;
  progress: UploadProgress;
  /** Open uploads that a token may have at once. */
  maxOpen: number;
  expiryMs: number;
}

/** The fields of an upload that its creation request gives. */
export type AskedUpload = Pick<NewUpload, 'id' | 'projectId' | 'tokenSha256' | 'metadata' | 'length'>;

/** Creates uploads. */
export interface UploadAdmission {
  /**
   * Creates an upload: room, file and row, or none of them.
   * @throws AppError `invalid_request`, `empty_file`, `too_many_uploads`, `insufficient_storage`
   */
  admit(asked: AskedUpload): Promise<void>;
}

export function createUploadAdmission(parts: UploadAdmissionParts): UploadAdmission {
  const { uploads, files, progress, maxOpen, expiryMs } = parts;
  return {
    async admit(asked) {
      const requested = readUploadMetadata(asked.metadata ?? {});
      if (asked.length === 0) {
        throw new AppError('empty_file', 'An upload of no bytes is no media object. Nothing was created.');
      }
      const createdAtMs = Date.now();
      const upload = { ...asked, ...requested, createdAtMs, expiresAtMs: createdAtMs + expiryMs };
      await progress.begin(upload.id, upload.length);
      try {
        await files.create(upload.id);
        if (!(await uploads.create(upload, { maxOpen }))) throw tooManyUploads(maxOpen);
      } catch (error) {
        progress.end(upload.id);
        await files.remove(upload.id);
        throw storageError(error);
      }
    },
  };
}

function tooManyUploads(maxOpen: number): AppError {
  return new AppError(
    'too_many_uploads',
    `This token has ${maxOpen} uploads open, which is all that it may have. Finish or end some of them first.`,
    { headers: { 'Retry-After': '60' } },
  );
}
