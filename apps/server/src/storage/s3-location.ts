/** The place in S3 where a service keeps its objects. */
export interface S3Location {
  bucket: string;
  /** Prefix of every key: empty, or ending with a slash. */
  prefix: string;
}

/** S3's own rule, plus the underscores and capitals of old buckets and other servers. */
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]$/;
const PREFIX_SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;
const MAX_PREFIX_LENGTH = 400;

/** Reads `s3://bucket` or `s3://bucket/prefix`. @throws RangeError that names the mistake */
export function parseS3Url(url: string): S3Location {
  const [, bucket = '', path = ''] = /^s3:\/\/([^/]*)\/?(.*)$/s.exec(url) ?? [];
  // The value is not repeated: it may be a secret in the wrong setting.
  if (!BUCKET.test(bucket)) {
    throw new RangeError(
      'It has to be s3://bucket or s3://bucket/prefix, and nothing else. The name of a bucket has 3 to 63 characters: letters, digits, ".", "-" and "_", with a letter or a digit at both ends.',
    );
  }
  const segments = path.split('/').filter((segment) => segment !== '');
  if (path.length > MAX_PREFIX_LENGTH || !segments.every((segment) => PREFIX_SEGMENT.test(segment))) {
    throw new RangeError('The prefix may consist of letters, digits, ".", "-" and "_", between slashes.');
  }
  return { bucket, prefix: segments.map((segment) => `${segment}/`).join('') };
}
