import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AppError } from '../base/app-error.ts';
import { announcedDigests } from './body-digest.ts';

const body = Buffer.from('{"hello": "world"}\n');
const base64 = (algorithm: string, bytes: Buffer = body) => createHash(algorithm).update(bytes).digest('base64');
const sha256 = base64('sha256');
const sha512 = base64('sha512');
const other = base64('sha256', Buffer.from('other'));

/** The outcome for the body: `kept`, `unchecked` if no digest was announced, or the code of its refusal. */
function outcomeOf(headers: Record<string, string>): string {
  try {
    const digests = announcedDigests(headers);
    if (digests === null) return 'unchecked';
    digests.update(body.subarray(0, 7));
    digests.update(body.subarray(7));
    digests.check();
    return 'kept';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
}

describe('a body that differs from its announced digest is never stored', () => {
  it('accepts the SHA-256 and SHA-512 of the examples in RFC 9530', () => {
    // RFC 9530, appendix B.
    const example = { 'content-digest': 'sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:' };
    expect(outcomeOf(example)).toBe('kept');
    expect(sha256).toBe('RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=');
  });

  it.each([
    ['content-digest', `sha-256=:${sha256}:`],
    ['content-digest', `sha-512=:${sha512}:`],
    ['content-digest', `  sha-256=:${sha256}:;note=1 ,sha-512=:${sha512}:`],
    ['content-digest', `crc32c=:AAAAAA==:, sha-256=:${sha256}:, unixsum=:AAA=:`],
    ['repr-digest', `sha-256=:${sha256}:`],
    ['digest', `SHA-256=${sha256}`],
    ['digest', `sha-256=${sha256},sha-512=${sha512}`],
    ['digest', `MD5=HUXZLQLMuI/KZ5KDcJPcOA==, SHA-512=${sha512}, UNIXsum=30637`],
  ])('accepts a match in %s: %s', (field, value) => {
    expect(outcomeOf({ [field]: value })).toBe('kept');
  });

  it.each([
    ['content-digest', `sha-256=:${other}:`],
    ['repr-digest', `sha-256=:${other}:`],
    ['digest', `SHA-256=${other}`],
    // The weaker of two digests is wrong, or the second field is: all announced digests must match.
    ['content-digest', `sha-512=:${sha512}:, sha-256=:${other}:`],
    ['digest', `sha-512=${sha512},sha-256=${other}`],
    ['digest', `md5=${base64('md5')}, sha-256=${other}`],
  ])('refuses a mismatch in %s: %s', (field, value) => {
    expect(outcomeOf({ [field]: value })).toBe('content_digest_mismatch');
  });

  it('all announced digests must match', () => {
    const right = {
      'content-digest': `sha-256=:${sha256}:`,
      'repr-digest': `sha-512=:${sha512}:`,
      digest: `SHA-256=${sha256}`,
    };
    expect(outcomeOf(right)).toBe('kept');
    for (const field of ['content-digest', 'repr-digest'])
      expect(outcomeOf({ ...right, [field]: `sha-256=:${other}:` }), field).toBe('content_digest_mismatch');
    expect(outcomeOf({ ...right, digest: `SHA-256=${other}` })).toBe('content_digest_mismatch');
  });

  it.each([
    ['content-digest', `sha-256=${sha256}`],
    ['content-digest', 'sha-256=:AAAA:'],
    ['content-digest', 'sha-256'],
    ['content-digest', 'sha-256=::'],
    ['content-digest', `sha-256=:${createHash('sha256').update(body).digest('hex')}:`],
    ['content-digest', `sha-256=:${'-_'.repeat(21)}A:`],
    ['repr-digest', `sha-512=:${sha256}:`],
    ['digest', `SHA-256=:${sha256}:`],
    ['digest', 'SHA-256='],
    ['digest', `sha-512=${sha256}`],
  ])('%s: %s is refused as malformed, not ignored', (field, value) => {
    expect(outcomeOf({ [field]: value })).toBe('invalid_request');
    const error = (() => {
      try {
        return announcedDigests({ [field]: value });
      } catch (caught) {
        return caught;
      }
    })();
    const message = expect.stringMatching(
      field === 'digest' ? /^must be SHA-\d+=<base64/ : /^must be sha-\d+=:<base64/,
    );
    expect(error).toMatchObject({ issues: [{ in: 'header', path: field, message }] });
  });

  it.each([
    {},
    { 'content-digest': '' },
    { 'content-digest': 'md5=:HUXZLQLMuI/KZ5KDcJPcOA==:' },
    { 'content-digest': 'constructor=:AA==:, __proto__=:AA==:' },
    { digest: 'UNIXsum=30637' },
    { digest: 'nonsense' },
    { 'repr-digest': 'sha-384=:AAAA:' },
  ])('unknown algorithms are ignored (RFC 9530): %o', (headers) => {
    expect(outcomeOf(headers)).toBe('unchecked');
  });
});
