import { AppError } from '../base/app-error.ts';
import { storageFull, storageReadOnly } from '../base/storage-error.ts';

/** A failed request to S3, without the properties of the SDK's errors: some of them contain credentials. */
export class S3Failure extends Error {
  /** S3's code (`NoSuchKey`), the system's (`ECONNRESET`) or the SDK's (`TimeoutError`). */
  readonly code: string;
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  constructor(request: string, code: string, status: number, requestId: string | null) {
    const answer = status === 0 ? '' : ` with status ${status}`;
    super(`S3 failed ${request}: ${code}${answer}${requestId === null ? '' : `, request ${requestId}`}.`);
    this.name = 'S3Failure';
    this.code = code;
    this.status = status;
  }
}

/** The object storage cannot be used as it is set up: its operator has to act before the service can start. */
export class ObjectStorageError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ObjectStorageError';
  }
}

/** The storage belongs to a deployment that may be on its way to this database: starting again later may help. */
export class StorageAheadError extends ObjectStorageError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StorageAheadError';
  }
}

const SECRETS = 'Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or whatever gives this service its credentials.';
const RIGHTS =
  'They need s3:ListBucket and s3:ListBucketMultipartUploads on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on what is in it.';
const REGION = 'Set AWS_REGION to the region of the bucket.';

/** The remedy for an operator if S3 refuses every request, by S3's codes and the SDK's. */
const REMEDIES: Readonly<Record<string, string>> = {
  NoSuchBucket: 'There is no such bucket. Make it, or name another one in MDS_STORAGE_URL.',
  InvalidBucketName: 'The bucket of MDS_STORAGE_URL has no valid name.',
  InvalidAccessKeyId: `The access key or its secret is wrong. ${SECRETS}`,
  // Some servers answer this for unknown access keys, too.
  SignatureDoesNotMatch: `The access key or its secret is wrong. ${SECRETS}`,
  ExpiredToken: `The credentials have expired. ${SECRETS}`,
  InvalidToken: `The session token is not valid. ${SECRETS}`,
  CredentialsProviderError: `There are no credentials for the object storage. ${SECRETS}`,
  AccessDenied: `The credentials do not allow this. ${RIGHTS}`,
  AllAccessDisabled: `The credentials do not allow this. ${RIGHTS}`,
  AccountProblem: 'The account of the object storage is not in order. Ask its provider.',
  RequestTimeTooSkewed: 'The clock of this machine is wrong: S3 refuses requests that are 15 minutes off. Set it.',
  PermanentRedirect: `The bucket is in another region. ${REGION}`,
  AuthorizationHeaderMalformed: `The requests are signed for another region. ${REGION}`,
  IllegalLocationConstraintException: `The bucket is in another region. ${REGION}`,
};
/** Codes for answers without a body, such as those to HEAD. */
const OF_BARE_STATUS: Readonly<Record<number, string>> = { 301: 'PermanentRedirect', 403: 'AccessDenied' };
const NO_RIGHT = new Set(['AccessDenied', 'AllAccessDisabled', 'MethodNotAllowed', 'ReadOnly']);
const NO_ROOM = new Set(['QuotaExceeded', 'InsufficientStorage', 'StorageFull', 'XMinioStorageFull', 'EntityTooLarge']);
const TEMPORARY_STATUS = new Set([408, 429, 500, 502, 503, 504]);
const RETRY_AFTER_S = { temporary: '5', settings: '60' };

/** The remedy for an operator after a lasting failure; null for any other. */
export function remedyOf({ code }: S3Failure): string | null {
  return REMEDIES[code] ?? null;
}

/** Whether a later try may succeed by itself: no answer, or a status of 5xx. */
export function isTemporary({ code, status }: S3Failure): boolean {
  return !(code in REMEDIES) && !NO_ROOM.has(code) && (status === 0 || TEMPORARY_STATUS.has(status));
}

/**
 * Returns the error that a caller should see: `insufficient_storage` if nothing more can be written, `unavailable` with Retry-After if
 * the storage does not answer or refuses access; any other failure as it is.
 */
export function storageRefusal(failure: S3Failure, access: 'read' | 'write'): Error {
  const options = (seconds: string) => ({ cause: failure, headers: { 'Retry-After': seconds } });
  if (NO_ROOM.has(failure.code) || failure.status === 507) {
    return storageFull(failure, { 'Retry-After': RETRY_AFTER_S.settings });
  }
  if (access === 'write' && NO_RIGHT.has(failure.code)) return storageReadOnly(failure);
  if (remedyOf(failure) !== null) {
    return new AppError(
      'unavailable',
      'The object storage refuses this service. Its operator finds the reason in the log; try again later.',
      options(RETRY_AFTER_S.settings),
    );
  }
  if (isTemporary(failure)) {
    return new AppError(
      'unavailable',
      'The object storage does not answer as it should. Try again in a few seconds.',
      options(RETRY_AFTER_S.temporary),
    );
  }
  return failure;
}

/** Turns an error of the SDK into an S3Failure, without its other properties. @param request as in `PutObject` */
export function failureOf(error: unknown, request: string): S3Failure {
  if (error instanceof S3Failure) return error;
  const { name, Code, code, $metadata } = error as {
    name?: string;
    Code?: string;
    code?: string;
    $metadata?: { httpStatusCode?: number; requestId?: string };
  };
  const status = $metadata?.httpStatusCode ?? 0;
  const called = Code ?? (status === 0 ? (code ?? name) : name) ?? 'Error';
  // A code in an answer may be any text; codes are words.
  const safe = /^[A-Za-z]\w{1,63}$/.test(called) ? called : 'UnknownError';
  const id = $metadata?.requestId;
  const known = safe in REMEDIES || NO_ROOM.has(safe) ? safe : (OF_BARE_STATUS[status] ?? safe);
  return new S3Failure(request, known, status, id !== undefined && /^[\w./+=-]{1,128}$/.test(id) ? id : null);
}
