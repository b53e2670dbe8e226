import type * as S3 from '@aws-sdk/client-s3';
import type { Logger } from 'pino';
import { failureOf, ObjectStorageError, remedyOf, type S3Failure, storageRefusal } from './s3-failure.ts';
import type { S3Location } from './s3-location.ts';
import { createSilenceWatch, type SilenceWatch } from './s3-silence.ts';

/** Time limits in milliseconds, and the number of tries. */
export interface S3Limits {
  /** Until the head of an answer arrives. */
  requestMs: number;
  /** The same for requests that carry a part, and for the one that joins the parts. */
  uploadMs: number;
  /** Without a byte in either direction. */
  silenceMs: number;
  /** Without an answer to any request, probes included: then the storage counts as hanging, and no request waits any longer. */
  hangMs: number;
  /** Tries of a request, the first included. */
  attempts: number;
}

export interface S3Options {
  location: S3Location;
  /** A server other than AWS's own, addressed by path; null: AWS. */
  endpoint: string | null;
  /** Instead of what the SDK finds in the environment, its files and the instance's metadata. */
  access?: { region: string; credentials: { accessKeyId: string; secretAccessKey: string } };
  limits?: Partial<S3Limits>;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** Sends one request; its signal ends the request if the storage hangs. */
type Send<T> = (options: { abortSignal: AbortSignal }) => Promise<T>;

/** Sends requests to one bucket, under their time limits, and translates failures. */
export interface S3Requests {
  sdk: typeof S3;
  client: S3.S3Client;
  location: S3Location;
  limits: S3Limits;
  silence: Pick<SilenceWatch, 'onSilence'>;
  /**
   * Waits for an answer.
   * @param name as in `PutObject`
   * @param recover may turn a failure into a result; undefined: it is a failure
   */
  ask<T>(
    access: 'read' | 'write',
    name: string,
    send: Send<T>,
    recover?: (failure: S3Failure) => Promise<T | undefined> | T | undefined,
  ): Promise<T>;
  /**
   * Whether a failure means that the object does not exist. A missing bucket must not look like missing objects, which has
   * consequences; the answer to a HEAD has no body that would distinguish the two.
   */
  isMissingObject(failure: S3Failure): Promise<boolean>;
  /** @throws ObjectStorageError if the bucket cannot be used as it is set up, AppError if it does not answer */
  check(): Promise<void>;
  close(): void;
}

/** A bucket that was seen is believed to exist for this long. */
const BUCKET_SEEN_MS = 10_000;
/** The same refusal is logged at most once in this time. */
const LOG_REFUSAL_EVERY_MS = 60_000;
const DEFAULT_LIMITS: S3Limits = {
  ...{ requestMs: 30_000, uploadMs: 300_000, silenceMs: 30_000, attempts: 5 },
  // Shorter than the time that a stop gives to requests that are being answered.
  hangMs: 15_000,
};
/** Reads keep their sockets as long as their reader takes. */
const MAX_SOCKETS = 256;

/**
 * Loads the AWS SDK, which no process pays for without S3, and opens {@link S3Requests}.
 * @throws ObjectStorageError if no region can be found
 */
export async function openS3Requests(options: S3Options): Promise<S3Requests> {
  const { location, logger } = options;
  const { bucket: Bucket, prefix } = location;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  // The SDK reads this from the environment alone, while it loads; it is not one of our settings. It warns of Node versions that later
  // releases will not support, and the release in use is pinned.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  const sdk = await import('@aws-sdk/client-s3');
  const client = await openClient(sdk, { ...options, limits });
  const probing = await openClient(sdk, { ...options, limits: { ...limits, attempts: 1 }, keepAlive: false });
  const logRefusal = createRefusalLog(Bucket, logger);
  let bucketSeenAt = Number.NEGATIVE_INFINITY;

  const silence = createSilenceWatch({
    silentMs: limits.hangMs,
    probe: (abortSignal) =>
      probing.send(new sdk.HeadBucketCommand({ Bucket }), { abortSignal }).then(
        () => true,
        (error: unknown) => failureOf(error, 'HeadBucket').status > 0,
      ),
    onChange(silent) {
      if (silent) logger.error({ event: 'storage_silent', bucket: Bucket }, 'object storage answers nobody');
      else logger.info({ bucket: Bucket }, 'object storage answers again');
    },
  });

  const ask: S3Requests['ask'] = async (access, name, send, recover) => {
    try {
      return await silence.during(name, (abortSignal) => send({ abortSignal }));
    } catch (error) {
      const failure = failureOf(error, name);
      const result = await recover?.(failure);
      if (result !== undefined) return result;
      logRefusal(failure);
      throw storageRefusal(failure, access);
    }
  };

  const listOne: Send<unknown> = (sending) =>
    client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix: prefix, MaxKeys: 1 }), sending);

  return {
    ...{ sdk, client, location, limits, silence, ask },

    async isMissingObject({ status, code }) {
      if (status !== 404 || code === 'NoSuchBucket') return false;
      if (code !== 'NoSuchKey' && performance.now() - bucketSeenAt > BUCKET_SEEN_MS) {
        await ask('read', 'ListObjectsV2', listOne);
        bucketSeenAt = performance.now();
      }
      return true;
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
      probing.destroy();
    },
  };
}

/** Logs what an operator has to do about refusals: callers see no details. */
function createRefusalLog(bucket: string, logger: Pick<Logger, 'error'>): (failure: S3Failure) => void {
  const loggedAt = new Map<string, number>();
  return (failure) => {
    const remedy = remedyOf(failure);
    const last = loggedAt.get(failure.code) ?? Number.NEGATIVE_INFINITY;
    if (remedy === null || performance.now() - last < LOG_REFUSAL_EVERY_MS) return;
    loggedAt.set(failure.code, performance.now());
    logger.error({ event: 'storage_refused', bucket, err: failure }, remedy);
  };
}

async function openClient(
  sdk: typeof S3,
  options: Omit<S3Options, 'limits'> & { limits: S3Limits; keepAlive?: boolean },
): Promise<S3.S3Client> {
  const { endpoint, access, limits, keepAlive = true, logger } = options;
  const open = (region: string | undefined) =>
    new sdk.S3Client({
      ...access,
      ...(region === undefined ? {} : { region }),
      // Most other servers support neither buckets as host names nor checksums after the body; some store those as content.
      ...(endpoint === null
        ? {}
        : {
            ...{ endpoint, forcePathStyle: true },
            requestChecksumCalculation: 'WHEN_REQUIRED' as const,
            responseChecksumValidation: 'WHEN_REQUIRED' as const,
          }),
      retryMode: 'standard',
      maxAttempts: limits.attempts,
      // With it, every part would need a connection of its own.
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
    // For other servers the region is hardly more than a word in the signature.
    if (endpoint !== null) return open('us-east-1');
    throw new ObjectStorageError('Set AWS_REGION to the region of the bucket.', { cause: error });
  }
}
