import { describe, expect, it } from 'vitest';
import { readUploadMetadata } from './upload-metadata.ts';

const HEX = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';
const BASE64 = Buffer.from(HEX, 'hex').toString('base64');

describe('the metadata of an upload', () => {
  it('may contain unknown keys, and every known key has a default', () => {
    const defaults = { filename: null, duplicate: 'existing', idempotencyKey: null, expectedSha256: null };
    expect(readUploadMetadata({})).toEqual(defaults);
    expect(readUploadMetadata({ filetype: 'image/png', relativePath: null, checksum: '' })).toEqual(defaults);
  });

  it('contains the file name under the key of plain clients or of Uppy', () => {
    expect(readUploadMetadata({ filename: 'a.png', name: 'b.png' }).filename).toBe('a.png');
    expect(readUploadMetadata({ name: 'b.png' }).filename).toBe('b.png');
  });

  it.each([HEX, HEX.toUpperCase(), `sha256 ${BASE64}`])('accepts the checksum %s', (checksum) => {
    expect(readUploadMetadata({ checksum }).expectedSha256).toBe(HEX);
  });

  it.each([
    ['checksum', HEX.slice(1)],
    ['checksum', `${HEX}0`],
    ['checksum', `sha1 ${BASE64}`],
    ['checksum', `sha256 ${BASE64.slice(4)}`],
    ['checksum', `sha256 ${BASE64.replace('=', 'A')}`],
    ['checksum', `sha256  ${BASE64}`],
    ['duplicate', 'never'],
    ['idempotency_key', 'k'.repeat(256)],
  ])('is refused with the name of the bad key: %s %s', (key, value) => {
    expect(() => readUploadMetadata({ [key]: value })).toThrowError(
      expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(key) }),
    );
  });
});
