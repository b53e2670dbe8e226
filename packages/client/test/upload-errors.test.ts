import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  ApiError,
  ConfigurationError,
  ConnectionError,
  createClient,
  InvalidRequestError,
  MdsError,
  MissingTokenError,
  type ResumableBody,
  TimeoutError,
  type UploadOptions,
} from '../src/index.ts';
import { rejection, sendJson, sendProblem, startServer } from './http-server.ts';
import { startTusService } from './tus-service.ts';

const content = randomBytes(3_000_000);

async function* pieces(): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += 70_001) yield content.subarray(at, at + 70_001);
}

function clientOf(url: string, timeoutMs = 30_000) {
  return createClient({ baseUrl: url, token: 'secret', timeoutMs }).control.media;
}

/** Answers a creation as the service does. */
function created(response: ServerResponse, location: string): void {
  response.writeHead(201, { 'tus-resumable': '1.0.0', location }).end();
}

describe('invalid options are refused before anything is sent', () => {
  it.each<[string, ResumableBody, UploadOptions, string]>([
    ['a length that differs from the body', new Blob([content]), { bytes: 5 }, 'bytes is 5'],
    ['a negative length', pieces(), { bytes: -1 }, 'bytes has to be'],
    ['empty chunks', new Blob([content]), { chunkBytes: 0 }, 'chunkBytes has to be'],
    ['half a retry', new Blob([content]), { maxRetries: 0.5 }, 'maxRetries must be'],
  ])('%s', async (_, body, options, message) => {
    await using service = await startTusService();
    const error = await rejection(clientOf(service.url).upload(body, options));
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(String(error)).toContain(message);
    expect(service.requests).toEqual([]);
  });

  it('an upload without a token', async () => {
    await using service = await startTusService();
    const { upload } = createClient({ baseUrl: service.url }).control.media;
    expect(await rejection(upload(new Blob([content])))).toBeInstanceOf(MissingTokenError);
    expect(service.requests).toEqual([]);
  });

  it('an upload that was aborted before it started', async () => {
    await using service = await startTusService();
    const reason = new Error('never mind');
    expect(await rejection(clientOf(service.url).upload(pieces(), { signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(service.requests).toEqual([]);
  });
});

describe('a body of the wrong length is never accepted', () => {
  const lengths: [string, number, string][] = [
    ['shorter', content.length + 1, `it ended after ${content.length} of ${content.length + 1} bytes`],
    ['longer', content.length - 1, `it is longer than ${content.length - 1} bytes`],
    // All announced bytes would be out already if the last piece were not held back until the end.
    ['longer by whole pieces', 70_001 * 2, `it is longer than ${70_001 * 2} bytes`],
  ];
  it.each(lengths)('a stream that is %s', async (_, bytes, message) => {
    await using service = await startTusService();
    const error = await rejection(clientOf(service.url).upload(pieces(), { bytes }));
    expect(error).toBeInstanceOf(MdsError);
    expect(String(error)).toContain(message);
    expect(service.arrived).toEqual([]);
  });

  it.each(lengths)('a function whose content is %s', async (_, bytes, message) => {
    await using service = await startTusService();
    const error = await rejection(clientOf(service.url).upload(() => Readable.from(pieces()), { bytes }));
    expect(String(error)).toContain(message);
    expect(service.arrived).toEqual([]);
    // Another attempt would end the same way.
    expect(service.requests.filter((line) => line.startsWith('PATCH ')).length).toBeLessThanOrEqual(1);
  });
});

it('a body that is too long is not accepted if its end is late', async () => {
  await using service = await startTusService();
  const lateEnd = async function* () {
    yield content.subarray(0, 1_000_000);
    yield content.subarray(1_000_000, 2_000_000);
    // Enough time for all announced bytes to arrive, if they were sent.
    for (let waits = 0; waits < 100 && service.arrived.length === 0; waits++) await sleep(10);
    yield content.subarray(2_000_000);
  };
  const error = await rejection(clientOf(service.url).upload(() => lateEnd(), { bytes: 2_000_000 }));
  expect(String(error)).toContain('it is longer than 2000000 bytes');
  expect(service.arrived).toEqual([]);
});

it('unreadable content fails the upload with its reason, at any time', async () => {
  await using service = await startTusService();
  const failing = () =>
    new Readable({
      read() {
        this.destroy(new Error('the card was pulled out'));
      },
    });
  const failed = () => failing().destroy(new Error('the card was pulled out'));
  // A Node stream that fails before anybody listens would end the program.
  for (const bodyOf of [() => failing(), () => failing, () => failed(), () => failed]) {
    const body = bodyOf();
    const error = await rejection(clientOf(service.url).upload(body, { bytes: 10 }));
    expect(error).toMatchObject({ message: 'The body cannot be uploaded: the card was pulled out' });
  }
  expect(service.arrived).toEqual([]);
});

it('a stream that was never read is closed', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 403, 'forbidden'));
  const stream = Readable.from(pieces());
  await rejection(clientOf(server.url).upload(stream));
  expect(stream.destroyed).toBe(true);
});

describe('a refusal is an error of its own class and is not retried', () => {
  it.each([
    [413, 'payload_too_large', InvalidRequestError],
    [507, 'insufficient_storage', ApiError],
    [409, 'idempotency_conflict', ApiError],
  ] as const)('%i on creation', async (status, code, kind) => {
    await using server = await startServer((_, response) => sendProblem(response, status, code));
    const error = await rejection(clientOf(server.url).upload(new Blob([content])));
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ status, code, requestId: 'req-7' });
    expect(server.requests).toEqual(['POST /control/v1/uploads']);
  });

  it('a file that is refused at its last byte', async () => {
    await using service = await startTusService((request, response) => {
      if (request.method !== 'PATCH') return false;
      request.resume().on('end', () => sendProblem(response, 422, 'unsupported_format'));
      return true;
    });
    const error = await rejection(clientOf(service.url).upload(new Blob([content])));
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error).toMatchObject({ code: 'unsupported_format', problem: { detail: 'detail of unsupported_format' } });
  });

  it('a lost refusal: its code is reported, and nothing is sent again', async () => {
    await using service = await startTusService((request, response) => {
      if (request.method === 'PATCH') request.resume().on('end', () => response.destroy());
      else if (request.method === 'HEAD') response.writeHead(410, { 'MDS-Problem-Code': 'corrupt_media' }).end();
      else return false;
      return true;
    });
    const error = await rejection(clientOf(service.url).upload(new Blob([content])));
    expect(error).toMatchObject({ status: 410, code: 'corrupt_media' });
    expect(service.requests.filter((line) => /^(POST|PATCH)/.test(line))).toHaveLength(2);
  });
});

it.each([
  [423, 'upload_locked', {}],
  [409, 'upload_offset_conflict', {}],
  [429, 'too_many_uploads', { 'retry-after': '0' }],
  [503, 'overloaded', { 'retry-after': '0' }],
])('after %i %s, the upload continues at the offset of the service', async (status, code, headers) => {
  let refusals = 0;
  await using service = await startTusService((request, response) => {
    if (request.method !== 'PATCH' || refusals++ > 1) return false;
    request.resume().on('end', () => sendProblem(response, status, code, headers));
    return true;
  });
  await clientOf(service.url).upload(new Blob([content]));
  expect(service.arrived).toHaveLength(1);
});

it('waits for Retry-After; one that is too long ends the upload and is reported', async () => {
  let wait = '1';
  const times: number[] = [];
  await using service = await startTusService((request, response) => {
    if (request.method !== 'POST' || times.push(performance.now()) === 2) return false;
    sendProblem(response, 429, 'too_many_uploads', { 'retry-after': wait });
    return true;
  });
  await clientOf(service.url).upload(new Blob([content]));
  expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
  wait = '3600';
  const error = await rejection(clientOf(service.url).upload(new Blob([content])));
  expect(error).toMatchObject({ status: 429, retryAfterMs: 3_600_000, attempts: 1 });
});

it('gives up after too many failures in a row', async () => {
  await using server = await startServer((request) => void request.socket.destroy());
  const error = await rejection(clientOf(server.url).upload(new Blob([content]), { maxRetries: 2 }));
  expect(error).toBeInstanceOf(ConnectionError);
  expect(server.requests).toHaveLength(3);
});

it('a stalled service is given up after the time limit and tried again', async () => {
  let stuck = 1;
  await using service = await startTusService((request) => request.method === 'PATCH' && stuck-- > 0);
  await clientOf(service.url, 300).upload(new Blob([content]));
  expect(service.arrived).toHaveLength(1);
  stuck = 1;
  const error = await rejection(clientOf(service.url, 300).upload(new Blob([content]), { maxRetries: 0 }));
  expect(error).toBeInstanceOf(TimeoutError);
});

it('if the last answer is lost, the upload reports its media object', async () => {
  await using service = await startTusService((request, response) => {
    if (request.method === 'PATCH') {
      response.writeHead = () => response.destroy() as never;
    }
    return false;
  });
  const { media } = await clientOf(service.url).upload(new Blob([content]));
  expect(media.id).toBe(service.arrived[0]?.id);
  expect(service.arrived).toHaveLength(1);
  expect(service.patchedFrom()).toEqual([0]);
});

/** Removes the media object's id from an answer. */
function unname(response: ServerResponse): void {
  const write = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.removeHeader('MDS-Media-Id');
    const fields = rest.map((it) => (Array.isArray(it) ? it.filter((pair) => !/mds-/i.test(String(pair))) : it));
    return write(status, ...fields);
  }) as typeof response.writeHead;
}

it('if the last answer names no media object, the upload is asked for it', async () => {
  await using service = await startTusService((request, response) => {
    if (request.method === 'PATCH') unname(response);
    return false;
  });
  const { media } = await clientOf(service.url).upload(new Blob([content]));
  expect(media.id).toBe(service.arrived[0]?.id);
});

it('an upload whose media object is never named ends with an error', async () => {
  await using service = await startTusService((_, response) => {
    unname(response);
    return false;
  });
  const error = await rejection(clientOf(service.url).upload(new Blob([content]), { maxRetries: 1 }));
  expect(String(error)).toContain('its media object is unknown');
});

it('a body that can be read once fails clearly if the service forgot the upload', async () => {
  let heads = 0;
  await using service = await startTusService((request, response) => {
    if (request.method === 'PATCH' && request.headers['upload-offset'] !== '0') {
      request.socket.destroy();
      return true;
    }
    if (request.method === 'HEAD' && heads++ > 0) {
      response.writeHead(404).end();
      return true;
    }
    return false;
  });
  const options = { bytes: content.length, chunkBytes: 1_000_000 };
  expect(await rejection(clientOf(service.url).upload(pieces(), options))).toMatchObject({ status: 404 });
  expect(service.requests.filter((line) => line.startsWith('POST '))).toHaveLength(1);
});

describe('the token is sent only to its own service', () => {
  it('whatever address the service returns for the upload', async () => {
    await using thief = await startServer((_, response) => void response.writeHead(200).end());
    await using service = await startServer((request, response) => {
      if (request.method === 'POST') created(response, `${thief.url}/control/v1/uploads/upl_1`);
      else if (request.method === 'GET') sendJson(response, 200, { id: 'med_1' });
      else response.writeHead(204, { 'upload-offset': String(content.length), 'mds-media-id': 'med_1' }).end();
    });
    await clientOf(service.url).upload(new Blob([content]));
    expect(thief.requests).toEqual([]);
    expect(service.requests[1]).toBe('PATCH /control/v1/uploads/upl_1');
  });

  it('an address that is no upload is refused', async () => {
    await using service = await startServer((_, response) => created(response, '/control/v1/uploads/..'));
    const error = await rejection(clientOf(service.url).upload(new Blob([content])));
    expect(String(error)).toContain('for the address of an upload');
    expect(service.requests).toEqual(['POST /control/v1/uploads']);
  });
});

it("behind a proxy, uploads use the client's address, not the service's", async () => {
  await using service = await startServer((request, response) => {
    if (request.method === 'POST') created(response, 'http://internal:8080/control/v1/uploads/upl_1');
    else response.writeHead(500).end();
  });
  await rejection(clientOf(`${service.url}/mds`).upload(new Blob([content])));
  expect(service.requests.slice(0, 2)).toEqual(['POST /mds/control/v1/uploads', 'PATCH /mds/control/v1/uploads/upl_1']);
});

it('sends name, duplicates, checksum and key of the file; the default key is random', async () => {
  await using service = await startTusService();
  const { upload } = clientOf(service.url);
  const checksum = 'a'.repeat(64);
  await upload(new Blob([content]), { filename: 'a, b.mp4', duplicate: 'allow', checksum, idempotencyKey: 'key' });
  await upload(new Blob([content]));
  const [first, second] = service.arrived.map(({ metadata }) => metadata);
  expect(first).toEqual({ filename: 'a, b.mp4', duplicate: 'allow', checksum, idempotency_key: 'key' });
  expect(second).toEqual({ idempotency_key: expect.stringMatching(/^[0-9a-f]{32}$/) });
});
