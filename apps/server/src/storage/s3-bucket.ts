import { Readable } from 'node:stream';
import type * as S3 from '@aws-sdk/client-s3';
import type { Logger } from 'pino';
import { failureOf, ObjectStorageError, remedyOf, S3Failure, storageRefusal } from './s3-failure.ts';
import type { S3Location } from './s3-location.ts';
import { createSilenceWatch } from './s3-silence.ts';

/** What S3 says of an object. */
export interface S3Head {
  bytes: number;
  etag: string;
  /** Recorded with it when it was put; null where somebody else put it. */
  sha256: string | null;
}

/** An upload in parts that is under way. */
export interface S3Upload {
  key: string;
  uploadId: string;
}

/** Time limits in milliseconds, and how often a request is tried. */
export interface S3Limits {
  /** Until the head of an answer is there. */
  requestMs: number;
  /** The same for requests that carry a part, and for the one that joins the parts. */
  uploadMs: number;
  /** Without a byte in either direction. */
  silenceMs: number;
  /** Without an answer to anybody, the storage being asked all the time: it is taken to hang then, and nobody waits any longer. */
  hangMs: number;
  /** How often a request is tried, the first time included. */
  attempts: number;
}

/**
 * A bucket, or what is below a prefix of it, in S3's own words; every request has its time limits, and what may pass is tried
 * again, with pauses of random length. Errors are AppErrors as `storageRefusal` gives them, or S3Failure.
 */
export interface S3Bucket {
  head(key: string): Promise<S3Head | null>;
  /**
   * An object, or what of the range is in it, which may be nothing; null where there is no object. The body may break off.
   * @param options.etag only while the object is this one, else S3Failure `PreconditionFailed`
   */
  get(key: string, options: { start: number; end: number | null; etag: string | null }): Promise<S3Answer | null>;
  put(key: string, body: Buffer, sha256: string): Promise<void>;
  beginUpload(key: string, sha256: string): Promise<S3Upload>;
  /** @returns the part's entity tag */
  putPart(upload: S3Upload, number: number, body: Buffer): Promise<string>;
  completeUpload(upload: S3Upload, etags: readonly string[]): Promise<void>;
  /** No error where it is over. */
  abortUpload(upload: S3Upload): Promise<void>;
  listUploads(): AsyncIterable<S3Upload & { begunAt: Date | null }>;
  delete(key: string): Promise<void>;
  list(prefix: string): AsyncIterable<{ key: string; bytes: number }>;
  /** @throws ObjectStorageError where it cannot be used as it is set up, AppError where it does not answer */
  check(): Promise<void>;
  close(): void;
}

/** The beginning of an answer to `get`. */
export interface S3Answer {
  body: Readable;
  /** That the body is going to have. */
  bytes: number;
  etag: string;
  sha256: string | null;
}

/** How long a bucket that was there is believed to be. */
const BUCKET_SEEN_MS = 10_000;
/** How often the log is told of the same refusal. */
const TELL_EVERY_MS = 60_000;
const DEFAULT_LIMITS: S3Limits = {
  ...{ requestMs: 30_000, uploadMs: 300_000, silenceMs: 30_000, attempts: 5 },
  // Less than a stop lets requests that are being answered take.
  hangMs: 15_000,
};
/** Reads keep theirs as long as their reader takes. */
const MAX_SOCKETS = 256;

/**
 * Loads the AWS SDK, which only those pay for who use S3, and makes an {@link S3Bucket} of it.
 * @param options.endpoint of another server than AWS's own, which is addressed by path; null: AWS
 * @param options.access instead of what the SDK finds in the environment, its files and the instance's metadata
 * @throws ObjectStorageError where no region can be found
 */
export async function openS3Bucket(options: {
  location: S3Location;
  endpoint: string | null;
  access?: { region: string; credentials: { accessKeyId: string; secretAccessKey: string } };
  limits?: Partial<S3Limits>;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}): Promise<S3Bucket> {
  const { logger } = options;
  const { bucket: Bucket, prefix } = options.location;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  // Not a setting of ours, which only config.ts reads: the SDK takes this by the environment alone, while it is loaded. It warns of
  // Node versions that its releases to come will not run on; which release runs here is pinned.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  const sdk = await import('@aws-sdk/client-s3');
  const client = await openClient(sdk, { ...options, limits });
  const fresh = await openClient(sdk, { ...options, limits: { ...limits, attempts: 1 }, keepAlive: false });
  const told = new Map<string, number>();
  let bucketSeenAt = Number.NEGATIVE_INFINITY;

  /** Those who ask see no details, so the operator is told of them here. */
  const tell = (failure: S3Failure) => {
    const remedy = remedyOf(failure);
    const last = told.get(failure.code) ?? Number.NEGATIVE_INFINITY;
    if (remedy === null || performance.now() - last < TELL_EVERY_MS) return;
    told.set(failure.code, performance.now());
    logger.error({ event: 'storage_refused', bucket: Bucket, err: failure }, remedy);
  };

  const silence = createSilenceWatch({
    silentMs: limits.hangMs,
    ask: (abortSignal) =>
      fresh.send(new sdk.HeadBucketCommand({ Bucket }), { abortSignal }).then(
        () => true,
        (error: unknown) => failureOf(error, 'HeadBucket').status > 0,
      ),
    onChange(silent) {
      if (silent) logger.error({ event: 'storage_silent', bucket: Bucket }, 'the object storage answers nobody');
      else logger.info({ bucket: Bucket }, 'the object storage answers again');
    },
  });

  /** Waits for an answer. `expected` may make a result of a failure; undefined: it is one. */
  const ask = async <T>(
    access: 'read' | 'write',
    name: string,
    send: (options: { abortSignal: AbortSignal }) => Promise<T>,
    expected?: (failure: S3Failure) => Promise<T | undefined> | T | undefined,
  ): Promise<T> => {
    try {
      return await silence.during(name, (abortSignal) => send({ abortSignal }));
    } catch (error) {
      const failure = failureOf(error, name);
      const result = await expected?.(failure);
      if (result !== undefined) return result;
      tell(failure);
      throw storageRefusal(failure, access);
    }
  };

  const listOne = (options: { abortSignal: AbortSignal }) =>
    client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix: prefix, MaxKeys: 1 }), options);

  /**
   * What "not found" means: a bucket that is gone must not look like objects that are gone, for which there are consequences.
   * The answer to a HEAD has no body that would tell them apart.
   */
  const missing = async ({ status, code }: S3Failure): Promise<boolean> => {
    if (status !== 404 || code === 'NoSuchBucket') return false;
    if (code !== 'NoSuchKey' && performance.now() - bucketSeenAt > BUCKET_SEEN_MS) {
      await ask('read', 'ListObjectsV2', listOne);
      bucketSeenAt = performance.now();
    }
    return true;
  };

  return {
    async head(key) {
      const found = await ask<S3.HeadObjectCommandOutput | null>(
        'read',
        'HeadObject',
        (options) => client.send(new sdk.HeadObjectCommand({ Bucket, Key: prefix + key }), options),
        async (failure) => ((await missing(failure)) ? null : undefined),
      );
      if (found === null) return null;
      const { ContentLength, ETag, Metadata } = found;
      if (ContentLength === undefined) throw new S3Failure('HeadObject', 'NoContentLength', 200, null);
      return { bytes: ContentLength, etag: ETag ?? '', sha256: Metadata?.sha256 ?? null };
    },

    async get(key, { start, end, etag }) {
      const isRange = start > 0 || end !== null;
      const command = new sdk.GetObjectCommand({
        Bucket,
        Key: prefix + key,
        ...(isRange ? { Range: `bytes=${start}-${end ?? ''}` } : {}),
        ...(etag === null ? {} : { IfMatch: etag }),
      });
      const answer = await ask<S3.GetObjectCommandOutput | 'none' | 'beyond'>(
        'read',
        'GetObject',
        (options) => client.send(command, options),
        async (failure) => {
          if (failure.status === 416) return 'beyond';
          return (await missing(failure)) ? 'none' : undefined;
        },
      );
      if (answer === 'none') return null;
      if (answer === 'beyond') return { body: Readable.from([]), bytes: 0, etag: '', sha256: null };
      const body = answer.Body as Readable | undefined;
      if (body === undefined) throw new S3Failure('GetObject', 'NoBody', 200, null);
      const bytes = answer.ContentLength;
      const refuse = (code: string) => {
        body.on('error', () => undefined).destroy();
        return storageRefusal(new S3Failure('GetObject', code, 0, null), 'read');
      };
      if (bytes === undefined) throw refuse('NoContentLength');
      if (isRange && answer.ContentRange !== undefined) {
        const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(answer.ContentRange) ?? [];
        const asked = Number(first) === start && (end === null || Number(last) <= end);
        if (!asked || bytes !== Number(last) - start + 1) throw refuse('OtherRange');
      } else if (isRange && (start > 0 || end === null || bytes > end + 1)) throw refuse('RangeIgnored');
      // Not every server heeds If-Match.
      if (etag !== null && answer.ETag !== etag) throw refuse('ChangedMeanwhile');
      body.once(
        'close',
        silence.onSilence(() => body.destroy(new S3Failure('GetObject', 'Silent', 0, null))),
      );
      return { body, bytes, etag: answer.ETag ?? '', sha256: answer.Metadata?.sha256 ?? null };
    },

    async put(key, body, sha256) {
      const command = new sdk.PutObjectCommand({
        ...{ Bucket, Key: prefix + key, Body: body, ContentLength: body.length },
        Metadata: { sha256 },
      });
      await ask('write', 'PutObject', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
    },

    async beginUpload(key, sha256) {
      const command = new sdk.CreateMultipartUploadCommand({ Bucket, Key: prefix + key, Metadata: { sha256 } });
      const { UploadId } = await ask('write', 'CreateMultipartUpload', (options) => client.send(command, options));
      if (UploadId === undefined) throw new S3Failure('CreateMultipartUpload', 'NoUploadId', 200, null);
      return { key, uploadId: UploadId };
    },

    async putPart({ key, uploadId }, number, body) {
      const command = new sdk.UploadPartCommand({
        ...{ Bucket, Key: prefix + key, UploadId: uploadId, PartNumber: number },
        ...{ Body: body, ContentLength: body.length },
      });
      const { ETag } = await ask('write', 'UploadPart', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
      if (ETag === undefined) throw new S3Failure('UploadPart', 'NoETag', 200, null);
      return ETag;
    },

    async completeUpload({ key, uploadId }, etags) {
      const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
      const command = new sdk.CompleteMultipartUploadCommand({
        ...{ Bucket, Key: prefix + key, UploadId: uploadId },
        MultipartUpload: { Parts },
      });
      await ask('write', 'CompleteMultipartUpload', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
    },

    async abortUpload({ key, uploadId }) {
      const command = new sdk.AbortMultipartUploadCommand({ Bucket, Key: prefix + key, UploadId: uploadId });
      await ask<unknown>(
        'write',
        'AbortMultipartUpload',
        (options) => client.send(command, options),
        ({ code }) => (code === 'NoSuchUpload' ? null : undefined),
      );
    },

    async *listUploads() {
      let after: { KeyMarker?: string; UploadIdMarker?: string } = {};
      for (;;) {
        const command = new sdk.ListMultipartUploadsCommand({ Bucket, Prefix: prefix, ...after });
        const page = await ask('read', 'ListMultipartUploads', (options) => client.send(command, options));
        for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
          if (Key === undefined || UploadId === undefined || !Key.startsWith(prefix)) continue;
          yield { key: Key.slice(prefix.length), uploadId: UploadId, begunAt: Initiated ?? null };
        }
        const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = page;
        if (!IsTruncated || NextKeyMarker === undefined || NextUploadIdMarker === undefined) return;
        if (NextKeyMarker === after.KeyMarker && NextUploadIdMarker === after.UploadIdMarker) return;
        after = { KeyMarker: NextKeyMarker, UploadIdMarker: NextUploadIdMarker };
      }
    },

    async delete(key) {
      const command = new sdk.DeleteObjectCommand({ Bucket, Key: prefix + key });
      await ask<unknown>(
        'write',
        'DeleteObject',
        (options) => client.send(command, options),
        ({ code }) => (code === 'NoSuchKey' ? null : undefined),
      );
    },

    async *list(below) {
      let token: string | undefined;
      do {
        const command = new sdk.ListObjectsV2Command({ Bucket, Prefix: prefix + below, ContinuationToken: token });
        const page: S3.ListObjectsV2CommandOutput = await ask('read', 'ListObjectsV2', (options) =>
          client.send(command, options),
        );
        for (const { Key, Size } of page.Contents ?? []) {
          if (Key?.startsWith(prefix)) yield { key: Key.slice(prefix.length), bytes: Size ?? 0 };
        }
        const next = page.IsTruncated ? page.NextContinuationToken : undefined;
        // Half a list is worse than none: what is not in it looks lost.
        if (page.IsTruncated && (next === undefined || next === token)) {
          throw new S3Failure('ListObjectsV2', 'NoContinuation', 200, null);
        }
        token = next;
      } while (token !== undefined);
    },

    async check() {
      try {
        await silence.during('ListObjectsV2', (abortSignal) => listOne({ abortSignal }));
        bucketSeenAt = performance.now();
      } catch (error) {
        const failure = failureOf(error, 'ListObjectsV2');
        const remedy = remedyOf(failure);
        if (remedy !== null) throw new ObjectStorageError(remedy, { cause: failure });
        throw storageRefusal(failure, 'read');
      }
    },

    close() {
      silence.close();
      client.destroy();
      fresh.destroy();
    },
  };
}

async function openClient(
  sdk: typeof S3,
  options: Omit<Parameters<typeof openS3Bucket>[0], 'limits'> & { limits: S3Limits; keepAlive?: boolean },
): Promise<S3.S3Client> {
  const { endpoint, access, limits, keepAlive = true, logger } = options;
  const open = (region: string | undefined) =>
    new sdk.S3Client({
      ...access,
      ...(region === undefined ? {} : { region }),
      // Those who are not AWS mostly know neither buckets as host names nor checksums after the body, and some keep those as content.
      ...(endpoint === null
        ? {}
        : {
            ...{ endpoint, forcePathStyle: true },
            requestChecksumCalculation: 'WHEN_REQUIRED' as const,
            responseChecksumValidation: 'WHEN_REQUIRED' as const,
          }),
      retryMode: 'standard',
      maxAttempts: limits.attempts,
      // It costs every part a connection of its own.
      expectContinueHeader: false,
      requestHandler: {
        connectionTimeout: Math.min(5_000, limits.requestMs),
        requestTimeout: limits.requestMs,
        throwOnRequestTimeout: true,
        socketTimeout: limits.silenceMs,
        httpAgent: { keepAlive, maxSockets: MAX_SOCKETS },
        httpsAgent: { keepAlive, maxSockets: MAX_SOCKETS },
        logger: { ...console, warn: (message: string) => logger.warn({ message }, 'the AWS SDK warns') },
      },
    });
  const client = open(undefined);
  try {
    await client.config.region();
    return client;
  } catch (error) {
    client.destroy();
    // Elsewhere it is hardly ever more than a word in the signature.
    if (endpoint !== null) return open('us-east-1');
    throw new ObjectStorageError('Set AWS_REGION to the region of the bucket.', { cause: error });
  }
}
