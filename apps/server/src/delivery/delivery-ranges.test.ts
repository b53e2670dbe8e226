import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DeliveryFixture, type FixtureAnswer, pattern, sha256, startDelivery } from './delivery.fixture.ts';

const MIB = 1024 * 1024;
const size = 3 * MIB + 77;
const content = pattern(size, 9);
const empty = { name: 'empty', extension: 'webp', contentType: 'image/webp', content: Buffer.alloc(0) };
const video = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content };
const etag = `"${sha256(content)}"`;

/** Parses multipart/byteranges (RFC 9110, 14.6). Fails on any other byte. */
function parts({ headers, body }: FixtureAnswer): { range: string; type: string; bytes: Buffer }[] {
  const boundary = /^multipart\/byteranges; boundary=([\w-]{1,70})$/.exec(headers['content-type'] ?? '')?.[1];
  if (!boundary) throw new Error(`No boundary in ${headers['content-type']}`);
  const found: { range: string; type: string; bytes: Buffer }[] = [];
  let at = 0;
  const take = (text: string) => {
    expect(body.subarray(at, at + text.length).toString()).toBe(text);
    at += text.length;
  };
  for (;;) {
    take(`${found.length === 0 ? '' : '\r\n'}--${boundary}`);
    if (body.subarray(at, at + 2).toString() === '--') break;
    take('\r\n');
    const end = body.indexOf('\r\n\r\n', at);
    const head = body.subarray(at, end).toString();
    at = end + 4;
    const [, type = '', start = '', last = ''] =
      /^Content-Type: (.+)\r\nContent-Range: bytes (\d+)-(\d+)\/\d+$/.exec(head) ?? [];
    const length = Number(last) - Number(start) + 1;
    found.push({ range: `${start}-${last}`, type, bytes: body.subarray(at, at + length) });
    at += length;
  }
  take('--\r\n');
  expect(at).toBe(body.length);
  return found;
}

describe.each([
  { tier: 'memory', memoryCacheBytes: 64 * MIB },
  { tier: 'the store, as it is too large for memory', memoryCacheBytes: 8 * MIB },
])('ranges of a video from $tier', ({ memoryCacheBytes }) => {
  let house: DeliveryFixture;
  let path: string;
  let emptyPath: string;
  beforeAll(async () => {
    house = await startDelivery({ memoryCacheBytes });
    const id = await house.addMedia([video, empty]);
    path = `/media/${id}/mp4.mp4`;
    emptyPath = `/media/${id}/empty.webp`;
  });
  afterAll(() => house.close());

  it('a request without a range returns all bytes', async () => {
    const { status, headers, body } = await house.get(path);
    expect([status, headers['content-length'], headers['accept-ranges']]).toEqual([200, String(size), 'bytes']);
    expect(body.equals(content)).toBe(true);
  });

  it.each<[string, number, number]>([
    ['bytes=0-', 0, size - 1],
    ['bytes=0-0', 0, 0],
    ['bytes=1000-1999', 1000, 1999],
    [`bytes=${MIB - 1}-${2 * MIB}`, MIB - 1, 2 * MIB],
    ['bytes=-100', size - 100, size - 1],
    [`bytes=${size - 1}-`, size - 1, size - 1],
    [`bytes=5-${size * 9}`, 5, size - 1],
    ['bytes=0-9,5-20', 0, 20],
  ])('%s returns exactly these bytes, so that a player can seek', async (range, start, end) => {
    const { status, headers, body } = await house.get(path, { range });
    expect(status).toBe(206);
    expect(headers).toMatchObject({
      'content-range': `bytes ${start}-${end}/${size}`,
      'content-length': String(end - start + 1),
      'content-type': 'video/mp4',
      etag,
      'cache-control': 'public, max-age=300, stale-while-revalidate=60',
      'access-control-allow-origin': '*',
    });
    expect(body.equals(content.subarray(start, end + 1))).toBe(true);
  });

  it('several ranges are sent as parts, in the order requested, with the exact length', async () => {
    const range = `bytes=2000000-2000009,0-4,-3,${size}-`;
    const answer = await house.get(path, { range });
    expect(answer.status).toBe(206);
    expect(answer.headers['content-range']).toBeUndefined();
    expect(answer.headers['content-length']).toBe(String(answer.body.length));
    expect(answer.headers.etag).toBe(etag);
    const got = parts(answer);
    expect(got.map(({ range, type }) => [range, type])).toEqual([
      ['2000000-2000009', 'video/mp4'],
      ['0-4', 'video/mp4'],
      [`${size - 3}-${size - 1}`, 'video/mp4'],
    ]);
    expect(Buffer.concat(got.map(({ bytes }) => bytes))).toEqual(
      Buffer.concat([content.subarray(2_000_000, 2_000_010), content.subarray(0, 5), content.subarray(size - 3)]),
    );
  });

  it('bytes requested many times are sent once', async () => {
    const { status, body } = await house.get(path, { range: `bytes=${Array(30).fill('0-999').join(',')}` });
    expect([status, body.length]).toEqual([206, 1000]);
  });

  it('a range outside is answered with 416 and the length of the object', async () => {
    const { status, headers, body } = await house.get(path, { range: `bytes=${size}-` });
    expect([status, headers['content-range']]).toEqual([416, `bytes */${size}`]);
    expect(headers['access-control-allow-origin']).toBe('*');
    expect(JSON.parse(body.toString())).toMatchObject({ code: 'range_not_satisfiable' });
  });

  it('HEAD ignores ranges', async () => {
    for (const range of ['bytes=0-0', `bytes=${size}-`]) {
      const { status, headers } = await house.get(path, { range }, 'HEAD');
      expect([status, headers['content-length'], headers['content-range']]).toEqual([200, String(size), undefined]);
    }
  });

  it.each(['bytes=9-1', 'bytes=x', 'seconds=0-1', 'bytes=0-1,,z'])('%s is ignored: all is sent', async (range) => {
    const { status, headers, body } = await house.get(path, { range });
    expect([status, headers['content-range'], body.length]).toEqual([200, undefined, size]);
  });

  it('If-Range: a resumed download never joins two versions', async () => {
    const range = 'bytes=10-19';
    const { headers } = await house.get(path, {}, 'HEAD');
    const lastModified = headers['last-modified'] ?? '';
    const status = async (ifRange: string) => (await house.get(path, { range, 'if-range': ifRange })).status;
    expect(await status(etag)).toBe(206);
    expect(await status(lastModified)).toBe(206);
    expect(await status('"old"')).toBe(200);
    expect(await status(`W/${etag}`)).toBe(200);
    expect(await status(new Date(Date.parse(lastModified) + 1000).toUTCString())).toBe(200);
    // If the condition of an unsatisfiable range fails, the request is for the whole object.
    expect((await house.get(path, { range: `bytes=${size}-`, 'if-range': '"old"' })).status).toBe(200);
  });

  it('conditions are evaluated before ranges', async () => {
    const range = 'bytes=0-0';
    expect((await house.get(path, { range, 'if-none-match': etag })).status).toBe(304);
    expect((await house.get(path, { range, 'if-match': '"old"' })).status).toBe(412);
    expect((await house.get(path, { range: `bytes=${size}-`, 'if-none-match': etag })).status).toBe(304);
  });

  it('an empty object is delivered, and has no ranges', async () => {
    const whole = await house.get(emptyPath);
    expect([whole.status, whole.headers['content-length'], whole.body.length]).toEqual([200, '0', 0]);
    const outside = await house.get(emptyPath, { range: 'bytes=0-' });
    expect([outside.status, outside.headers['content-range']]).toEqual([416, 'bytes */0']);
    expect((await house.get(emptyPath, { range: 'bytes=-5' })).status).toBe(200);
  });
});
