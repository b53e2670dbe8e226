import { expect, it } from 'vitest';
import { AppError } from '../base/app-error.ts';
import { S3Failure, storageRefusal } from '../storage/s3-failure.ts';
import { notAnswering } from './open-destination.ts';

function messageFor(endpoint: string | null): string {
  const error = storageRefusal(new S3Failure('ListObjectsV2', 'ENOTFOUND', 0, null), 'read');
  if (!(error instanceof AppError)) throw error;
  return notAnswering(error, { url: 's3://media-bucket/mds', endpoint }).message;
}

it('reports the server of a storage that does not answer, and how to set another', () => {
  expect(messageFor(null)).toMatch(
    /^The destination s3:\/\/media-bucket\/mds at Amazon, as no s3_endpoint is given, does not answer .*\(ENOTFOUND\)\. A server that is not of Amazon is named by s3_endpoint/,
  );
  expect(messageFor('http://mds:s3cret@s3.internal:9000')).toMatch(
    / at http:\/\/mds:PASSWORD@s3\.internal:9000\/ does not answer/,
  );
});
