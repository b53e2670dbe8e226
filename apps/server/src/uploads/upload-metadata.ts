import { z } from 'zod';
import { AppError } from '../base/app-error.ts';
import type { NewUpload } from '../db/upload-repository.ts';

type Metadata = Record<string, string | null>;

/** The options in the metadata of an upload. */
export type RequestedUpload = Pick<NewUpload, 'filename' | 'duplicate' | 'idempotencyKey' | 'expectedSha256'>;

const Duplicate = z.enum(['existing', 'allow']);
/** Like the header `Idempotency-Key` of an upload in one request. */
const IdempotencyKey = z.string().min(1).max(255);
const SHA256_BYTES = 32;

/**
 * Reads the keys that the service knows. Others are ignored: clients send names and types of their own.
 * @throws AppError `invalid_request` that names the key
 */
export function readUploadMetadata(metadata: Metadata): RequestedUpload {
  const given = (key: string) => metadata[key] || null;
  const duplicate = Duplicate.safeParse(given('duplicate') ?? 'existing');
  if (!duplicate.success) throw badKey('duplicate', 'must be existing or allow');
  const key = IdempotencyKey.nullable().safeParse(given('idempotency_key'));
  if (!key.success) throw badKey('idempotency_key', 'must have 1 to 255 characters');
  const checksum = given('checksum');
  return {
    filename: given('filename') ?? given('name'),
    duplicate: duplicate.data,
    idempotencyKey: key.data,
    expectedSha256: checksum === null ? null : readSha256(checksum),
  };
}

/** `sha256 <base64>`, as the tus checksum extension writes it, or 64 hexadecimal digits. @returns lower-case hexadecimal digits */
function readSha256(text: string): string {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  const base64 = /^sha256 ([A-Za-z0-9+/]{43}=)$/.exec(text)?.[1];
  const bytes = Buffer.from(base64 ?? '', 'base64');
  if (bytes.length === SHA256_BYTES) return bytes.toString('hex');
  throw badKey('checksum', 'must be "sha256 <base64 of the 32 bytes>" or 64 hexadecimal digits');
}

function badKey(key: string, message: string): AppError {
  return new AppError('invalid_request', `In the header upload-metadata, ${key} ${message}.`, {
    issues: [{ in: 'header', path: `upload-metadata.${key}`, message }],
  });
}
