import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createClient,
  createFileUploadStore,
  createWebUploadStore,
  type ResumableBody,
  type ResumableProgress,
  type UploadOptions,
} from '../src/index.ts';
import { startCuttingProxy } from './cutting-proxy.ts';
import { rejection, startServer } from './http-server.ts';
import { startTusService } from './tus-service.ts';

const MIB = 1024 * 1024;
const content = randomBytes(12 * MIB + 17);
const sha256 = createHash('sha256').update(content).digest('hex');
let folder: string;
let file: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-upload-'));
  file = join(folder, 'content.bin');
  await writeFile(file, content);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Pieces of odd sizes, so that no piece ends where a chunk ends. */
async function* pieces(bytes: Buffer = content): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 70_001) yield bytes.subarray(at, at + 70_001);
}

function webStream(): ReadableStream<Uint8Array> {
  return Readable.toWeb(Readable.from(pieces())) as ReadableStream<Uint8Array>;
}

function clientOf(url: string) {
  return createClient({ baseUrl: url, token: 'secret' }).control.media;
}

const bodies: [string, () => ResumableBody, UploadOptions][] = [
  ['bytes', () => new Uint8Array(content), {}],
  ['a Blob', () => new Blob([content]), {}],
  ['a File', () => new File([content], 'film.mp4'), {}],
  ['a ReadableStream', () => webStream(), { bytes: content.length }],
  ['a ReadableStream of unknown length', () => webStream(), {}],
  ['an async iterable', () => pieces(), {}],
  ['a Node stream', () => Readable.from(pieces()), {}],
  ['a function that opens a file', () => () => createReadStream(file), { bytes: content.length }],
  ['a function that opens a file of unknown length', () => () => createReadStream(file), {}],
  [
    'a file that opens at any offset',
    () => ({ bytes: content.length, open: (start) => createReadStream(file, { start }) }),
    {},
  ],
  [
    'a file, in chunks',
    () => ({ bytes: content.length, open: (start) => createReadStream(file, { start }) }),
    { chunkBytes: 5 * MIB },
  ],
  ['a Blob, in chunks', () => new Blob([content]), { chunkBytes: 5 * MIB }],
  ['a stream whose end is the end of a chunk', () => pieces(), { chunkBytes: content.length }],
];

describe('uploads arrive byte for byte', () => {
  it.each(bodies)('%s', async (_, body, options) => {
    await using service = await startTusService();
    const { media, created } = await clientOf(service.url).upload(body(), { filename: 'fílm.mp4', ...options });
    expect(service.arrived).toMatchObject([{ sha256, metadata: { filename: 'fílm.mp4' } }]);
    expect([media.id, media.sha256, created]).toEqual([service.arrived[0]?.id, sha256, true]);
    expect(service.headers.every(({ authorization }) => authorization === 'Bearer secret')).toBe(true);
  });

  it.each(bodies)('%s, over a network that breaks repeatedly', async (_, body, options) => {
    await using service = await startTusService();
    await using network = await startCuttingProxy(service.url, [2 * MIB, 300, 3 * MIB, 3 * MIB, MIB]);
    await clientOf(network.url).upload(body(), options);
    expect(network.cuts()).toBe(5);
    expect(service.arrived.map((it) => it.sha256)).toEqual([sha256]);
  });
});

it.each<[string, ResumableBody]>([
  ['bytes', new Uint8Array()],
  ['a stream', pieces(Buffer.alloc(0))],
  ['a function', () => pieces(Buffer.alloc(0))],
])('an empty body is uploaded as well: %s', async (_, body) => {
  await using service = await startTusService();
  await clientOf(service.url).upload(body, {});
  expect(service.arrived).toMatchObject([{ bytes: 0 }]);
});

it("resumes at the service's offset and sends nothing twice", async () => {
  await using service = await startTusService();
  await using network = await startCuttingProxy(service.url, [6 * MIB]);
  const opened: number[] = [];
  const open = (start: number) => {
    opened.push(start);
    return createReadStream(file, { start });
  };
  await clientOf(network.url).upload({ bytes: content.length, open });
  expect(opened).toEqual(service.patchedFrom());
  expect(opened[0]).toBe(0);
  expect(opened[1]).toBeGreaterThan(MIB);
});

it('a stream resumes after its length was announced, and announces it only once', async () => {
  await using service = await startTusService();
  await using network = await startCuttingProxy(service.url, [4 * MIB]);
  await clientOf(network.url).upload(pieces(), { chunkBytes: 2 * content.length });
  const lengths = service.headers.filter((_, n) => service.requests[n]?.startsWith('PATCH '));
  expect(lengths.map((headers) => headers['upload-length'])).toEqual([String(content.length), undefined]);
  expect(service.arrived.map((it) => it.sha256)).toEqual([sha256]);
});

it('an upload survives more breaks than retries while it makes progress', async () => {
  await using service = await startTusService();
  await using network = await startCuttingProxy(service.url, Array<number>(6).fill(1.5 * MIB));
  await clientOf(network.url).upload(new Blob([content]), { maxRetries: 2 });
  expect(service.arrived.map((it) => it.sha256)).toEqual([sha256]);
});

it('reports accepted bytes, falls back to them after a break, and ends complete', async () => {
  await using service = await startTusService();
  await using network = await startCuttingProxy(service.url, [5 * MIB]);
  const seen: ResumableProgress[] = [];
  await clientOf(network.url).upload(new Blob([content]), { onProgress: (progress) => seen.push(progress) });
  const resumedAt = service.patchedFrom()[1];
  expect(seen.at(-1)).toEqual({ sentBytes: content.length, acceptedBytes: content.length, totalBytes: content.length });
  expect(seen.some(({ sentBytes, acceptedBytes }) => sentBytes > acceptedBytes)).toBe(true);
  const falls = seen.filter(({ sentBytes }, n) => sentBytes < (seen[n - 1]?.sentBytes ?? 0));
  expect(falls).toEqual([{ sentBytes: resumedAt, acceptedBytes: resumedAt, totalBytes: content.length }]);
  for (const [n, { acceptedBytes }] of seen.entries())
    expect(acceptedBytes).toBeGreaterThanOrEqual(seen[n - 1]?.acceptedBytes ?? 0);
});

it('an error thrown by onProgress ends the upload unchanged', async () => {
  await using service = await startTusService();
  const own = new Error('enough');
  const onProgress = ({ sentBytes }: ResumableProgress) => {
    if (sentBytes > 0) throw own;
  };
  expect(await rejection(clientOf(service.url).upload(new Blob([content]), { onProgress }))).toBe(own);
  expect(service.requests.filter((line) => !/^(POST|PATCH|DELETE) /.test(line))).toEqual([]);
});

/** An upload of `content` that its caller aborts after a part of it was accepted. */
async function leaveUnfinished(url: string, options: UploadOptions): Promise<void> {
  const stop = new AbortController();
  const upload = clientOf(url).upload(new Blob([content]), {
    ...options,
    chunkBytes: MIB,
    signal: stop.signal,
    onProgress: ({ acceptedBytes }) => acceptedBytes > 0 && stop.abort(),
  });
  expect(await rejection(upload)).toBe(stop.signal.reason);
}

describe('with a resumeKey', () => {
  it('a later call resumes an aborted one, which rejects at once with its own reason', async () => {
    await using service = await startTusService();
    const stop = new AbortController();
    const options = { resumeKey: 'film', resumeStore: createFileUploadStore(join(folder, 'aborted')) };
    const first = clientOf(service.url).upload(new Blob([content]), {
      ...options,
      chunkBytes: MIB,
      signal: stop.signal,
      onProgress: ({ acceptedBytes }) => acceptedBytes >= 4 * MIB && stop.abort(new Error('later')),
    });
    expect(await rejection(first)).toBe(stop.signal.reason);
    expect(service.requests.filter((line) => line.startsWith('DELETE'))).toEqual([]);

    await clientOf(service.url).upload(pieces(), { ...options, bytes: content.length });
    expect(service.patchedFrom().filter((offset) => offset === 0)).toHaveLength(1);
    expect(service.arrived.map((it) => it.sha256)).toEqual([sha256]);
    expect(await readdir(join(folder, 'aborted'))).toEqual([]);
  });

  it('content of another length starts again, and the old upload is deleted', async () => {
    await using service = await startTusService();
    const options = { resumeKey: 'film', resumeStore: createFileUploadStore(join(folder, 'changed')) };
    await leaveUnfinished(service.url, options);
    const changed = content.subarray(1000);
    await clientOf(service.url).upload(new Blob([changed]), options);
    expect(service.arrived.map(({ bytes }) => bytes)).toEqual([changed.length]);
    expect(service.requests.filter((line) => line.startsWith('DELETE'))).toHaveLength(1);
  });

  it('a forgotten upload starts again, with progress from 0', async () => {
    await using service = await startTusService();
    const options = { resumeKey: 'film', resumeStore: createFileUploadStore(join(folder, 'forgotten')) };
    await leaveUnfinished(service.url, options);
    await service.forgetUploads();
    const seen: number[] = [];
    await clientOf(service.url).upload(new Blob([content]), {
      ...options,
      onProgress: ({ sentBytes }) => seen.push(sentBytes),
    });
    expect(seen[0]).toBe(0);
    expect(service.arrived.map((it) => it.sha256)).toEqual([sha256]);
  });

  it('a foreign address in the store never gets the token', async () => {
    await using service = await startTusService();
    await using thief = await startServer((_, response) => void response.writeHead(200).end());
    const kept = new Map<string, string>();
    const storage = {
      getItem: () => `${thief.url}/control/v1/uploads/x`,
      setItem: (key: string, value: string) => void kept.set(key, value),
      removeItem: (key: string) => void kept.delete(key),
    };
    await clientOf(service.url).upload(new Blob([content]), {
      resumeKey: 'k',
      resumeStore: createWebUploadStore(storage),
    });
    expect(thief.requests).toEqual([]);
    expect(service.arrived).toHaveLength(1);
  });

  it('a store that cannot save fails the upload at once', async () => {
    await using service = await startTusService();
    const resumeStore = createFileUploadStore(join(file, 'not-a-folder'));
    const error = await rejection(clientOf(service.url).upload(new Blob([content]), { resumeKey: 'k', resumeStore }));
    expect(String(error)).toContain('the resume store: ');
    expect(service.patchedFrom()).toEqual([]);
  });
});

it('without a resumeKey, a failed upload is deleted', async () => {
  let dropped: () => void = () => undefined;
  const deleted = new Promise<void>((resolve) => {
    dropped = resolve;
  });
  await using service = await startTusService((request) => {
    if (request.method === 'DELETE') dropped();
    return false;
  });
  const stop = new AbortController();
  const uploading = clientOf(service.url).upload(new Blob([content]), {
    chunkBytes: MIB,
    signal: stop.signal,
    onProgress: ({ acceptedBytes }) => acceptedBytes > 0 && stop.abort(),
  });
  expect(await rejection(uploading)).toBe(stop.signal.reason);
  await deleted;
});
