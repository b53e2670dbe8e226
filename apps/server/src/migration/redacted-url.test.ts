import { expect, it } from 'vitest';
import { redactedUrl } from './redacted-url.ts';

it('a redacted URL shows the location, and no password', () => {
  expect(redactedUrl('postgres://mds:s3cr%40t@db:5432/mds?sslmode=require')).toBe(
    'postgres://mds:PASSWORD@db:5432/mds?sslmode=require',
  );
  expect(redactedUrl('postgres:///mds?host=db&password=s3cret')).toBe('postgres:///mds?host=db&password=PASSWORD');
  expect(redactedUrl('not a url s3cret')).toBe('PASSWORD');
});
