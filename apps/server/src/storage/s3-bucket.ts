import { Readable } from 'node:stream';
import type * as S3 from '@aws-sdk/client-s3';
import { S3Failure, storageRefusal } from './s3-failure.ts';
import { openS3Requests, type S3Options, type S3Requests } from './s3-requests.ts';

/** The facts that S3 returns about an object. */
export interface S3Head {
  bytes: number;
  etag: string;
  /** Recorded with the object when it was put; null if another program put it. */
  sha256: string | null;
}

/** A multipart upload in progress. */
export interface S3Upload {
  key: string;
  uploadId: string;
}

/**
 * A bucket, or what is below a prefix of it, in the terms of S3. Every request has time limits and is retried, after pauses of random
 * length, if the failure may pass. Errors are AppErrors as `storageRefusal` returns them, or S3Failure.
 */
export interface S3Bucket {
  head(key: string): Promise<S3Head | null>;
  /**
   * An object, or the part of the range that exists, which may be empty; null if there is no object. The body may break off.
   * @param options.etag only while the object is this one, else S3Failure `PreconditionFailed`
   */
  get(key: string, options: S3Range): Promise<S3Answer | null>;
  put(key: string, body: Buffer, sha256: string): Promise<void>;
  beginUpload(key: string, sha256: string): Promise<S3Upload>;
  /** @returns the part's entity tag */
  putPart(upload: S3Upload, number: number, body: Buffer): Promise<string>;
  completeUpload(upload: S3Upload, etags: readonly string[]): Promise<void>;
  /** No error if it is over. */
  abortUpload(upload: S3Upload): Promise<void>;
  listUploads(): AsyncIterable<S3Upload & { begunAt: Date | null }>;
  delete(key: string): Promise<void>;
  list(prefix: string): AsyncIterable<{ key: string; bytes: number }>;
  /** @throws ObjectStorageError if it cannot be used as it is set up, AppError if it does not answer */
  check(): Promise<void>;
  close(): void;
}

/** The range to read of an object. `end` is inclusive; null: to the end. */
interface S3Range {
  start: number;
  end: number | null;
  etag: string | null;
}

/** The beginning of an answer to `get`. */
export interface S3Answer {
  body: Readable;
  /** Length that the body will have. */
  bytes: number;
  etag: string;
  sha256: string | null;
}

/** Opens an {@link S3Bucket}. @throws ObjectStorageError if no region can be found */
export async function openS3Bucket(options: S3Options): Promise<S3Bucket> {
  const requests = await openS3Requests(options);
  const { check, close } = requests;
  return { ...objectsOf(requests), ...uploadsOf(requests), ...listsOf(requests), check, close };
}

/** Single objects. */
function objectsOf(requests: S3Requests): Pick<S3Bucket, 'head' | 'get' | 'put' | 'delete'> {
  const { sdk, client, location, limits, ask, isMissingObject } = requests;
  const addressOf = (key: string) => ({ Bucket: location.bucket, Key: location.prefix + key });
  return {
    async head(key) {
      const found = await ask<S3.HeadObjectCommandOutput | null>(
        'read',
        'HeadObject',
        (options) => client.send(new sdk.HeadObjectCommand(addressOf(key)), options),
        async (failure) => ((await isMissingObject(failure)) ? null : undefined),
      );
      if (found === null) return null;
      const { ContentLength, ETag, Metadata } = found;
      if (ContentLength === undefined) throw new S3Failure('HeadObject', 'NoContentLength', 200, null);
      return { bytes: ContentLength, etag: ETag ?? '', sha256: Metadata?.sha256 ?? null };
    },

    async get(key, range) {
      const { start, end, etag } = range;
      const command = new sdk.GetObjectCommand({
        ...addressOf(key),
        ...(isPartial(range) ? { Range: `bytes=${start}-${end ?? ''}` } : {}),
        ...(etag === null ? {} : { IfMatch: etag }),
      });
      const answer = await ask<S3.GetObjectCommandOutput | 'none' | 'beyond'>(
        'read',
        'GetObject',
        (options) => client.send(command, options),
        async (failure) => {
          if (failure.status === 416) return 'beyond';
          return (await isMissingObject(failure)) ? 'none' : undefined;
        },
      );
      if (answer === 'none') return null;
      if (answer === 'beyond') return { body: Readable.from([]), bytes: 0, etag: '', sha256: null };
      const checked = checkAnswer(answer, range);
      const { body } = checked;
      const cut = () => body.destroy(new S3Failure('GetObject', 'Silent', 0, null));
      body.once('close', requests.silence.onSilence(cut));
      return checked;
    },

    async put(key, body, sha256) {
      const command = new sdk.PutObjectCommand({
        ...addressOf(key),
        ...{ Body: body, ContentLength: body.length, Metadata: { sha256 } },
      });
      await ask('write', 'PutObject', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
    },

    async delete(key) {
      const command = new sdk.DeleteObjectCommand(addressOf(key));
      await ask<unknown>(
        'write',
        'DeleteObject',
        (options) => client.send(command, options),
        ({ code }) => (code === 'NoSuchKey' ? null : undefined),
      );
    },
  };
}

function isPartial({ start, end }: S3Range): boolean {
  return start > 0 || end !== null;
}

/** Checks that an answer is about the range and the object that were asked for. @throws what {@link storageRefusal} returns if it is not */
function checkAnswer(answer: S3.GetObjectCommandOutput, range: S3Range): S3Answer {
  const { start, end, etag } = range;
  const body = answer.Body as Readable | undefined;
  if (body === undefined) throw new S3Failure('GetObject', 'NoBody', 200, null);
  const refuse = (code: string) => {
    body.on('error', () => undefined).destroy();
    return storageRefusal(new S3Failure('GetObject', code, 0, null), 'read');
  };
  const bytes = answer.ContentLength;
  if (bytes === undefined) throw refuse('NoContentLength');
  if (isPartial(range) && answer.ContentRange !== undefined) {
    const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(answer.ContentRange) ?? [];
    const asked = Number(first) === start && (end === null || Number(last) <= end);
    if (!asked || bytes !== Number(last) - start + 1) throw refuse('OtherRange');
  } else if (isPartial(range) && (start > 0 || end === null || bytes > end + 1)) throw refuse('RangeIgnored');
  // Not every server heeds If-Match.
  if (etag !== null && answer.ETag !== etag) throw refuse('ChangedMeanwhile');
  return { body, bytes, etag: answer.ETag ?? '', sha256: answer.Metadata?.sha256 ?? null };
}

/** Multipart uploads. */
function uploadsOf(
  requests: S3Requests,
): Pick<S3Bucket, 'beginUpload' | 'putPart' | 'completeUpload' | 'abortUpload' | 'listUploads'> {
  const { sdk, client, location, limits, ask } = requests;
  const { bucket: Bucket, prefix } = location;
  const addressOf = ({ key, uploadId }: S3Upload) => ({ Bucket, Key: prefix + key, UploadId: uploadId });
  return {
    async beginUpload(key, sha256) {
      const command = new sdk.CreateMultipartUploadCommand({ Bucket, Key: prefix + key, Metadata: { sha256 } });
      const { UploadId } = await ask('write', 'CreateMultipartUpload', (options) => client.send(command, options));
      if (UploadId === undefined) throw new S3Failure('CreateMultipartUpload', 'NoUploadId', 200, null);
      return { key, uploadId: UploadId };
    },

    async putPart(upload, number, body) {
      const command = new sdk.UploadPartCommand({
        ...addressOf(upload),
        ...{ PartNumber: number, Body: body, ContentLength: body.length },
      });
      const { ETag } = await ask('write', 'UploadPart', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
      if (ETag === undefined) throw new S3Failure('UploadPart', 'NoETag', 200, null);
      return ETag;
    },

    async completeUpload(upload, etags) {
      const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
      const command = new sdk.CompleteMultipartUploadCommand({ ...addressOf(upload), MultipartUpload: { Parts } });
      await ask('write', 'CompleteMultipartUpload', (options) =>
        client.send(command, { ...options, requestTimeout: limits.uploadMs }),
      );
    },

    async abortUpload(upload) {
      const command = new sdk.AbortMultipartUploadCommand(addressOf(upload));
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
  };
}

function listsOf({ sdk, client, location, ask }: S3Requests): Pick<S3Bucket, 'list'> {
  const { bucket: Bucket, prefix } = location;
  return {
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
        // Half a list is worse than none: objects that it lacks would look lost.
        if (page.IsTruncated && (next === undefined || next === token)) {
          throw new S3Failure('ListObjectsV2', 'NoContinuation', 200, null);
        }
        token = next;
      } while (token !== undefined);
    },
  };
}
