import { describe, expect, it } from 'vitest';
import { parseS3Url } from './s3-location.ts';

describe('the address of a bucket', () => {
  it.each([
    ['s3://bucket', 'bucket', ''],
    ['s3://bucket/', 'bucket', ''],
    ['s3://my.Bucket_1/some/prefix/', 'my.Bucket_1', 'some/prefix/'],
  ])('%s is accepted', (url, bucket, prefix) => {
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
  ])('refuses "%s" without repeating it in the error', (url) => {
    expect(() => parseS3Url(url)).toThrow(RangeError);
    expect(() => parseS3Url(url)).not.toThrow(/secret/);
  });

  it('reports how long names must be if the name is too short', () => {
    expect(() => parseS3Url('s3://b2/p')).toThrow(/name of a bucket has 3 to 63 characters/);
  });
});
