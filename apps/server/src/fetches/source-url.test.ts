import { describe, expect, it } from 'vitest';
import { createAddressFilter } from './address-filter.ts';
import { SourceError } from './source-error.ts';
import { sourceUrlOf } from './source-url.ts';

const refusalOf = (text: string): SourceError | null => {
  try {
    sourceUrlOf(text);
    return null;
  } catch (error) {
    if (error instanceof SourceError) return error;
    throw error;
  }
};

describe('fault 9: allowed URLs of a source', () => {
  it.each([
    ['file:///etc/passwd', /scheme file:/],
    ['ftp://example.org/a.png', /scheme ftp:/],
    ['gopher://example.org:70/1', /scheme gopher:/],
    ['data:image/png;base64,AAAA', /scheme data:/],
    ['javascript:alert(1)', /scheme javascript:/],
    ['http://user:pass@example.org/', /user name or a password/],
    ['http://user@example.org/', /user name or a password/],
    ['http://example.org:22/', /port 22/],
    ['https://example.org:25/', /port 25/],
    ['http://', /not a URL/],
    ['/relative', /not a URL/],
    ['http://[::1', /not a URL/],
    ['http://300.1.1.1/', /not a URL/],
    ['http://127.0.0.1:99999/', /not a URL/],
  ])('%s is refused with the reason', (text, why) => {
    expect(refusalOf(text)).toMatchObject({
      code: 'source_not_allowed',
      status: 422,
      message: expect.stringMatching(why),
    });
  });

  it('the refusal contains no part of a password', () => {
    expect(refusalOf('http://user:hunter2@example.org/')?.message).not.toMatch(/user:|hunter2|example/);
    expect(refusalOf('http://user:hunter2@[')?.message).not.toContain('hunter2');
  });

  it.each([
    ['http://2130706433/', '127.0.0.1'],
    ['http://0x7f000001/', '127.0.0.1'],
    ['http://0177.0.0.1/', '127.0.0.1'],
    ['http://127.1/', '127.0.0.1'],
    ['http://127.0.0.1./', '127.0.0.1'],
    ['http://①②⑦.0.0.1/', '127.0.0.1'],
    ['http://%31%32%37.0.0.1/', '127.0.0.1'],
    ['http://0/', '0.0.0.0'],
    ['http://[::ffff:127.0.0.1]/', '::ffff:7f00:1'],
    ['http://[0:0:0:0:0:0:0:1]/', '::1'],
    ['http://169.254.43518/', '169.254.169.254'],
  ])('%s is read as the address that it spells, and refused', (text, address) => {
    const { hostname } = sourceUrlOf(text);
    const bare = hostname.replace(/^\[(.*)\]$/, '$1');
    expect(bare).toBe(address);
    expect(createAddressFilter([]).permits(bare, bare)).toBe(false);
  });
});
