import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { UploadOutcome, UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { UploadFiles } from './upload-files.ts';
import { storageFullProblem } from './upload-problems.ts';
import type { UploadProgress } from './upload-progress.ts';

export interface UploadCompletionParts {
  uploads: Pick<UploadRepository, 'finish'>;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  files: UploadFiles;
  progress: UploadProgress;
  /** How long the outcome can be asked for, in milliseconds. */
  keepMs: number;
  /** Aborted when the service stops: what is not accepted by then is resumed at the next start. */
  signal: AbortSignal;
  /** Called for every upload that has ended. */
  onEnded(state: UploadOutcome['state']): void;
  logger: Logger;
}

/** Ends uploads, accepted or not. The caller has the upload's lock. */
export interface UploadCompletion {
  /**
   * Checks, identifies and accepts the file. It is accepted once, however often this is called.
   * @param bytes that have arrived
   * @throws AppError the reason of a rejection, which is final and recorded; or `insufficient_storage`, `unavailable` and the like,
   *   which leave the upload as it was, to be tried again
   */
  complete(upload: UploadRecord, bytes: number): Promise<void>;
  /** Ends an open upload without a media object and removes its bytes. False if it was over. */
  discard(id: string, outcome: Exclude<UploadOutcome, { state: 'accepted' }>): Promise<boolean>;
}

export function createUploadCompletion(parts: UploadCompletionParts): UploadCompletion {
  const { uploads, media, ingest, files, progress, logger } = parts;

  const end = async (id: string, outcome: UploadOutcome): Promise<boolean> => {
    if (!(await uploads.finish(id, outcome, Date.now() + parts.keepMs))) return false;
    progress.end(id);
    parts.onEnded(outcome.state);
    await files.remove(id);
    return true;
  };

  const accept = async (upload: UploadRecord, bytes: number) => {
    const { id, projectId, filename, duplicate, expectedSha256 } = upload;
    if (bytes === 0) throw new AppError('empty_file', 'The upload has no bytes.');
    const { hash } = progress.of(upload, bytes);
    if (await files.gather(id, bytes)) hash.forget();
    const sha256 = await hash.digest(bytes);
    if (expectedSha256 !== null && sha256 !== expectedSha256) {
      throw new AppError(
        'checksum_mismatch',
        `The file that arrived has the SHA-256 ${sha256}, not the one announced.`,
      );
    }
    // Named after the upload: after a crash, the next try finds the media object that it had made.
    const idempotencyKey = upload.idempotencyKey ?? id;
    const { media: accepted, created } = await ingest.accept({
      projectId,
      staged: { path: await files.handOut(id), bytes, sha256 },
      filename,
      idempotencyKey,
      duplicate,
      signal: parts.signal,
    });
    const made = created || (await media.findByIdempotencyKey(projectId, id))?.id === accepted.id;
    await end(id, { state: 'accepted', mediaId: accepted.id, mediaCreated: made });
  };

  return {
    async complete(upload, bytes) {
      try {
        await accept(upload, bytes);
      } catch (error) {
        if (!isFinal(error)) throw storageFullProblem(error);
        const failure = { code: error.code, message: error.message };
        await end(upload.id, { state: 'rejected', failure });
        logger.info({ uploadId: upload.id, code: error.code }, 'upload rejected');
        throw error;
      }
    },
    discard: end,
  };
}

/** Whether the same bytes would be refused again. */
function isFinal(error: unknown): error is AppError {
  return error instanceof AppError && (error.status === 422 || error.code === 'idempotency_conflict');
}
