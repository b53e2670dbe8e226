import { describe, expect, it } from 'vitest';
import { parseS3Url } from './s3-location.ts';

describe('the address of a bucket', () => {
  it.each([
    ['s3://bucket', 'bucket', ''],
    ['s3://bucket/', 'bucket', ''],
    ['s3://my.Bucket_1/some/prefix/', 'my.Bucket_1', 'some/prefix/'],
  ])('%s', (url, bucket, prefix) => {
    expect(parseS3Url(url)).toEqual({ bucket, prefix });
  });

  it.each([
    '',
    'bucket',
    'https://bucket.s3.amazonaws.com',
    's3://',
    's3:///prefix',
    's3://key:secret@bucket',
    's3://bucket?region=eu',
    's3://bucket/a/../b',
    's3://bucket/a b',
    `s3://bucket/${'a'.repeat(500)}`,
  ])('refuses "%s", and does not repeat it', (url) => {
    expect(() => parseS3Url(url)).toThrow(RangeError);
    expect(() => parseS3Url(url)).not.toThrow(/secret/);
  });

  it('says of a bucket whose name is too short how long names are', () => {
    expect(() => parseS3Url('s3://b2/p')).toThrow(/name of a bucket has 3 to 63 characters/);
  });
});
