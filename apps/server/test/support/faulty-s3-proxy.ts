import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { GetObjectCommand, PutObjectCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import type { S3Server } from './s3-server.ts';

/** A request on its way to the server. */
export interface ProxiedRequest {
  method: string;
  /** The key, without the bucket; empty for a request to the bucket. */
  key: string;
  query: URLSearchParams;
  headers: Readonly<Record<string, string>>;
}

/** A fault of a request. */
export type S3Fault =
  /** An error response; the server gets no request. */
  | { answer: 403 | 404 | 500 | 503 | 507; code: string }
  /** No response. */
  | 'silence'
  /** The connection is reset after so many bytes of the request's body. */
  | { cutRequestAfter: number }
  /** The server handles the request; the connection is reset after so many bytes of the response body. `lost`: before its head. */
  | { cutAnswerAfter: number | 'lost' }
  /** The server handles the request; the body stalls after this many bytes, with the connection open. */
  | { stallAnswerAfter: number }
  /** The server handles the request; the body ends regularly after this many bytes, without a Content-Length. */
  | { endAnswerAfter: number }
  /** A bit of the request is flipped. */
  | { flipRequestAt: number }
  /** A bit of the response is flipped. */
  | { flipAnswerAt: number }
  /** The server stores other bytes than it received, and reports success. */
  | { store: (body: Buffer) => Buffer }
  /** The server ignores If-Match. */
  | 'ignore preconditions';

/** Passes requests to an S3 server, and injects faults. */
export interface FaultyS3Proxy {
  endpoint: string;
  /** Returns the fault of a request; undefined: none. */
  spoil: (request: ProxiedRequest) => S3Fault | undefined | Promise<S3Fault | undefined>;
  /** The requests so far: method and S3 operation. */
  readonly requests: ProxiedRequest[];
  /** Requests with a fault. */
  readonly spoiled: number;
  stop(): Promise<void>;
}

/** The body with trailing checksums, which a server without support for them stores as it is. */
export function framed(body: Buffer): Buffer {
  const head = Buffer.from(`${body.length.toString(16)}\r\n`);
  return Buffer.concat([head, body, Buffer.from('\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n')]);
}

/** The body with one flipped bit. */
export function flipped(body: Buffer, at: number): Buffer {
  const copy = Buffer.from(body);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

/** Starts a {@link FaultyS3Proxy} on a free port of the loopback, without faults. */
export async function startFaultyS3Proxy(server: S3Server): Promise<FaultyS3Proxy> {
  const sockets = new Set<Socket>();
  const requests: ProxiedRequest[] = [];
  let spoiled = 0;
  const listener = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', server.endpoint);
    const [, bucket = '', ...segments] = pathname.split('/');
    const headers = req.headers as Record<string, string>;
    const proxied = { method: req.method ?? '', key: segments.join('/'), query: searchParams, headers };
    requests.push(proxied);
    const { socket } = req;
    const spoil = async () => {
      const fault = await proxy.spoil(proxied);
      if (fault !== undefined) spoiled += 1;
      await handle(server, { req, res, socket, bucket, proxied, fault });
    };
    spoil().catch(() => socket.destroy());
  });
  listener.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const proxy: FaultyS3Proxy = {
    endpoint: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    spoil: () => undefined,
    requests,
    get spoiled() {
      return spoiled;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
  return proxy;
}

interface Exchange {
  req: IncomingMessage;
  res: ServerResponse;
  socket: Socket;
  bucket: string;
  proxied: ProxiedRequest;
  fault: S3Fault | undefined;
}

async function handle(server: S3Server, exchange: Exchange): Promise<void> {
  const { req, res, socket, fault } = exchange;
  if (fault === 'silence') {
    req.resume();
    return;
  }
  if (typeof fault === 'object' && 'cutRequestAfter' in fault) {
    let received = 0;
    for await (const chunk of req as AsyncIterable<Buffer>) {
      received += chunk.length;
      if (received >= fault.cutRequestAfter) break;
    }
    socket.resetAndDestroy();
    return;
  }
  const body = await buffer(req);
  if (fault === undefined) return pass(server, exchange, body);
  if (fault === 'ignore preconditions') return answerUnconditionally(server, exchange);
  if ('answer' in fault) {
    const xml = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${fault.code}</Code><Message>spoiled</Message></Error>`;
    res.writeHead(fault.answer, { 'content-type': 'application/xml', 'content-length': xml.length });
    res.end(req.method === 'HEAD' ? undefined : xml);
    return;
  }
  if ('store' in fault) return storeOtherwise(server, exchange, fault.store(body));
  return pass(server, exchange, 'flipRequestAt' in fault ? flipped(body, fault.flipRequestAt) : body);
}

/** Passes a request and its response on, with its fault. */
async function pass(server: S3Server, { req, res, socket, fault }: Exchange, body: Buffer): Promise<void> {
  const { hostname, port } = new URL(server.endpoint);
  // The signature includes the Host field.
  const { method, url: path } = req;
  const headers = { ...req.headers, connection: 'close' };
  const outgoing = request({ hostname, port, method, path, headers, agent: false }).end(body);
  // Errors after the response do not matter.
  outgoing.on('error', () => undefined);
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  const came = await buffer(answer);
  const status = answer.statusCode ?? 500;
  if (typeof fault === 'object' && 'cutAnswerAfter' in fault) {
    if (fault.cutAnswerAfter === 'lost') {
      socket.resetAndDestroy();
      return;
    }
    res.writeHead(status, answer.headers);
    // Flushed before the reset, which drops what is buffered.
    await new Promise((resolve) => res.write(came.subarray(0, fault.cutAnswerAfter as number), resolve));
    socket.destroy();
    return;
  }
  if (typeof fault === 'object' && 'stallAnswerAfter' in fault) {
    res.writeHead(status, answer.headers).write(came.subarray(0, fault.stallAnswerAfter));
    return;
  }
  if (typeof fault === 'object' && 'endAnswerAfter' in fault) {
    const { 'content-length': _, ...rest } = answer.headers;
    res.writeHead(status, rest);
    res.end(came.subarray(0, fault.endAnswerAfter));
    return;
  }
  res.writeHead(status, answer.headers);
  res.end(typeof fault === 'object' && 'flipAnswerAt' in fault ? flipped(came, fault.flipAnswerAt) : came);
}

async function storeOtherwise(server: S3Server, { res, bucket, proxied }: Exchange, Body: Buffer): Promise<void> {
  const { key: Key, query, headers } = proxied;
  const target = { Bucket: bucket, Key, Body };
  const sha256 = headers['x-amz-meta-sha256'];
  const uploadId = query.get('uploadId');
  const { ETag } =
    uploadId === null
      ? await server.client.send(new PutObjectCommand({ ...target, Metadata: sha256 === undefined ? {} : { sha256 } }))
      : await server.client.send(
          new UploadPartCommand({ ...target, UploadId: uploadId, PartNumber: Number(query.get('partNumber')) }),
        );
  res.writeHead(200, { etag: ETag ?? '', 'content-length': 0 }).end();
}

async function answerUnconditionally(server: S3Server, { res, bucket, proxied }: Exchange): Promise<void> {
  const { range } = proxied.headers;
  const answer = await server.client.send(new GetObjectCommand({ Bucket: bucket, Key: proxied.key, Range: range }));
  const body = Buffer.from((await answer.Body?.transformToByteArray()) ?? []);
  res.writeHead(range === undefined ? 200 : 206, {
    'content-length': body.length,
    etag: answer.ETag ?? '',
    ...(answer.ContentRange === undefined ? {} : { 'content-range': answer.ContentRange }),
  });
  res.end(body);
}
