import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Problem } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { parseRaw, rawRequest } from '../../test/support/raw-request.ts';
import { createHttpServer, type RequestHandler } from './http-server.ts';

const withoutHotAnswers = (handle: RequestHandler) => ({ handle, answerFromMemory: () => false });

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

let app: AppFixture;
const delivered: string[] = [];

beforeAll(async () => {
  app = await startApp({
    delivery: {
      async handle(req, res) {
        delivered.push(req.url ?? '');
        res.statusCode = 404;
        res.end();
      },
    },
  });
});
afterAll(() => app.stop());

async function rawProblem(bytes: string | Buffer, status: number): Promise<Problem> {
  const answer = parseRaw(await rawRequest(app.port, bytes));
  expect(answer.status).toBe(status);
  expect(answer.headers['content-type']).toBe('application/problem+json');
  expect(answer.headers['x-request-id']).toMatch(/^req_/);
  const problem = Problem.parse(JSON.parse(answer.body));
  expect(problem.status).toBe(status);
  return problem;
}

const end = 'Host: x\r\nConnection: close\r\n\r\n';

describe('an unusual or malformed request', () => {
  it('is refused with the reason if its headers are too long', async () => {
    const problem = await rawProblem(`GET /api/v1 HTTP/1.1\r\nX-Long: ${'a'.repeat(20_000)}\r\n${end}`, 431);
    expect(problem.detail).toContain('16 KiB');
  });

  it('is refused with the reason if its URL is too long', async () => {
    await rawProblem(`GET /api/v1/media?cursor=${'a'.repeat(20_000)} HTTP/1.1\r\n${end}`, 431);
  });

  it.each([
    ['garbage', 'hello\r\n\r\n'],
    ['an unknown method', `BREW /api/v1 HTTP/1.1\r\n${end}`],
    ['a header without a name', `GET /api/v1 HTTP/1.1\r\n: x\r\n${end}`],
    ['a NUL in the URL', `GET /api/v1\0 HTTP/1.1\r\n${end}`],
    ['two lengths', `POST /control/v1/media HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n${end}`],
    ['two framings', `POST /control/v1/media HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${end}`],
  ])('with %s is answered with a problem document', async (_name, bytes) => {
    const problem = await rawProblem(bytes, 400);
    expect(problem.code).toBe('invalid_request');
  });

  it('times out if its head arrives too slowly', async () => {
    const server = createHttpServer(
      withoutHotAnswers((_req, res) => res.end()),
      { headersTimeoutMs: 200, checkEveryMs: 50 },
    );
    const port = await listen(server);
    const answer = parseRaw(await rawRequest(port, 'GET /api/v1 HTTP/1.1\r\nHo'));
    expect(answer.status).toBe(408);
    expect(Problem.parse(JSON.parse(answer.body)).detail).toContain('in time');
    await close(server);
  });

  it('needs a Host (RFC 9112, 3.2), except with HTTP/1.0', async () => {
    await rawProblem('GET /api/v1 HTTP/1.1\r\nConnection: close\r\n\r\n', 400);
    expect(parseRaw(await rawRequest(app.port, 'GET /api/v1 HTTP/1.0\r\n\r\n')).status).toBe(200);
  });

  it.each(['/api/v1', '/api/v1/media?limit=1', '/media/x/thumb.webp', '/control/v1/media'])(
    'with two hosts is refused (RFC 9112, 3.2), even if one was answered before: %s',
    async (target) => {
      const one = parseRaw(await rawRequest(app.port, `GET ${target} HTTP/1.1\r\n${end}`));
      expect(one.status).not.toBe(400);
      const problem = await rawProblem(`GET ${target} HTTP/1.1\r\nHost: other\r\n${end}`, 400);
      expect(problem.detail).toContain('Host');
    },
  );

  it('is refused if its version is not HTTP/1', async () => {
    expect((await rawProblem(`GET /api/v1 HTTP/2.0\r\n${end}`, 400)).detail).toContain('HTTP/1.1');
  });

  it('may have an absolute target (RFC 9112, 3.2.2), whose host selects the project', async () => {
    const answer = parseRaw(await rawRequest(app.port, `GET http://other.test/api/v1?x=1 HTTP/1.1\r\n${end}`));
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body)).toMatchObject({ project: 'other' });
    await rawProblem(`GET * HTTP/1.1\r\n${end}`, 400);
  });
});

describe('fault 21: paths that try to leave their folder', () => {
  it.each([
    '/media/../../etc/passwd',
    '/media/%2e%2e/%2e%2e/etc/passwd',
    '/media/..%2f..%2fetc%2fpasswd',
    '/media/%252e%252e%252fetc%252fpasswd',
    '/media/med_01k0c4s6q8y2v4w6x8z0a2c4e6/%2e%2e%5c%2e%2e%5cetc',
    '/media/med_01k0c4s6q8y2v4w6x8z0a2c4e6/thumb.webp%00.jpg',
    '/media/%ff%fe',
    '/media/%',
    '/%2e%2e/media/x',
    '/docs/assets/..%2f..%2f..%2fpackage.json',
    '/docs/assets/%2e%2e/package.json',
    '/api/v1/../../control/v1/media',
    '/control/v1/media/..%2f..%2fetc%2fpasswd',
    '//media//x',
    '/media/%F0%9F%98%80 1000 times',
  ])('are answered with 400, 401 or 404, and delivery sees them only unchanged: %s', async (form) => {
    const path = form.replace(/(%F0%9F%98%80) 1000 times/, (_all, emoji: string) => emoji.repeat(1_000));
    delivered.length = 0;
    const answer = parseRaw(await rawRequest(app.port, `GET ${path} HTTP/1.1\r\n${end}`));
    expect([400, 401, 404]).toContain(answer.status);
    expect(answer.body).not.toMatch(/root:|dependencies/);
    for (const url of delivered) expect(url).toBe(path);
  });
});

describe('request bodies', () => {
  const piece = Buffer.alloc(64 * 1024);
  const bodyBytes = 800 * piece.length;
  const head = (extra: string, path = '/control/v1/media') =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bodyBytes}\r\n${extra}\r\n`;

  const auth = `Authorization: Bearer ${TOKENS.ingest}\r\n`;

  it.each([
    ['401', '', 401],
    ['413', auth, 413],
    ['415', `${auth}Content-Type: multipart/form-data; boundary=x\r\n`, 415],
  ])('are not sent if refused and the client expects 100-continue: %s comes first', async (_name, extra, status) => {
    const text = await rawRequest(app.port, head(`Expect: 100-continue\r\n${extra}`));
    expect(text).not.toContain('100 Continue');
    expect(parseRaw(text).status).toBe(status);
  });

  it('are requested with 100 Continue if accepted', async () => {
    const socket = connect(app.port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.endsWith('100 Continue\r\n\r\n')) socket.write('abc');
    });
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(
      `POST /control/v1/media HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\nExpect: 100-continue\r\n${auth}\r\n`,
    );
    await closed;
    expect(parseRaw(text).status).toBe(201);
    expect(text.match(/100 Continue/g)).toHaveLength(1);
    expect(app.ingested.at(-1)?.body.toString()).toBe('abc');
  });

  it.each([
    ['401', '', '/control/v1/media', 401],
    ['413', auth, '/control/v1/media', 413],
    ['415', `${auth}Content-Type: multipart/form-data; boundary=x\r\n`, '/control/v1/media', 415],
    ['413 of JSON', `${auth}Content-Type: application/json\r\n`, '/control/v1/media', 413],
    ['405', '', '/api/v1/media', 405],
  ])(
    'if refused, are discarded, so that the client receives %s without a reset',
    async (_name, extra, path, status) => {
      const result = await new Promise<{ text: string; error: unknown }>((resolve) => {
        const socket = connect(app.port, '127.0.0.1');
        let text = '';
        let error: unknown = null;
        let sent = 0;
        const send = () => {
          while (sent < bodyBytes && !socket.destroyed) {
            sent += piece.length;
            if (!socket.write(piece)) {
              socket.once('drain', send);
              return;
            }
          }
        };
        socket.write(head(extra, path));
        send();
        socket.on('data', (chunk) => {
          text += chunk.toString();
        });
        socket.on('error', (reason) => {
          error = reason;
        });
        socket.on('close', () => resolve({ text, error }));
      });
      expect(result.error).toBeNull();
      const answer = parseRaw(result.text);
      expect(answer.status).toBe(status);
      expect(answer.headers['connection']).toBe('close');
      Problem.parse(JSON.parse(answer.body));
    },
  );
});

it('a half-sent answer is cut off, not mixed with a second one', async () => {
  const server = createHttpServer(
    withoutHotAnswers((_req, res) => {
      res.writeHead(200, { 'Content-Length': 10 });
      res.write('half');
    }),
  );
  const socket = connect(await listen(server), '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString();
    socket.write('broken\0\r\n\r\n');
  });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n');
  await closed;
  expect(text).toContain('half');
  expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  await close(server);
});
