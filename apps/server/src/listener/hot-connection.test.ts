import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { seededRandom } from '../../test/support/seeded-random.ts';
import type { RequestHead } from '../http/answer-sink.ts';
import { type AnswerSink, prepareFields } from '../http/answer-sink.ts';
import type { HotAnswerer } from './hot-connection.ts';
import { announceLeaving, createHttpServer, drainServer } from './http-server.ts';
import { readSimpleHead } from './simple-head.ts';

const MIB = 1024 * 1024;
const hotBody = Buffer.alloc(8 * MIB, 'h');

/** The parsed request as JSON, which must not depend on the parser. */
const echo = (req: Pick<RequestHead, 'method' | 'url' | 'headers' | 'httpVersion'>, body: string) =>
  Buffer.from(JSON.stringify([req.method, req.url, req.httpVersion, Object.entries(req.headers).toSorted(), body]));

const sendContent = (sink: AnswerSink, req: RequestHead, content: Buffer): true => {
  const fields = ['Content-Type', 'text/plain', 'Content-Length', String(content.length)];
  sink.send(200, prepareFields(fields), [], req.method === 'HEAD' ? [] : [content]);
  return true;
};

interface Place {
  port: number;
  /** Targets that were answered from memory, and those that came through node:http. */
  hot: string[];
  long: string[];
  server: ReturnType<typeof createHttpServer>;
  /** Number of closed answers of node:http. */
  closed: number;
  /** Completes the half-sent answer. */
  finish: () => void;
}

/** A server that answers /hot from memory, /later from memory after a moment, and the rest through node:http. */
async function start(options: { isHot?: boolean; keepAliveMs?: number; headersTimeoutMs?: number } = {}) {
  const place = { hot: [] as string[], long: [] as string[], closed: 0, finish: (): void => undefined };
  const answerFromMemory: HotAnswerer = (req, sink) => {
    const { url = '' } = req;
    if (options.isHot === false || url.startsWith('/long')) return false;
    const answer = () => {
      place.hot.push(url);
      return sendContent(sink, req, url.startsWith('/hot/large') ? hotBody : echo(req, ''));
    };
    if (url.startsWith('/later/none')) return new Promise((resolve) => setTimeout(() => resolve(false), 20));
    if (url.startsWith('/later')) return new Promise((resolve) => setTimeout(() => resolve(answer()), 20));
    return answer();
  };
  const handle = async (req: IncomingMessage, res: ServerResponse) => {
    place.long.push(req.url ?? '');
    res.once('close', () => {
      place.closed += 1;
    });
    if (req.url === '/long/never') return;
    if (req.url === '/long/half') {
      res.writeHead(200, { 'Content-Length': 9 }).write('half-');
      place.finish = () => void res.end('half');
      return;
    }
    const content = req.url?.startsWith('/long/large') ? hotBody : echo(req, (await buffer(req)).toString());
    res.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': content.length }).end(content);
  };
  const server = createHttpServer(
    { answerFromMemory, handle: (req, res) => void handle(req, res).catch(() => res.destroy()) },
    { checkEveryMs: 50, ...options },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  });
  return Object.assign(place, { server, port: (server.address() as AddressInfo).port }) satisfies Place;
}

/** A client that collects all that it receives. */
function open(port: number) {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return Object.assign(socket, {
    text: () => text,
    answers: () => bodiesOf(text),
  });
}

/** Status and body of each answer, in order. */
function bodiesOf(text: string): string[] {
  const found: string[] = [];
  for (let rest = text; rest !== ''; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return [...found, `cut: ${rest.length}`];
    const length = Number(/content-length: (\d+)/i.exec(rest.slice(0, end))?.[1] ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    found.push(`${rest.slice(9, 12)} ${body.replace(/"(?:instance|request_id)":"[^"]*"/g, '')}`);
    rest = rest.slice(end + 4 + length);
  }
  return found;
}

const get = (target: string, extra = '') => `GET ${target} HTTP/1.1\r\nHost: a\r\n${extra}\r\n`;
const targets = (answers: string[]) => answers.map((answer) => /^200 \["[A-Z]+","([^"]*)"/.exec(answer)?.[1] ?? answer);
const until = (client: { answers(): string[] }, count: number) =>
  expect.poll(() => client.answers().length, { timeout: 5_000 }).toBe(count);

describe('requests of one connection are answered in order', () => {
  it('from memory, through node:http, after a moment, and with a body in between', async () => {
    const place = await start();
    const client = open(place.port);
    const asked = ['/hot/1', '/long/2', '/hot/3', '/later/4', '/later/none/5', '/hot/6'];
    for (const [index, target] of asked.entries()) {
      client.write(get(target));
      await until(client, index + 1);
    }
    expect([place.hot, place.long]).toEqual([
      ['/hot/1', '/hot/3', '/later/4', '/hot/6'],
      ['/long/2', '/later/none/5'],
    ]);
    client.write('POST /long/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc');
    await until(client, 7);
    // From here on node:http owns the connection, and its handler answers, not this connection.
    client.write(get('/hot/8'));
    await until(client, 8);
    expect(targets(client.answers())).toEqual([...asked, '/long/7', '/hot/8']);
    expect(client.answers()[6]).toContain('"abc"');
    expect(place.long.slice(2)).toEqual(['/long/7', '/hot/8']);
  });

  it('after many misses in memory, so that node:http owns the connection', async () => {
    const place = await start();
    const client = open(place.port);
    for (let n = 1; n <= 16; n += 1) {
      client.write(get(`/long/${n}`));
      await until(client, n);
    }
    client.write(get('/hot/17'));
    await until(client, 17);
    expect(place.hot).toEqual(['/hot/17']);
    for (let n = 18; n <= 34; n += 1) {
      client.write(get(n % 2 ? `/long/${n}` : `/later/none/${n}`) + (n === 34 ? get('/hot/35') : ''));
      await until(client, n === 34 ? 35 : n);
    }
    expect(place.hot).toEqual(['/hot/17']);
    expect(targets(client.answers()).slice(-3)).toEqual(['/long/33', '/later/none/34', '/hot/35']);
  });

  it('if all are sent at once', async () => {
    const place = await start();
    const client = open(place.port);
    client.write(get('/hot/1') + get('/long/2') + get('/later/3') + get('/hot/4'));
    await until(client, 4);
    expect(targets(client.answers())).toEqual(['/hot/1', '/long/2', '/later/3', '/hot/4']);
  });

  it.each(['/long/1', '/later/1', '/later/none/1', '/hot/large/1'])(
    'if sent while %s is being answered',
    async (first) => {
      const place = await start();
      const client = open(place.port);
      client.write(get(first));
      await once(client, 'ready');
      await new Promise((resolve) => setTimeout(resolve, 5));
      client.write(get('/hot/2'));
      await new Promise((resolve) => setTimeout(resolve, 1));
      client.write(get('/long/3'));
      await until(client, 3);
      expect(targets(client.answers()).slice(1)).toEqual(['/hot/2', '/long/3']);
    },
  );

  it('if sent byte by byte', async () => {
    const place = await start();
    const client = open(place.port);
    client.setNoDelay(true);
    for (const byte of get('/hot/1')) {
      client.write(byte);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await until(client, 1);
    expect(targets(client.answers())).toEqual(['/hot/1']);
  });
});

it('any request, even malformed, is parsed and ends exactly as with node:http', async () => {
  const [fast, plain] = [await start(), await start({ isHot: false })];
  const random = seededRandom(20_261_121);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const fields = [
    ...[
      'Host: a',
      'host: b',
      'Host:',
      'Accept: image/webp',
      'Accept: */*',
      'accept:\timage/avif \t',
      'Range: bytes=0-1',
    ],
    ...[
      'Content-Length: 0',
      'Content-Length: 3',
      'Transfer-Encoding: chunked',
      'Transfer-Encoding : chunked',
      ' folded: x',
    ],
    ...[
      'Connection: keep-alive',
      'Connection: Upgrade',
      'Upgrade: h2c',
      'Expect: 100-continue',
      'X-Empty:',
      'no colon',
    ],
    ...[
      'X-Latin: \xe9',
      'X-Nul: a\0b',
      'X-Cr: a\rb',
      'X-Lf: a\nb',
      'X Y: z',
      'Cookie: a=b',
      'Authorization: x',
      ': nameless',
    ],
  ];
  const lines = [
    'GET /x HTTP/1.1',
    'HEAD /x HTTP/1.1',
    'GET /x?y=%20#z HTTP/1.1',

    'GET /x/%c3%a9 HTTP/1.1',
  ];
  const odd = [
    'GET  /x HTTP/1.1',
    'GET /x y HTTP/1.1',
    'GET /x HTTP/1.0',
    'GET /x HTTP/1.1 ',
    'get /x HTTP/1.1',
    'GET x HTTP/1.1',
    'GET http://b/x HTTP/1.1',
    'OPTIONS * HTTP/1.1',
  ];
  const broken = ['\r\n', '\n', '\0', ' ', '\t', ':', '\x80', 'GET', '\r\n\r\n'];
  const make = () => {
    const harmless = () =>
      `X-${pick(['A', 'b', "!#$%&'*+.^_`|~", '9'])}-${Math.floor(random() * 1e6)}: ${pick(['', '\t x  y ', '"q"', ':;,'])}`;
    const chosen = Array.from({ length: Math.floor(random() * 5) }, () => (random() < 0.8 ? harmless() : pick(fields)));
    const host = random() < 0.9 ? ['Host: a'] : [];
    let head = [pick(random() < 0.85 ? lines : odd), ...host, ...chosen, '', ''].join('\r\n');
    if (random() < 0.35) {
      const at = Math.floor(random() * head.length);
      head = head.slice(0, at) + pick(broken) + head.slice(at + (random() < 0.5 ? 1 : 0));
    }
    return head;
  };
  const isSimple = (head: string) => readSimpleHead(Buffer.from(head, 'latin1')) !== null;
  /** All answers to `head` and to a request behind it, which shows where the parser saw its end. */
  const ask = async (port: number, head: string, timeoutMs: number) => {
    const client = open(port);
    client.write(head, 'latin1');
    // A simple head is sent alone: with another request behind it, it would go through node:http.
    // Other heads may never be answered.
    await Promise.race([
      ...(isSimple(head) ? [once(client, 'data'), once(client, 'close')] : []),
      new Promise((resolve) => setTimeout(resolve, isSimple(head) ? 10_000 : 15)),
    ]);
    client.write(get('/behind', 'Connection: close\r\n'));
    // Some heads never end and so are never answered.
    await Promise.race([once(client, 'close'), new Promise((resolve) => setTimeout(resolve, timeoutMs))]);
    client.destroy();
    return client.answers();
  };
  const askBoth = (head: string, timeoutMs: number) =>
    Promise.all([ask(fast.port, head, timeoutMs), ask(plain.port, head, timeoutMs)]);
  const heads = [...new Set(Array.from({ length: 2_000 }, make))];
  for (let at = 0; at < heads.length; at += 50) {
    const some = heads.slice(at, at + 50);
    const answers = await Promise.all(some.map((head) => askBoth(head, 250)));
    for (const [index, head] of some.entries()) {
      const [ours, theirs] = answers[index] ?? [];
      // On a busy machine one of the two may be late. A single request with a long timeout must agree.
      if (JSON.stringify(ours) === JSON.stringify(theirs)) continue;
      const [oursAlone, theirsAlone] = await askBoth(head, 3_000);
      expect(oursAlone, JSON.stringify(head)).toEqual(theirsAlone);
    }
  }
  // The comparison is meaningful only if both parsers handled many requests.
  expect(fast.hot.length).toBeGreaterThan(600);
  expect(plain.hot.length).toBe(0);
}, 60_000);

describe('a client that misbehaves', () => {
  it('gets no error inside a half-sent answer if it sends garbage behind its request', async () => {
    const place = await start();
    const client = open(place.port);
    client.write(get('/long/half'));
    await expect.poll(() => client.text()).toContain('half');
    client.write('broken\0\r\n\r\n');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(client.text().match(/HTTP\/1\.1/g)).toHaveLength(1);
    place.finish();
    await once(client, 'close');
    expect(client.answers().map((answer) => answer.slice(0, 12))).toEqual(['200 half-hal', '400 {"type":']);
  });

  it('gets an answer that takes longer than the timeout for its request', async () => {
    const place = await start({ headersTimeoutMs: 100, keepAliveMs: 100 });
    const client = open(place.port);
    client.write(get('/long/half'));
    await new Promise((resolve) => setTimeout(resolve, 600));
    place.finish();
    await expect.poll(client.answers).toEqual(['200 half-half']);
  });

  it('has no further answers buffered while it reads nothing', async () => {
    const place = await start();
    const client = open(place.port);
    client.pause();
    client.write(get('/hot/large/1'));
    await expect.poll(() => place.hot.length).toBe(1);
    for (let n = 2; n < 20; n += 1) {
      client.write(get(`/hot/large/${n}`));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(place.hot).toHaveLength(1);
    client.resume();
    await until(client, 19);
    expect(place.hot.length + place.long.length).toBe(19);
  });

  it.each(['/hot/1', '/later/1', '/hot/large'])(
    'is answered if it closes its half right after a request for %s',
    async (target) => {
      const place = await start();
      const client = open(place.port);
      client.end(get(target));
      await once(client, 'close');
      expect(client.answers()).toHaveLength(1);
      expect(client.answers()[0]?.slice(0, 5)).toMatch(/^200 [[h]$/);
      if (target === '/hot/large') expect(client.answers()[0]).toHaveLength(4 + hotBody.length);
    },
  );

  it('closes the response of its handler if it leaves during a slow answer', async () => {
    const place = await start();
    const client = open(place.port);
    client.write(get('/hot/1'));
    await until(client, 1);
    client.write(get('/long/never'));
    await expect.poll(() => place.long.length).toBe(1);
    client.destroy();
    await expect.poll(() => place.closed).toBe(1);
  });

  it('is disconnected if it stays silent, before or after a request', async () => {
    const place = await start({ keepAliveMs: 300, headersTimeoutMs: 300 });
    const silent = open(place.port);
    const served = open(place.port);
    served.write(get('/hot/1'));
    const servedByNode = open(place.port);
    servedByNode.write(get('/long/1'));
    const began = performance.now();
    await Promise.all([silent, served, servedByNode].map((client: Socket) => once(client, 'close')));
    expect(performance.now() - began).toBeGreaterThan(250);
    expect([served, servedByNode].map((client) => client.answers().length)).toEqual([1, 1]);
  });
});

describe('a server that stops', () => {
  it('ends each connection after its next answer, which has Connection: close', async () => {
    const place = await start();
    const client = open(place.port);
    client.write(get('/hot/1'));
    await until(client, 1);
    announceLeaving(place.server);
    client.write(get('/hot/2'));
    await once(client, 'close');
    expect(targets(client.answers())).toEqual(['/hot/1', '/hot/2']);
    expect(client.text().match(/Connection: (?:close|keep-alive)/g)).toEqual([
      'Connection: keep-alive',
      'Connection: close',
    ]);
  });

  it.each(['/hot/large', '/long/large'])(
    'lets a slow reader of %s finish, and closes idle connections',
    async (target) => {
      const place = await start();
      const idle = open(place.port);
      idle.write(get('/hot/1'));
      await until(idle, 1);
      const slow = open(place.port);
      slow.pause();
      slow.write(get(target));
      await expect.poll(() => place.hot.length + place.long.length).toBe(2);
      const drained = drainServer(place.server, { restMs: 50 });
      await once(idle, 'close');
      await new Promise((resolve) => setTimeout(resolve, 200));
      slow.resume();
      await Promise.all([drained, once(slow, 'close')]);
      expect(slow.answers()[0]).toHaveLength(4 + hotBody.length);
    },
  );
});
