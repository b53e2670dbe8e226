import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import { createByteGate } from '../base/byte-gate.ts';
import { assertObjectKey, isObjectKey } from '../base/object-key.ts';
import { storageError } from '../base/storage-error.ts';
import { hashStream } from './hash-stream.ts';
import type { ObjectStore } from './object-store.ts';
import { openS3Bucket, type S3Bucket } from './s3-bucket.ts';
import { S3Failure } from './s3-failure.ts';
import { parseS3Url } from './s3-location.ts';
import { putFile } from './s3-put.ts';
import type { S3Limits } from './s3-requests.ts';
import { createResumingStream } from './s3-resuming-stream.ts';

/** An {@link ObjectStore} in S3. */
export interface S3ObjectStore extends ObjectStore {
  /** The mark of the deployment that owns the storage, beside its objects. */
  owner: {
    /** @returns the id of a deployment; null where there is no mark */
    read(): Promise<string | null>;
    write(deploymentId: string): Promise<void>;
  };
  /** Ends its connections. */
  close(): void;
}

/** Larger files are put in parts of this size; if a connection breaks, only its part is sent again. */
const PART_BYTES = 8 * 1024 * 1024;
/** Bytes that all puts together hold in memory. */
const PUT_BYTES = 64 * 1024 * 1024;
/** How often a file is put, or read, if its bytes turn out wrong. */
const TRIES = 2;
/** No key of an object begins with a dot, so a list never shows what is below it. */
const PROBES = '.probe/';
const OWNER = '.deployment';
/** Multipart uploads this old are abandoned. */
const STALE_UPLOAD_MS = 24 * 60 * 60 * 1000;
const SWEEP_EVERY_MS = 6 * 60 * 60 * 1000;
/** The server found out itself that a body is not what was signed. */
const DAMAGED_ON_THE_WAY = new Set(['BadDigest', 'InvalidDigest', 'XAmzContentSHA256Mismatch', 'IncompleteBody']);

/**
 * {@link ObjectStore} in a bucket of S3 or of a compatible server. Every put is read back before it counts: there is no other way to
 * know that a server keeps what it was given.
 * @param options.url `s3://bucket` or `s3://bucket/prefix`
 * @param options.endpoint of a server that is not AWS; null: AWS
 * @param options.scratchDir folder for copies that programs read; made when first needed
 * @param options.access instead of credentials and region from where the AWS SDK looks for them
 * @throws RangeError for a bad URL, ObjectStorageError if the storage cannot be used as it is set up. No answer is no error: the
 * storage may come back, and `probe` shows it.
 */
export async function openS3ObjectStore(options: {
  url: string;
  endpoint: string | null;
  scratchDir: string;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  access?: { region: string; credentials: { accessKeyId: string; secretAccessKey: string } };
  limits?: Partial<S3Limits>;
  staleUploadMs?: number;
  partBytes?: number;
}): Promise<S3ObjectStore> {
  const { scratchDir, logger, staleUploadMs = STALE_UPLOAD_MS, partBytes = PART_BYTES } = options;
  const bucket = await openS3Bucket({ ...options, location: parseS3Url(options.url) });
  try {
    await bucket.check();
  } catch (error) {
    if (!(error instanceof AppError)) {
      bucket.close();
      throw error;
    }
    logger.warn({ err: error, storage: options.url, endpoint: options.endpoint }, 'object storage does not answer yet');
  }
  const gate = createByteGate(PUT_BYTES);
  let closed = false;
  const sweep = () =>
    abortStaleUploads(bucket, staleUploadMs).catch((error: unknown) => {
      if (!closed) logger.warn({ err: error }, 'abandoned multipart uploads could not be looked for');
    });
  const sweeping = setInterval(sweep, SWEEP_EVERY_MS).unref();
  void sweep();

  return {
    async put(key, file) {
      assertObjectKey(key);
      await putVerified({ bucket, key, file, partBytes, gate, logger });
      await unlink(file.path);
    },

    async stat(key) {
      assertObjectKey(key);
      const found = await bucket.head(key);
      return found && { bytes: found.bytes };
    },

    async read(key, range) {
      assertObjectKey(key);
      const found = await openObject(bucket, key, range);
      return found && { stream: found.stream, bytes: found.bytes };
    },

    async readAll(key) {
      assertObjectKey(key);
      const found = await openObject(bucket, key);
      return found && buffer(found.stream);
    },

    async localFile(key) {
      assertObjectKey(key);
      const path = join(scratchDir, `object-${randomUUID()}`);
      const release = () => rm(path, { force: true });
      try {
        await mkdir(scratchDir, { recursive: true, mode: 0o700 });
        if (await copyVerified({ bucket, key, path, logger })) return { path, release };
      } catch (error) {
        await release();
        throw storageError(error);
      }
      await release();
      return null;
    },

    async delete(key) {
      assertObjectKey(key);
      await bucket.delete(key);
    },

    async *list(prefix) {
      for await (const object of bucket.list(prefix)) if (isObjectKey(object.key)) yield object;
    },

    async probe() {
      const key = PROBES + randomUUID();
      const content = Buffer.from(key);
      const sha256 = createHash('sha256').update(content).digest('hex');
      try {
        await bucket.put(key, content, sha256);
        if (!(await holds(bucket, key, { bytes: content.length, sha256 })))
          throw new Error('The storage gave back other bytes than it was given.');
      } finally {
        await bucket.delete(key);
      }
    },

    owner: {
      async read() {
        const found = await openObject(bucket, OWNER);
        return found && (await text(found.stream)).trim();
      },
      async write(deploymentId) {
        const content = Buffer.from(`${deploymentId}\n`);
        await bucket.put(OWNER, content, createHash('sha256').update(content).digest('hex'));
      },
    },

    close() {
      closed = true;
      clearInterval(sweeping);
      bucket.close();
    },
  };
}

/** Opens an object, or a range of it, as a stream that resumes if a connection breaks; null if there is no object. */
async function openObject(bucket: S3Bucket, key: string, range?: { start: number; end: number }) {
  const start = range?.start ?? 0;
  // A Range header cannot express an end before the start.
  if (range !== undefined && range.end < start) {
    return (await bucket.head(key)) && { stream: Readable.from([]), bytes: 0, sha256: null };
  }
  const first = await bucket.get(key, { start, end: range?.end ?? null, etag: null });
  if (first === null) return null;
  const { body, bytes, etag, sha256 } = first;
  const reopen = async (offset: number) => {
    const rest = await bucket.get(key, { start: start + offset, end: start + bytes - 1, etag });
    return rest?.body ?? null;
  };
  return { stream: createResumingStream({ bytes, body, reopen }), bytes, sha256 };
}

/** Whether the object exists and consists of these bytes. */
async function holds(bucket: S3Bucket, key: string, file: { bytes: number; sha256: string }): Promise<boolean> {
  const found = await openObject(bucket, key);
  if (found === null) return false;
  if (found.bytes !== file.bytes) {
    found.stream.destroy();
    return false;
  }
  return (await hashStream(found.stream)) === file.sha256;
}

/** Puts a file, unless the bucket has it, and reads it back. @throws AppError `unavailable` if the storage keeps other bytes */
async function putVerified(
  put: Omit<Parameters<typeof putFile>[0], 'logger'> & { logger: Pick<Logger, 'warn' | 'error'> },
): Promise<void> {
  const { bucket, key, file, logger } = put;
  const before = await bucket.head(key);
  let known = before !== null && before.bytes === file.bytes && before.sha256 === file.sha256;
  for (let puts = 0; ; known = false) {
    if (!known) {
      puts += 1;
      await putFile(put).catch((error: unknown) => {
        if (!(error instanceof S3Failure && DAMAGED_ON_THE_WAY.has(error.code)) || puts === TRIES) throw error;
      });
    }
    if (await holds(bucket, key, file)) return;
    logger.error({ event: 'storage_damages', objectKey: key }, 'object storage has other bytes than it was given');
    if (puts < TRIES) continue;
    // Others may refer to an object that existed before: `mds doctor` finds it.
    if (before === null) await bucket.delete(key);
    throw new AppError(
      'unavailable',
      'The object storage keeps other bytes than it is given. Nothing was kept; its operator finds the reason in the log.',
      { headers: { 'Retry-After': '60' } },
    );
  }
}

/**
 * Copies an object into a file and checks its bytes. False if there is no object.
 * @throws AppError `object_corrupt` if they are not those that were put
 */
async function copyVerified(parts: {
  bucket: S3Bucket;
  key: string;
  path: string;
  logger: Pick<Logger, 'error'>;
}): Promise<boolean> {
  for (let tries = 1; tries <= TRIES; tries++) {
    const sound = await copyOut(parts.bucket, parts.key, parts.path);
    if (sound === null) return false;
    if (sound) return true;
    const about = { event: 'object_corrupt', objectKey: parts.key, tries };
    parts.logger.error(about, 'object arrived with other bytes than were put');
  }
  throw new AppError(
    'object_corrupt',
    'The stored object is damaged: its bytes are not those that were put. Put it back from a backup, or upload the file again.',
  );
}

/** Copies an object into a file. @returns whether its bytes are those that were recorded; null if there is no object */
async function copyOut(bucket: S3Bucket, key: string, path: string): Promise<boolean | null> {
  const found = await openObject(bucket, key);
  if (found === null) return null;
  const hash = createHash('sha256');
  const hashing = async function* (source: AsyncIterable<Buffer>) {
    for await (const piece of source) {
      hash.update(piece);
      yield piece;
    }
  };
  await pipeline(found.stream, hashing, createWriteStream(path, { mode: 0o600 }));
  return found.sha256 === null || found.sha256 === hash.digest('hex');
}

/** Aborts multipart uploads that killed processes have left: they are invisible, and paid for. */
async function abortStaleUploads(bucket: S3Bucket, olderThanMs: number): Promise<void> {
  for await (const upload of bucket.listUploads()) {
    if (upload.begunAt !== null && Date.now() - upload.begunAt.getTime() >= olderThanMs)
      await bucket.abortUpload(upload);
  }
}
