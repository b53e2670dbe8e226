import { type FileHandle, open } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { ByteGate } from '../base/byte-gate.ts';
import type { S3Bucket } from './s3-bucket.ts';
import { S3Failure } from './s3-failure.ts';

const MIB = 1024 * 1024;
/** S3's limit. */
const MAX_PARTS = 10_000;
/** Parts of one object that are sent at once. */
const PARTS_AT_ONCE = 4;

/**
 * Puts a file into a bucket: whole, or in parts of which a few are sent at a time. The result is not verified. On failure, no object was
 * created or changed, and the parts are discarded.
 * @param parts.partBytes larger files are put in parts of this size; S3 requires at least 5 MiB
 * @param parts.gate bounds the bytes that all puts together hold in memory
 */
export async function putFile(parts: {
  bucket: S3Bucket;
  key: string;
  file: { path: string; bytes: number; sha256: string };
  partBytes: number;
  gate: ByteGate;
  logger: Pick<Logger, 'warn'>;
}): Promise<void> {
  const { bucket, key, file, gate } = parts;
  const handle = await open(file.path, 'r');
  try {
    if (file.bytes > parts.partBytes) {
      await putInParts(parts, handle);
      return;
    }
    await gate.enter(file.bytes);
    try {
      await bucket.put(key, await readPart(handle, 0, file.bytes), file.sha256);
    } finally {
      gate.leave(file.bytes);
    }
  } finally {
    await handle.close();
  }
}

async function putInParts(parts: Parameters<typeof putFile>[0], handle: FileHandle): Promise<void> {
  const { bucket, key, file, gate, logger } = parts;
  const size = Math.max(parts.partBytes, Math.ceil(file.bytes / MAX_PARTS / MIB) * MIB);
  const count = Math.ceil(file.bytes / size);
  const upload = await bucket.beginUpload(key, file.sha256);
  const etags: string[] = [];
  let next = 0;
  let failed = false;
  const sendParts = async () => {
    while (next < count && !failed) {
      const index = next++;
      const bytes = Math.min(size, file.bytes - index * size);
      await gate.enter(bytes);
      try {
        etags[index] = await bucket.putPart(upload, index + 1, await readPart(handle, index * size, bytes));
      } catch (error) {
        failed = true;
        throw error;
      } finally {
        gate.leave(bytes);
      }
    }
  };
  try {
    // Waits for all of them: a part that arrives after the abort would stay for good.
    const ends = await Promise.allSettled(Array.from({ length: Math.min(PARTS_AT_ONCE, count) }, sendParts));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    try {
      await bucket.completeUpload(upload, etags);
    } catch (error) {
      // The answer to an earlier try was lost, and the upload is over. The caller verifies that the object is whole.
      if (!(error instanceof S3Failure && error.code === 'NoSuchUpload')) throw error;
    }
  } catch (error) {
    await bucket.abortUpload(upload).catch((left: unknown) => {
      logger.warn(
        { err: left, objectKey: key },
        'multipart upload could not be aborted; the sweep aborts it after a day',
      );
    });
    throw error;
  }
}

async function readPart(handle: FileHandle, position: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let filled = 0; filled < bytes; ) {
    const { bytesRead } = await handle.read(buffer, filled, bytes - filled, position + filled);
    if (bytesRead === 0) throw new Error('A file that is being put became shorter than it was.');
    filled += bytesRead;
  }
  return buffer;
}
