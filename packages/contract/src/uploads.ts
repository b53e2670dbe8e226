import { z } from 'zod';
import { CONTROL_API_PREFIX } from './prefixes.ts';

/**
 * Path of resumable uploads: tus 1.0.0 (https://tus.io/protocols/resumable-upload). The protocol consists of headers and bytes, so it is
 * not in the tree of routes. This file holds our additions to it.
 */
export const UPLOADS_PATH = `${CONTROL_API_PREFIX}/uploads`;

/** Version of the protocol, as in `Tus-Resumable` and `Tus-Version`. */
export const TUS_VERSION = '1.0.0';

/** Supported extensions of the protocol, as in `Tus-Extension`. */
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

/** Id of the media object that an upload became: on the answer that completes it, and on every HEAD until the upload expires. */
export const MEDIA_ID_HEADER = 'MDS-Media-Id';
/** With {@link MEDIA_ID_HEADER}: `true` if the upload created the media object, `false` if the project already had its bytes. */
export const MEDIA_CREATED_HEADER = 'MDS-Media-Created';
/** Problem code of a refused upload, on every answer about it, because tus clients in browsers cannot read bodies. */
export const PROBLEM_CODE_HEADER = 'MDS-Problem-Code';

/**
 * Supported keys of `Upload-Metadata`; others are ignored.
 *
 * - `filename` or `name`: a label
 * - `checksum`: SHA-256 of the whole file, as `sha256 <base64>` or 64 hexadecimal digits
 * - `duplicate`: `existing` (default) or `allow`, as in `POST /control/v1/media`
 * - `idempotency_key`: as the header `Idempotency-Key` there
 */
export const UPLOAD_METADATA_KEYS = ['filename', 'name', 'checksum', 'duplicate', 'idempotency_key'] as const;
