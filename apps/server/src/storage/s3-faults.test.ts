import { access, readdir, readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { CreateMultipartUploadCommand, ListMultipartUploadsCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { collectGarbage } from '../../test/support/collect-garbage.ts';
import { flipped, framed, type ProxiedRequest, type S3Fault } from '../../test/support/faulty-s3-proxy.ts';
import { readOf, type S3Bench, sha256Of, someBytes, useS3Server, withoutS3Server } from './s3.fixture.ts';

const MIB = 1024 * 1024;
const isPut = ({ method, key, query }: ProxiedRequest) => method === 'PUT' && key !== '' && !query.has('partNumber');
const isPart = ({ method, query }: ProxiedRequest) => method === 'PUT' && query.has('partNumber');
const isGet = ({ method, key }: ProxiedRequest) => method === 'GET' && key !== '';

/** Applies `fault` to the first `times` requests of a kind. */
function spoilFirst(bench: S3Bench, times: number, which: (request: ProxiedRequest) => boolean, fault: S3Fault): void {
  let left = times;
  bench.proxy.spoil = (request) => (which(request) && left-- > 0 ? fault : undefined);
}

/** The code of an error, or the number of bytes read, so that a failing test does not print them all. */
async function outcomeOf(reading: Promise<Buffer | null>): Promise<unknown> {
  return reading.then(
    (content) => content?.length ?? null,
    (error: unknown) => (error as { code?: unknown }).code ?? error,
  );
}

describe.skipIf(withoutS3Server('faults of S3'))('a faulty object storage', () => {
  const s3 = useS3Server();
  const uploadsLeft = async (Bucket: string) =>
    (await s3.server.client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads ?? [];

  describe('fault 19: a storage that stores other bytes than it receives', () => {
    it.each([
      ['frames the body', isPut, framed, 300_000],
      ['flips a bit', isPut, (body: Buffer) => flipped(body, 1000), 300_000],
      ['cuts the body short', isPut, (body: Buffer) => body.subarray(0, -1), 300_000],
      ['frames a part', isPart, framed, 6 * MIB],
      ['flips a bit of a part', isPart, (body: Buffer) => flipped(body, 1000), 6 * MIB],
    ] as const)('if it %s once, the put detects that and repeats it', async (_, which, store, bytes) => {
      const bench = await s3.bench();
      const content = someBytes(bytes);
      spoilFirst(bench, 1, which, { store });
      await bench.store.put('a/object', await bench.staged(content));
      expect(bench.proxy.spoiled).toBe(1);
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
      expect(bench.log.join()).toContain('storage_damages');
    });

    it('if it always does, the put fails with 503, keeps the file and leaves no object', async () => {
      const bench = await s3.bench();
      const file = await bench.staged(someBytes(300_000));
      bench.proxy.spoil = (request) => (isPut(request) ? { store: framed } : undefined);
      await expect(bench.store.put('a/object', file)).rejects.toMatchObject({ code: 'unavailable', status: 503 });
      await access(file.path);
      expect(await bench.store.stat('a/object')).toBeNull();
    });

    it('if a put was killed before its check, the next put repairs the object', async () => {
      const bench = await s3.bench();
      const content = someBytes(300_000);
      const Metadata = { sha256: sha256Of(content) };
      const damaged = { Bucket: bench.bucket, Key: 'objects/a/object', Body: flipped(content, 7), Metadata };
      await s3.server.client.send(new PutObjectCommand(damaged));
      await bench.store.put('a/object', await bench.staged(content));
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
    });

    it('if key and size match but the bytes differ, the put replaces the object', async () => {
      const bench = await s3.bench();
      await bench.store.put('a/object', await bench.staged(Buffer.from('those bytes')));
      await bench.store.put('a/object', await bench.staged(Buffer.from('other bytes')));
      expect((await readOf(bench.store, 'a/object'))?.toString()).toBe('other bytes');
    });
  });

  describe('fault 19: a flipped bit', () => {
    it('in an upload is detected by the signature, and the body is sent again', async () => {
      const bench = await s3.bench();
      const content = someBytes(300_000);
      spoilFirst(bench, 1, isPut, { flipRequestAt: 5 });
      await bench.store.put('a/object', await bench.staged(content));
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
    });

    it('in a download into a local copy is detected, and the copy is fetched again', async () => {
      const bench = await s3.bench();
      const content = someBytes(300_000);
      await bench.store.put('a/object', await bench.staged(content));
      spoilFirst(bench, 1, isGet, { flipAnswerAt: 5 });
      const copy = await bench.store.localFile('a/object');
      expect(bench.proxy.spoiled).toBe(1);
      expect((await readFile(copy?.path ?? '')).equals(content)).toBe(true);
      await copy?.release();
      expect(await readdir(bench.scratchDir)).toEqual([]);
    });

    it('in the stored object reaches no program, and no copy remains', async () => {
      const bench = await s3.bench();
      const content = someBytes(300_000);
      await bench.store.put('a/object', await bench.staged(content));
      bench.proxy.spoil = (request) => (isGet(request) ? { flipAnswerAt: 5 } : undefined);
      await expect(bench.store.localFile('a/object')).rejects.toMatchObject({ code: 'object_corrupt' });
      expect(await readdir(bench.scratchDir)).toEqual([]);
    });
  });

  describe('fault 19: a storage that fails, refuses or does not answer', () => {
    it.each([
      ['500', { answer: 500, code: 'InternalError' }],
      ['SlowDown', { answer: 503, code: 'SlowDown' }],
    ] as const)('occasional %s answers are retried unnoticed', async (_, fault) => {
      const bench = await s3.bench();
      const content = someBytes(11 * MIB);
      let count = 0;
      bench.proxy.spoil = () => (count++ % 3 === 0 ? fault : undefined);
      await bench.store.put('a/object', await bench.staged(content));
      expect(await bench.store.stat('a/object')).toEqual({ bytes: content.length });
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
      await bench.store.delete('a/object');
      for await (const { key } of bench.store.list('')) expect.unreachable(key);
      expect(bench.proxy.spoiled).toBeGreaterThan(3);
    });

    it('a lasting SlowDown is reported with Retry-After, in bounded time', async () => {
      const bench = await s3.bench({ limits: { attempts: 2 } });
      const file = await bench.staged(someBytes(6 * MIB));
      bench.proxy.spoil = () => ({ answer: 503, code: 'SlowDown' });
      const failed = { code: 'unavailable', status: 503, headers: { 'Retry-After': expect.stringMatching(/^\d+$/) } };
      await expect(bench.store.put('a/object', file)).rejects.toMatchObject(failed);
      await expect(bench.store.read('a/object')).rejects.toMatchObject(failed);
      await expect(bench.store.stat('a/object')).rejects.toMatchObject(failed);
      await expect(bench.store.probe()).rejects.toMatchObject(failed);
      await access(file.path);
    });

    it('a full or read-only storage is reported with 507, like a full disk', async () => {
      const bench = await s3.bench();
      const refused = { code: 'insufficient_storage', status: 507 };
      const file = await bench.staged(someBytes(1000));
      for (const fault of [
        { answer: 507, code: 'InsufficientStorage' },
        { answer: 403, code: 'QuotaExceeded' },
        { answer: 403, code: 'AccessDenied' },
      ] as const) {
        bench.proxy.spoil = (request) => (isPut(request) ? fault : undefined);
        await expect(bench.store.put('a/object', file), fault.code).rejects.toMatchObject(refused);
      }
      await access(file.path);
    });

    it('a request without an answer fails after its timeout', async () => {
      const bench = await s3.bench({ limits: { requestMs: 300, uploadMs: 300, silenceMs: 300, attempts: 2 } });
      bench.proxy.spoil = () => 'silence';
      const file = await bench.staged(someBytes(1000));
      await expect(bench.store.put('a/object', file)).rejects.toMatchObject({ code: 'unavailable' });
      await expect(bench.store.read('a/object')).rejects.toMatchObject({ code: 'unavailable' });
    });
  });

  describe('fault 19: connections that break', () => {
    it('in a request body: it is sent again, and nothing of the first attempt remains', async () => {
      const bench = await s3.bench();
      const content = someBytes(11 * MIB);
      spoilFirst(bench, 2, isPart, { cutRequestAfter: MIB });
      await bench.store.put('a/object', await bench.staged(content));
      expect(bench.proxy.spoiled).toBe(2);
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
      expect(await uploadsLeft(bench.bucket)).toEqual([]);
    });

    it('in every upload of a part: the put fails and its parts are removed', async () => {
      const bench = await s3.bench({ limits: { attempts: 2 } });
      const file = await bench.staged(someBytes(11 * MIB));
      bench.proxy.spoil = (request) =>
        isPart(request) && request.query.get('partNumber') === '3' ? { cutRequestAfter: MIB } : undefined;
      await expect(bench.store.put('a/object', file)).rejects.toMatchObject({ code: 'unavailable' });
      expect(await bench.store.stat('a/object')).toBeNull();
      expect(await uploadsLeft(bench.bucket)).toEqual([]);
    });

    it('in a download: the stream resumes at the same offset', async () => {
      const bench = await s3.bench();
      const content = someBytes(6 * MIB);
      await bench.store.put('a/object', await bench.staged(content));
      bench.proxy.requests.length = 0;
      spoilFirst(bench, 3, isGet, { cutAnswerAfter: MIB });
      const read = await bench.store.read('a/object', { start: 1000, end: 5 * MIB });
      expect(read?.bytes).toBe(5 * MIB - 999);
      expect(read && (await buffer(read.stream)).equals(content.subarray(1000, 5 * MIB + 1))).toBe(true);
      expect(bench.proxy.requests.filter(isGet)).toHaveLength(4);
    });

    it('by silence in a download: the stream resumes on another connection', async () => {
      const bench = await s3.bench();
      const content = someBytes(2 * MIB);
      await bench.store.put('a/object', await bench.staged(content));
      const resuming = await bench.open({ limits: { silenceMs: 500 } });
      spoilFirst(bench, 1, isGet, { stallAnswerAfter: MIB });
      expect((await readOf(resuming, 'a/object'))?.equals(content)).toBe(true);
    });

    it('in every download: the stream fails, and never ends as if it were complete', async () => {
      const bench = await s3.bench();
      const content = someBytes(2 * MIB);
      await bench.store.put('a/object', await bench.staged(content));
      for (const fault of [{ cutAnswerAfter: 0 }, { endAnswerAfter: 1000 }] as const) {
        bench.proxy.spoil = (request) => (isGet(request) ? fault : undefined);
        expect(await outcomeOf(readOf(bench.store, 'a/object'))).toBe('unavailable');
        expect(await outcomeOf(bench.store.readAll('a/object'))).toBe('unavailable');
      }
    });

    it('after the parts were joined, before the answer: the put succeeds', async () => {
      const bench = await s3.bench();
      const content = someBytes(6 * MIB);
      let joins = 0;
      bench.proxy.spoil = ({ method, query }) => {
        if (method !== 'POST' || !query.has('uploadId')) return undefined;
        // At the retry, S3 no longer knows the upload.
        return joins++ === 0 ? { cutAnswerAfter: 'lost' } : { answer: 404, code: 'NoSuchUpload' };
      };
      await bench.store.put('a/object', await bench.staged(content));
      expect(joins).toBe(2);
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
    });
  });

  describe('fault 19: a storage that ignores preconditions', () => {
    it('breaks no write: two simultaneous puts of the same object both succeed', async () => {
      const bench = await s3.bench();
      const content = someBytes(6 * MIB);
      const other = await bench.open();
      const files = [await bench.staged(content), await bench.staged(content)] as const;
      await Promise.all([bench.store.put('a/object', files[0]), other.put('a/object', files[1])]);
      expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
      const writes = bench.proxy.requests.filter(({ method }) => method === 'PUT' || method === 'POST');
      for (const { headers } of writes) {
        expect(Object.keys(headers).filter((name) => name.startsWith('if-'))).toEqual([]);
      }
    });

    it('never makes a reader join the halves of two objects', async () => {
      const bench = await s3.bench();
      const [before, after] = [someBytes(3 * MIB), someBytes(3 * MIB)];
      await bench.store.put('a/object', await bench.staged(before));
      let reads = 0;
      bench.proxy.spoil = async (request) => {
        if (!isGet(request)) return undefined;
        if (reads++ === 0) return { cutAnswerAfter: MIB };
        const replaced = { Bucket: bench.bucket, Key: 'objects/a/object', Body: after };
        await s3.server.client.send(new PutObjectCommand(replaced));
        return 'ignore preconditions';
      };
      expect(await outcomeOf(readOf(bench.store, 'a/object'))).toBe('unavailable');
      expect(reads).toBeGreaterThan(1);
    });
  });

  describe('fault 19: a storage that hangs', () => {
    const failed = { code: 'unavailable', status: 503, headers: { 'Retry-After': expect.stringMatching(/^\d+$/) } };

    it('fails requests in bounded time, later ones at once, until it answers', async () => {
      const bench = await s3.bench();
      const limits = { hangMs: 1_500 };
      const store = await bench.open({ limits, endpoint: s3.server.endpoint });
      await store.put('a/object', await bench.staged(someBytes(32 * MIB)));
      const [small, large] = [await bench.staged(someBytes(1000)), await bench.staged(someBytes(11 * MIB))];
      const begun = await store.read('a/object');
      onTestFinished(() => s3.server.goOn());
      s3.server.hang();
      // Runs during the check whether the storage is alive: it may collect Node's own timers of abort signals.
      setTimeout(collectGarbage, 900);
      const asked = performance.now();
      await Promise.all([
        expect(begun && buffer(begun.stream)).rejects.toMatchObject(failed),
        expect(store.put('a/small', small)).rejects.toMatchObject(failed),
        expect(store.put('a/large', large)).rejects.toMatchObject(failed),
        expect(store.stat('a/object')).rejects.toMatchObject(failed),
        expect(store.delete('a/object')).rejects.toMatchObject(failed),
        // A node that starts during the hang.
        bench.open({ limits, endpoint: s3.server.endpoint }),
      ]);
      expect(performance.now() - asked).toBeLessThan(10_000);
      await Promise.all([access(small.path), access(large.path)]);
      const then = performance.now();
      await expect(store.put('a/small', small)).rejects.toMatchObject(failed);
      expect(performance.now() - then).toBeLessThan(500);
      s3.server.goOn();
      await expect.poll(() => store.put('a/small', small).catch(() => 'refused')).toBeUndefined();
      // Each of the two stores logs it once.
      expect(bench.log.filter((line) => line.includes('storage_silent'))).toHaveLength(2);
    });

    it('is distinguished from a slow one by its answers to other requests', async () => {
      const bench = await s3.bench({ limits: { hangMs: 1_000 } });
      bench.proxy.spoil = async (request) => {
        if (isPut(request)) await delay(3_000);
        return undefined;
      };
      await bench.store.put('a/object', await bench.staged(someBytes(1000)));
      expect(bench.proxy.requests.filter(isPut)).toHaveLength(1);
    });
  });

  it('fault 19: a kill during a put leaves the old object or the new one', async () => {
    const bench = await s3.bench({ limits: { attempts: 2 } });
    const content = someBytes(16 * MIB);
    const file = await bench.staged(content);
    const killed = new Promise<void>((resolve, reject) => {
      bench.proxy.spoil = (request) => {
        if (isPart(request) && request.query.get('partNumber') === '4') s3.server.kill9().then(resolve, reject);
        return undefined;
      };
    });
    await expect(bench.store.put('a/object', file)).rejects.toMatchObject({ code: 'unavailable' });
    await killed;
    await access(file.path);
    bench.proxy.spoil = () => undefined;
    await s3.server.restart();
    expect(await bench.store.stat('a/object')).toBeNull();
    await bench.store.put('a/object', file);
    expect((await readOf(bench.store, 'a/object'))?.equals(content)).toBe(true);
    // The next open of the store removes the parts of the killed put once they are old enough.
    expect(await uploadsLeft(bench.bucket)).toHaveLength(1);
    await bench.open({ staleUploadMs: 0 });
    await expect.poll(() => uploadsLeft(bench.bucket)).toEqual([]);
  });

  it('multipart uploads that may be in progress elsewhere are not removed', async () => {
    const bench = await s3.bench();
    await s3.server.client.send(new CreateMultipartUploadCommand({ Bucket: bench.bucket, Key: 'objects/a/young' }));
    bench.proxy.requests.length = 0;
    const store = await bench.open();
    await expect.poll(() => bench.proxy.requests.some(({ query }) => query.has('uploads'))).toBe(true);
    // After these probes, the store has received the list of uploads and has acted on it.
    for (let probes = 0; probes < 3; probes++) await store.probe();
    expect(bench.proxy.requests.filter(({ method, query }) => method === 'DELETE' && query.has('uploadId'))).toEqual(
      [],
    );
    expect(await uploadsLeft(bench.bucket)).toHaveLength(1);
  });
});
