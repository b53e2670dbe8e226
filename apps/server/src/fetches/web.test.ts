import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { startRawSource, startSource } from './scripted-source.fixture.ts';
import { selfSigned } from './self-signed.fixture.ts';
import { createWeb, type WebParts } from './web.ts';

/** Stands for the public internet: only this address is allowed. All the rest of loopback is not public. */
const OUTSIDE = '127.0.0.2';
const INSIDE = '127.0.0.1';

const signal = new AbortController().signal;
const get = (url: string, parts: Partial<WebParts> = {}) =>
  createWeb({ allow: [OUTSIDE], ...parts }).read(url, { resume: null, signal }, async (answer) => ({
    ...answer,
    text: (await buffer(iterable(answer.body))).toString(),
  }));
const iterable = <T>(iterator: AsyncIterator<T>): AsyncIterable<T> => ({ [Symbol.asyncIterator]: () => iterator });
const outside = { allow: [INSIDE] };
const notAllowed = { code: 'source_not_allowed', status: 422, message: expect.stringContaining('MDS_FETCH_ALLOW') };

describe('fault 9: a private source', () => {
  it.each([
    'http://127.0.0.1:PORT/',
    'http://localhost:PORT/',
    'http://0.0.0.0:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://[::]:PORT/',
    'http://2130706433:PORT/',
    'http://0x7f.1:PORT/',
    'http://0177.0.0.1:PORT/',
    'http://127.1.:PORT/',
  ])('%s is refused before anything is sent', async (pattern) => {
    const inside = await startSource((_, response) => response.end('secret'), { host: '0.0.0.0' });
    await expect(get(pattern.replace('PORT', String(inside.port)), { allow: [] })).rejects.toMatchObject(notAllowed);
    expect(inside.requests).toEqual([]);
  });

  it('is not reached by a redirect, at any hop', async () => {
    const inside = await startSource((_, response) => response.end('secret'), { host: INSIDE });
    const hops = await startSource(
      (request, response) => {
        const location = request.url === '/3' ? inside.url('/') : `/${Number(request.url?.slice(1)) + 1}`;
        response.writeHead(302, { location }).end();
      },
      { host: OUTSIDE },
    );
    await expect(get(hops.url('/1'))).rejects.toMatchObject(notAllowed);
    expect(hops.requests).toEqual(['GET /1', 'GET /2', 'GET /3']);
    expect(inside.requests).toEqual([]);
  });

  it('is not reached by a redirect to another scheme, or with a password', async () => {
    for (const location of [
      'file:///etc/passwd',
      'ftp://example.org/',
      'http://user:pass@127.0.0.2/',
      'http://127.0.0.2:22/',
    ]) {
      const hop = await startSource((_, response) => void response.writeHead(302, { location }).end(), {
        host: OUTSIDE,
      });
      await expect(get(hop.url('/'))).rejects.toMatchObject({ code: 'source_not_allowed' });
    }
  });

  it('is not reached by a name that also has a public address', async () => {
    const inside = await startSource((_, response) => response.end('secret'), { host: INSIDE });
    await startSource((_, response) => response.end('public'), { host: OUTSIDE, port: inside.port });
    for (const addresses of [
      [OUTSIDE, INSIDE],
      [INSIDE, OUTSIDE],
      ['::1', OUTSIDE],
      ['::ffff:127.0.0.1', OUTSIDE],
    ]) {
      const answer = get(`http://both.test:${inside.port}/`, { lookup: async () => addresses });
      await expect(answer).rejects.toMatchObject(notAllowed);
    }
    const dotted = get(`http://localhost.:${inside.port}/`, { lookup: async () => [INSIDE] });
    await expect(dotted).rejects.toMatchObject(notAllowed);
    expect(inside.requests).toEqual([]);
  });

  it('is not reached by DNS rebinding: the checked address is the one connected to', async () => {
    const inside = await startSource((_, response) => response.end('secret'), { host: INSIDE });
    const public_ = await startSource((_, response) => response.end('public'), { host: OUTSIDE, port: inside.port });
    let lookups = 0;
    const rebinding = async () => [++lookups === 1 ? OUTSIDE : INSIDE];
    const web = createWeb({ allow: [OUTSIDE], lookup: rebinding });
    const url = `http://rebinding.test:${inside.port}/`;
    const read = () =>
      web.read(url, { resume: null, signal }, async ({ body }) => String(await buffer(iterable(body))));
    expect(await read()).toBe('public');
    expect(lookups).toBe(1);
    expect(public_.headers[0]).toMatchObject({ host: `rebinding.test:${inside.port}` });
    // The second lookup returns the private address, which is checked anew.
    await expect(read()).rejects.toMatchObject(notAllowed);
    expect(inside.requests).toEqual([]);
  });

  it('looks the same as a closed port, and its address stays secret', async () => {
    const listening = await startSource((_, response) => response.end('secret'), { host: INSIDE });
    const messages = [];
    for (const port of [listening.port, 1]) {
      const lookup = async () => ['10.11.12.13'];
      const refusal = await get(`http://a.test:${port === 1 ? 1025 : port}/`, { lookup }).catch(
        (error: unknown) => error,
      );
      messages.push((refusal as Error).message);
    }
    expect(new Set(messages).size).toBe(1);
    expect(messages[0]).not.toMatch(/10\.11|a\.test/);
  });

  it('can be allowed, also by name, without allowing anything else', async () => {
    const inside = await startSource((_, response) => response.end('wanted'), { host: INSIDE });
    const lookup = async () => [INSIDE];
    expect((await get(`http://files.test:${inside.port}/`, { allow: ['files.test'], lookup })).text).toBe('wanted');
    await expect(get(`http://other.test:${inside.port}/`, { allow: ['files.test'], lookup })).rejects.toMatchObject(
      notAllowed,
    );
  });
});

describe('a public source', () => {
  it('is asked for the identity encoding, without cookies or credentials', async () => {
    const source = await startSource((_, response) =>
      response.writeHead(200, { 'set-cookie': 'a=b', etag: '"1"' }).end('file'),
    );
    const answer = await get(source.url('/a?b=c#d'), outside);
    expect(answer).toMatchObject({ text: 'file', from: 0, totalBytes: null, validator: '"1"' });
    expect(source.requests).toEqual(['GET /a?b=c']);
    expect(source.headers[0]).toMatchObject({ 'accept-encoding': 'identity', 'user-agent': 'media-delivery-service' });
    expect(Object.keys(source.headers[0] ?? {})).not.toEqual(expect.arrayContaining(['cookie', 'authorization']));
  });

  it('is contacted directly, despite proxy settings in the environment', async () => {
    const proxy = await startSource((_, response) => response.end('proxied'));
    const source = await startSource((_, response) => response.end('direct'));
    const before = process.env['http_proxy'];
    process.env['http_proxy'] = proxy.url('/');
    try {
      expect((await get(source.url('/'), outside)).text).toBe('direct');
    } finally {
      if (before === undefined) delete process.env['http_proxy'];
      else process.env['http_proxy'] = before;
    }
    expect(proxy.requests).toEqual([]);
  });

  it('may redirect five times, but no more', async () => {
    const source = await startSource((request, response) => {
      const n = Number(request.url?.slice(1));
      if (n === 0) response.end('arrived');
      else response.writeHead(307, { location: `/${n - 1}` }).end();
    });
    expect((await get(source.url('/5'), outside)).text).toBe('arrived');
    await expect(get(source.url('/6'), outside)).rejects.toMatchObject({ code: 'source_refused' });
    expect(source.requests).toHaveLength(12);
  });

  it('fault 10: is given up after five redirects in a circle', async () => {
    const source = await startSource((_, response) => void response.writeHead(301, { location: '/again' }).end());
    await expect(get(source.url('/'), outside)).rejects.toMatchObject({
      code: 'source_refused',
      retryable: false,
      message: expect.stringMatching(/more than 5 times/),
    });
    expect(source.requests).toHaveLength(6);
  });

  it.each([
    [404, {}, false, null],
    [403, {}, false, null],
    [204, {}, false, null],
    [206, { 'content-range': 'bytes 0-3/9' }, false, null],
    [429, { 'retry-after': '7' }, true, 7000],
    [503, {}, true, null],
    [500, {}, true, null],
  ])('with response %i %j gives an error with retry advice', async (status, headers, retryable, retryAfterMs) => {
    const source = await startSource((_, response) => void response.writeHead(status, headers).end());
    await expect(get(source.url('/?secret=x'), outside)).rejects.toMatchObject({
      code: 'source_refused',
      status: 502,
      retryable,
      retryAfterMs,
      message: expect.stringContaining(String(status)),
    });
  });

  it('fault 10: is refused if it sends compressed bytes, and nothing is inflated', async () => {
    for (const encoding of ['gzip', 'br', 'deflate, gzip']) {
      const source = await startSource(
        (_, response) => void response.writeHead(200, { 'content-encoding': encoding }).end('x'),
      );
      await expect(get(source.url('/'), outside)).rejects.toMatchObject({
        code: 'source_refused',
        message: expect.stringContaining('Content-Encoding'),
      });
    }
  });

  it('fault 10: is given up in time if it sends its headers slowly or never', async () => {
    const silent = await startRawSource(() => undefined);
    const slow = await startRawSource((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nX-Slow: ');
      const timer = setInterval(() => socket.write('x'), 20);
      socket.once('close', () => clearInterval(timer));
    });
    for (const source of [silent, slow]) {
      await expect(get(source.url('/'), { ...outside, firstByteMs: 300 })).rejects.toMatchObject({
        code: 'source_timeout',
        status: 504,
        retryable: true,
      });
    }
  });

  it('is left at once by an abort, before or during an endless lookup', async () => {
    const lookup = () => new Promise<string[]>(() => undefined);
    const reason = new Error('canceled');
    const read = (stop: AbortSignal) =>
      createWeb({ allow: [OUTSIDE], lookup }).read(
        'http://slow.test:8080/',
        { resume: null, signal: stop },
        async () => 1,
      );
    await expect(read(AbortSignal.abort(reason))).rejects.toBe(reason);
    const later = new AbortController();
    const reading = expect(read(later.signal)).rejects.toBe(reason);
    later.abort(reason);
    await reading;
  });

  it('fault 10: is given up in time if its lookup never ends', async () => {
    const lookup = () => new Promise<string[]>(() => undefined);
    await expect(get('http://slow.test:8080/', { lookup, firstByteMs: 200 })).rejects.toMatchObject({
      code: 'source_timeout',
    });
  });

  it.each([
    ['with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 120000\r\nConnection: close\r\n\r\n'],
    ['without a length', 'HTTP/1.0 200 OK\r\n\r\n'],
  ])('is read to the end if it closes early behind a file %s', async (_, head) => {
    const bytes = Buffer.alloc(120_000, 'image');
    const source = await startRawSource((socket) => {
      socket.write(head);
      socket.end(bytes);
    });
    const arrived = await createWeb(outside).read(source.url('/'), { resume: null, signal }, async ({ body }) => {
      // The runner reserves room and queries the database first, long enough for the connection to end.
      await new Promise((resolve) => setTimeout(resolve, 200));
      return buffer(iterable(body));
    });
    expect(arrived.equals(bytes)).toBe(true);
  });

  it('is unreachable if it is gone or does not speak HTTP', async () => {
    const gone = await startRawSource((socket) => socket.end());
    const chatter = await startRawSource((socket) => socket.end('220 mail.example ESMTP\r\n'));
    const unknown = Object.assign(new Error('getaddrinfo ENOTFOUND no.test'), { code: 'ENOTFOUND' });
    const lookup = () => Promise.reject(unknown);
    await expect(get(gone.url('/'), outside)).rejects.toMatchObject({ code: 'source_unreachable', retryable: true });
    await expect(get(chatter.url('/'), outside)).rejects.toMatchObject({
      code: 'source_unreachable',
      retryable: false,
    });
    await expect(get('http://no.test/', { lookup })).rejects.toMatchObject({
      code: 'source_unreachable',
      retryable: false,
    });
  });

  it('is not trusted if its certificate is self-signed', async () => {
    const source = await startSource((_, response) => response.end('file'), { tls: selfSigned() });
    await expect(get(source.url('/'), outside)).rejects.toMatchObject({
      code: 'source_unreachable',
      retryable: false,
      message: expect.stringMatching(/certificate that is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\)/),
    });
    expect(source.requests).toEqual([]);
  });
});
