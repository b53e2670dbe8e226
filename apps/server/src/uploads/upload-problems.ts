import { PROBLEM_CODE_HEADER, type ProblemIssue } from '@mds/contract';
import { ERRORS } from '@tus/server';
import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';
import type { UploadRecord } from '../db/upload-repository.ts';

/** The problem for each refusal of the tus library, by its text. */
const REFUSALS: Record<string, () => AppError> = {
  [ERRORS.MISSING_OFFSET.body]: () => badHeader('upload-offset', 'is needed: the offset that HEAD returns'),
  [ERRORS.INVALID_CONTENT_TYPE.body]: badContentType,
  [ERRORS.FILE_NOT_FOUND.body]: noSuchUpload,
  [ERRORS.INVALID_OFFSET.body]: offsetConflict,
  [ERRORS.ERR_SIZE_EXCEEDED.body]: lengthExceeded,
  [ERRORS.INVALID_LENGTH.body]: () =>
    badHeader(
      'upload-length',
      'must be sent once and cannot change; send Upload-Defer-Length: 1 instead if the length is not known yet',
    ),
  [ERRORS.INVALID_METADATA.body]: badMetadata,
  [ERRORS.UNSUPPORTED_CONCATENATION_EXTENSION.body]: () =>
    badHeader('upload-concat', 'is not supported: send the file in one upload'),
  [ERRORS.ABORTED.body]: () =>
    new AppError('upload_locked', 'Another request continues this upload. Send HEAD to get its offset.'),
};

/**
 * Translates an error of the tus library into a problem; any other error is returned as it is.
 * @param maxBytes the largest file that is accepted
 */
export function uploadProblem(error: unknown, maxBytes: number): unknown {
  if (typeof error !== 'object' || error === null || !('body' in error) || typeof error.body !== 'string') return error;
  if (error.body === ERRORS.ERR_MAX_SIZE_EXCEEDED.body) return tooLarge(maxBytes);
  return REFUSALS[error.body]?.() ?? error;
}

/** Whether a body was cut because it was too long. */
export function isTooLong(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'status_code' in error && error.status_code === 413;
}

export function noSuchUpload(): AppError {
  return new AppError(
    'upload_not_found',
    'There is no such upload in this project. Finished uploads are removed after some time. Create a new one.',
  );
}

export function offsetConflict(): AppError {
  return new AppError(
    'upload_offset_conflict',
    'Upload-Offset is not the current offset of the upload. Nothing was changed. Send HEAD to get the offset, and continue from it.',
  );
}

export function tooLarge(maxBytes: number): AppError {
  return new AppError('payload_too_large', `The file is larger than the ${maxBytes} bytes that are accepted here.`);
}

/** The offset of the upload is unchanged. */
export function lengthExceeded(): AppError {
  return new AppError(
    'payload_too_large',
    'The body exceeds the length of the upload, and none of it was stored. Send only the bytes from Upload-Offset to Upload-Length.',
  );
}

export function badMetadata(): AppError {
  return badHeader('upload-metadata', 'must be pairs of a key and a base64 value, separated by commas, each key once');
}

export function badContentType(): AppError {
  const message = 'must be application/offset+octet-stream';
  return new AppError('unsupported_content_type', `The header content-type ${message}.`, {
    issues: [{ in: 'header', path: 'content-type', message }],
  });
}

/** A header that violates the protocol. @param message continues the sentence after the header's name */
export function badHeader(path: string, message: string): AppError {
  const issue: ProblemIssue = { in: 'header', path, message };
  return new AppError('invalid_request', `The header ${path} ${message}.`, { issues: [issue] });
}

/** Why an upload takes no more bytes and has no offset; null if it is open or became a media object. */
export function endedProblem(upload: UploadRecord): AppError | null {
  switch (upload.state) {
    case 'open':
    case 'accepted':
      return null;
    case 'rejected': {
      const { code = 'unknown', message = '' } = upload.failure ?? {};
      return new AppError(
        'upload_gone',
        `The upload was refused (${code}). ${message} Correct the cause, then create a new upload.`,
        { headers: { [PROBLEM_CODE_HEADER]: code } },
      );
    }
    case 'terminated':
      return new AppError('upload_gone', 'The upload was ended by its sender. Create a new one.');
    case 'expired':
      return new AppError(
        'upload_gone',
        'The upload expired, because no bytes arrived for a long time. Create a new one.',
      );
  }
}

/** The problem for a full volume. It adds that the upload can be resumed. */
export function storageFullProblem(error: unknown): unknown {
  const known = storageError(error);
  if (!(known instanceof AppError) || known.code !== 'insufficient_storage') return known;
  return new AppError(
    'insufficient_storage',
    'The storage is full at the moment. The bytes that arrived are kept. When there is room again, send HEAD to get the offset, and continue from it.',
    { cause: error, headers: known.headers },
  );
}
