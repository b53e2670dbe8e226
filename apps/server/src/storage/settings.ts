import { httpUrl, optional, parsedBy, type SettingsOf, setting } from '../base/settings.ts';
import { parseS3Url } from './s3-location.ts';

/** Its errors do not repeat the address, as keys are put there by mistake. */
const bucketUrl = parsedBy(
  (text) => {
    const { bucket, prefix } = parseS3Url(text);
    return `s3://${bucket}/${prefix}`.replace(/\/$/, '');
  },
  RangeError,
  (reason) =>
    `must be a bucket, and perhaps a prefix in it: ${reason} Keys are given by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
);

export const storageSettings = {
  /** `s3://bucket/prefix`; null: the data folder. */
  storageUrl: setting('MDS_STORAGE_URL', optional(bucketUrl)),
  /** An S3 server other than Amazon's. */
  s3Endpoint: setting('MDS_S3_ENDPOINT', optional(httpUrl)),
};
export type StorageSettings = SettingsOf<typeof storageSettings>;

/** Conflicts between these settings, each with a fix. */
export function storageConflicts({ storageUrl, s3Endpoint }: StorageSettings): string[] {
  if (s3Endpoint === null || storageUrl !== null) return [];
  return [
    'MDS_S3_ENDPOINT: names an S3 server, but not the bucket to use. Set MDS_STORAGE_URL to s3://bucket/prefix, or leave this out',
  ];
}
