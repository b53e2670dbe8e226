import { PROBLEM_CODE_HEADER, type ProblemIssue } from '@mds/contract';
import { ERRORS } from '@tus/server';
import { AppError } from '../base/app-error.ts';
import { storageError } from '../base/storage-error.ts';
import type { UploadRecord } from '../db/upload-repository.ts';

/** The problem for each refusal of the tus library, by its text. */
const REFUSALS: Record<string, () => AppError> = {
  [ERRORS.MISSING_OFFSET.body]: () => badHeader('upload-offset', 'is needed: the offset that HEAD tells'),
  [ERRORS.INVALID_CONTENT_TYPE.body]: badContentType,
  [ERRORS.FILE_NOT_FOUND.body]: noSuchUpload,
  [ERRORS.INVALID_OFFSET.body]: offsetConflict,
  [ERRORS.ERR_SIZE_EXCEEDED.body]: beyondLength,
  [ERRORS.INVALID_LENGTH.body]: () =>
    badHeader('upload-length', 'is needed once, unless Upload-Defer-Length: 1 takes its place, and can not change'),
  [ERRORS.INVALID_METADATA.body]: badMetadata,
  [ERRORS.UNSUPPORTED_CONCATENATION_EXTENSION.body]: () =>
    badHeader('upload-concat', 'is not supported: send the file in one upload'),
  [ERRORS.ABORTED.body]: () =>
    new AppError('upload_locked', 'Another request took this upload over. Ask for its offset again.'),
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
export function isOverrun(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'status_code' in error && error.status_code === 413;
}

export function noSuchUpload(): AppError {
  return new AppError(
    'upload_not_found',
    'There is no such upload in this project; what is over is forgotten after a while. Create a new one.',
  );
}

export function offsetConflict(): AppError {
  return new AppError(
    'upload_offset_conflict',
    'The upload stands at another offset than Upload-Offset says. Nothing was changed: ask with HEAD where it stands, and go on there.',
  );
}

export function tooLarge(maxBytes: number): AppError {
  return new AppError('payload_too_large', `The file is larger than the ${maxBytes} bytes that are accepted here.`);
}

/** The offset of the upload is unchanged. */
export function beyondLength(): AppError {
  return new AppError(
    'payload_too_large',
    'The body goes beyond the length of the upload. Nothing of it was kept: send what lies between Upload-Offset and Upload-Length.',
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
export function overProblem(upload: UploadRecord): AppError | null {
  switch (upload.state) {
    case 'open':
    case 'accepted':
      return null;
    case 'rejected': {
      const { code = 'unknown', message = '' } = upload.failure ?? {};
      return new AppError('upload_gone', `The upload was refused (${code}). ${message} Another one may be created.`, {
        headers: { [PROBLEM_CODE_HEADER]: code },
      });
    }
    case 'terminated':
      return new AppError('upload_gone', 'The upload was ended by its sender. Create a new one.');
    case 'expired':
      return new AppError('upload_gone', 'The upload was given up, as nothing came for a long time. Create a new one.');
  }
}

/** The problem of a full volume, in the words of uploads: what had arrived is kept. */
export function roomError(error: unknown): unknown {
  const known = storageError(error);
  if (!(known instanceof AppError) || known.code !== 'insufficient_storage') return known;
  return new AppError(
    'insufficient_storage',
    'The storage has no room for more at the moment. What arrived is kept: ask with HEAD where the upload stands, and go on there when there is room.',
    { cause: error, headers: known.headers },
  );
}
