import { z } from 'zod';
import { CONTROL_API_PREFIX } from './prefixes.ts';

/**
 * Where resumable uploads go: tus 1.0.0 (https://tus.io/protocols/resumable-upload). Its requests and answers are headers and bytes, so that it
 * is no router of this contract; what is ours about it is here.
 */
export const UPLOADS_PATH = `${CONTROL_API_PREFIX}/uploads`;

/** Version of the protocol, as `Tus-Resumable` and `Tus-Version` say it. */
export const TUS_VERSION = '1.0.0';

/** Extensions of the protocol, as `Tus-Extension` says them. */
export const TUS_EXTENSIONS = [
  'creation',
  'creation-with-upload',
  'creation-defer-length',
  'termination',
  'expiration',
] as const;

/** Id of an upload: the last part of its URL. */
export const UploadId = z
  .string()
  .regex(/^upl_[0-9a-z]{26}$/)
  .meta({ description: 'Prefix `upl_` and a lower-case ULID' });

/** Names the media object that an upload became: on the answer that finished it, and on every HEAD until the upload expires. */
export const MEDIA_ID_HEADER = 'MDS-Media-Id';
/** Beside {@link MEDIA_ID_HEADER}: `true` where the upload made the media object, `false` where the project had its bytes already. */
export const MEDIA_CREATED_HEADER = 'MDS-Media-Created';
/** The problem code of an upload that was refused, on every answer about it: browsers' tus clients see no bodies. */
export const PROBLEM_CODE_HEADER = 'MDS-Problem-Code';

/**
 * Keys of `Upload-Metadata` that mean something here; others are ignored.
 *
 * - `filename` or `name`: a label, only ever shown
 * - `checksum`: SHA-256 of the whole file, as `sha256 <base64>` or 64 hexadecimal digits
 * - `duplicate`: `existing` (default) or `allow`, as of `POST /control/v1/media`
 * - `idempotency_key`: as the header `Idempotency-Key` there
 */
export const UPLOAD_METADATA_KEYS = ['filename', 'name', 'checksum', 'duplicate', 'idempotency_key'] as const;
