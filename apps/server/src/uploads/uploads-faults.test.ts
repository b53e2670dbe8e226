import { once } from 'node:events';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { smallVolume } from '../../test/support/small-volume.ts';
import { originalKey } from '../base/object-key.ts';
import { sha256 } from '../ingest/ingest.fixture.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { OFFSET_OCTETS, type RunningUploads, uploadsFixture } from './uploads.fixture.ts';

const fixture = uploadsFixture();
const { ingest } = fixture;
const picture = noisePng('a', 300, 200);

const at = (offset: number) => ({ ...OFFSET_OCTETS, 'upload-offset': String(offset) });
const idOf = (path: string) => path.split('/').pop() ?? '';
const uploads = () => ingest.repositories.uploads;

/** Waits until that much of an upload is on disk, without a request that would interrupt its sender. */
const arrived = ({ uploads: running }: RunningUploads, bytes: number) =>
  expect.poll(async () => (await running.stats()).receivedBytes, { timeout: 10_000 }).toBe(bytes);

const expectWhole = async (mediaId: string | null) => {
  const media = await ingest.repositories.media.find(mediaId ?? '');
  expect(media?.sha256).toBe(sha256(picture));
  expect((await ingest.store.readAll(originalKey(media?.sha256 ?? '')))?.equals(picture)).toBe(true);
};

describe('fault 11: interrupted and rival senders', () => {
  it('a client that dies half-way keeps its bytes and sends only the rest', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    const sending = running.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 50_000));
    await arrived(running, 50_000);
    sending.cut();
    expect(await running.head(path)).toMatchObject({ status: 200, offset: 50_000 });
    await expectWhole((await running.patch(path, 50_000, picture.subarray(50_000))).mediaId);
  });

  it('a silent client is cut off, but its bytes are kept and acknowledged', async () => {
    const running = await fixture.run({ idleMs: 200 });
    const path = await running.create(picture.length);
    const sending = running.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 5000));
    expect(await sending.answer).toMatchObject({ status: 204, offset: 5000, headers: { connection: 'close' } });
    expect(await running.head(path)).toMatchObject({ offset: 5000 });
  });

  it('of two simultaneous PATCHes, the second continues at the offset of the first', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    const first = running.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    first.send(picture.subarray(0, 70_000));
    await arrived(running, 70_000);
    const rival = await running.patch(path, 0, Buffer.alloc(1000, 0xee));
    expect(rival).toMatchObject({ status: 409, code: 'upload_offset_conflict' });
    expect(await first.answer).toMatchObject({ status: 204, offset: 70_000 });
    // Later bytes of the first sender are discarded.
    first.send(Buffer.alloc(1000, 0xdd));
    expect(await running.head(path)).toMatchObject({ offset: 70_000 });
    await expectWhole((await running.patch(path, 70_000, picture.subarray(70_000))).mediaId);
  });

  it('many simultaneous senders of one upload put no byte out of place', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    let done: string | null = null;
    const insist = async (step: number) => {
      for (let tries = 0; tries < 500 && done === null; tries++) {
        const { offset, mediaId } = await running.head(path);
        done ??= mediaId;
        if (offset === null || mediaId !== null) continue;
        const answer = await running.patch(path, offset, picture.subarray(offset, offset + step));
        expect([204, 409, 413, 423], JSON.stringify(answer)).toContain(answer.status);
        done ??= answer.mediaId;
      }
    };
    await Promise.all([7000, 11_000, 13_000, 17_000].map(insist));
    await expectWhole(done);
    expect(await ingest.objects()).toHaveLength(1);
  }, 60_000);

  it('a sender that dies while it waits does not block the next one', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    const sendings = Array.from({ length: 5 }, () => {
      const sending = running.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
      sending.send(picture.subarray(0, 100));
      return sending;
    });
    for (const sending of sendings) sending.cut();
    const { offset, status } = await running.head(path);
    expect(status).toBe(200);
    await expectWhole((await running.patch(path, offset ?? -1, picture.subarray(offset ?? 0))).mediaId);
  });

  it('a request is refused by its headers before its body is requested', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    const socket = connect(running.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(
      `PATCH ${path} HTTP/1.1\r\nHost: x\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 7\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n`,
    );
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 409 /);
    socket.destroy();
  });
});

describe('after a crash', () => {
  /** Restarts the service on the same folder and database. */
  const restart = async (running: RunningUploads) => {
    await running.crash();
    return fixture.run();
  };

  it('an upload continues at its offset, with the hash of all its bytes', async () => {
    const before = await fixture.run();
    const path = await before.create(picture.length);
    const sending = before.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 80_000));
    await arrived(before, 80_000);
    const after = await restart(before);
    expect(await after.head(path)).toMatchObject({ status: 200, offset: 80_000 });
    await expectWhole((await after.patch(path, 80_000, picture.subarray(80_000))).mediaId);
  });

  it('a complete upload that was not accepted yet is accepted at startup', async () => {
    const before = await fixture.run();
    const path = await before.create(picture.length, { filename: 'kept.png' });
    await writeFile(join(before.folder, idOf(path)), picture);
    await restart(before);
    await expect.poll(async () => (await uploads().find(idOf(path)))?.state, { timeout: 10_000 }).toBe('accepted');
    await expectWhole((await uploads().find(idOf(path)))?.mediaId ?? null);
  });

  it.each(['HEAD', 'PATCH'])('a complete upload is accepted at the next %s', async (method) => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    await writeFile(join(running.folder, idOf(path)), picture);
    const answer = await running.ask(method, path, method === 'HEAD' ? {} : at(picture.length));
    expect(answer).toMatchObject({ offset: picture.length, mediaId: expect.stringMatching(/^med_/) });
    await expectWhole(answer.mediaId);
  });

  it('an upload whose response was lost gives the same media object again', async () => {
    const accept = ingest.makeIngest().accept;
    const dying = await fixture.run({
      ingest: {
        accept: async (input) => {
          await accept(input);
          throw new Error('the process ends between the media object and the record of the upload');
        },
      },
    });
    const path = await dying.create(picture.length, { duplicate: 'allow' });
    expect(await dying.patch(path, 0, picture)).toMatchObject({ status: 500 });
    const after = await restart(dying);
    const { mediaId, headers } = await after.head(path);
    expect(headers).toMatchObject({ 'mds-media-created': 'true' });
    await expectWhole(mediaId);
    expect(await ingest.repositories.media.page({ projectId: 'default', limit: 10, before: null })).toHaveLength(1);
  });

  it('an upload that failed for a passing reason is accepted at the next request', async () => {
    const full = { accept: async () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })) };
    const before = await fixture.run({ ingest: full });
    const path = await before.create(picture.length);
    expect(await before.patch(path, 0, picture)).toMatchObject({ status: 507, code: 'insufficient_storage' });
    expect((await uploads().find(idOf(path)))?.state).toBe('open');
    const after = await restart(before);
    await expectWhole((await after.head(path)).mediaId);
  });

  it('files without an upload are removed at startup, foreign files are kept', async () => {
    const before = await fixture.run();
    const path = await before.create(picture.length);
    const stray = [`upl_${'0'.repeat(26)}`, `${idOf(path)}.whole`];
    for (const name of [...stray, 'fch_of_somebody_else']) await writeFile(join(before.folder, name), 'x');
    await restart(before);
    expect((await readdir(before.folder)).sort()).toEqual(['fch_of_somebody_else', idOf(path)]);
  });

  it('an upload whose file is lost starts again at 0', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    await running.patch(path, 0, picture.subarray(0, 100));
    await rm(join(running.folder, idOf(path)));
    expect(await running.head(path)).toMatchObject({ offset: 0 });
    await expectWhole((await running.patch(path, 0, picture)).mediaId);
  });

  it('an orderly stop acknowledges the received bytes and accepts no more', async () => {
    const running = await fixture.run();
    const path = await running.create(picture.length);
    const sending = running.open('PATCH', path, { ...at(0), 'content-length': String(picture.length) });
    sending.send(picture.subarray(0, 30_000));
    await arrived(running, 30_000);
    running.uploads.endBodies();
    expect(await sending.answer).toMatchObject({ status: 204, offset: 30_000 });
    expect(await running.head(path)).toMatchObject({ status: 503 });
    const after = await restart(running);
    await expectWhole((await after.patch(path, 30_000, picture.subarray(30_000))).mediaId);
  });
});

describe('fault 17: no room for uploads', () => {
  const volume = smallVolume({ mebibytes: 1 });

  it.skipIf(!volume.available)(
    'a disk that fills up gives 507 and a true offset; the upload resumes later',
    async () => {
      await volume.use(async (folder) => {
        // No check saw this disk before: the upload exceeds the room left, as if others had filled the disk.
        const blind = createStagingSpace({ folder: ingest.root, maxBytes: 0, minFreeBytes: 0 });
        const filler = join(folder, 'filler');
        await writeFile(filler, Buffer.alloc(900_000));
        const running = await fixture.run({ folder, space: blind });
        const path = await running.create(picture.length);
        const refused = await running.patch(path, 0, picture);
        expect(refused).toMatchObject({ status: 507, code: 'insufficient_storage' });
        expect(refused.detail).toContain('HEAD');
        const { offset, status } = await running.head(path);
        expect(status).toBe(200);
        expect(offset).toBeGreaterThan(0);
        expect(offset).toBeLessThan(picture.length);
        expect((await running.patch(path, offset ?? 0, picture.subarray(offset ?? 0))).status).toBe(507);
        await rm(filler);
        const now = (await running.head(path)).offset ?? 0;
        await expectWhole((await running.patch(path, now, picture.subarray(now))).mediaId);
      });
    },
    30_000,
  );

  it('an announced length without room gives 507 at creation and creates nothing', async () => {
    const full = createStagingSpace({ folder: ingest.root, maxBytes: 0, minFreeBytes: Number.MAX_SAFE_INTEGER });
    const running = await fixture.run({ space: full });
    await expect(running.create(10)).rejects.toThrow('507');
    expect(await readdir(running.folder)).toEqual([]);
    expect(await uploads().countOpen()).toBe(0);
  });

  it('a full staging space gives 507 with Retry-After until uploads end', async () => {
    const space = createStagingSpace({ folder: ingest.root, maxBytes: picture.length + 10, minFreeBytes: 0 });
    const running = await fixture.run({ space });
    const path = await running.create(picture.length);
    const refused = await running.ask('POST', '/control/v1/uploads', { 'upload-length': '11' });
    expect(refused).toMatchObject({ status: 507, headers: { 'retry-after': '60' } });
    const ended = await running.create(10);
    await running.ask('DELETE', ended);
    expect(space.reservedBytes).toBe(picture.length);
    await expectWhole((await running.patch(path, 0, picture)).mediaId);
    expect(space.reservedBytes).toBe(0);
    await running.create(picture.length + 10);
  });

  it('an upload of unknown length gets 507 at the limit and resumes later', async () => {
    const space = createStagingSpace({ folder: ingest.root, maxBytes: picture.length + 1000, minFreeBytes: 0 });
    const running = await fixture.run({ space });
    const other = await running.create(picture.length);
    const path = await running.create(null);
    expect(await running.patch(path, 0, picture.subarray(0, 1000))).toMatchObject({ status: 204, offset: 1000 });
    expect(await running.patch(path, 1000, picture.subarray(1000))).toMatchObject({ status: 507 });
    expect(await running.head(path)).toMatchObject({ status: 200, offset: 1000 });
    await running.ask('DELETE', other);
    expect(await running.patch(path, 1000, picture.subarray(1000))).toMatchObject({
      status: 204,
      offset: picture.length,
    });
  });

  it('the room of unfinished uploads is reserved again after a restart', async () => {
    const before = await fixture.run();
    const path = await before.create(picture.length);
    await before.patch(path, 0, picture.subarray(0, 1000));
    await before.crash();
    const space = createStagingSpace({ folder: ingest.root, maxBytes: 0, minFreeBytes: 0 });
    const after = await fixture.run({ space });
    expect(space.reservedBytes).toBe(picture.length);
    await after.patch(path, 1000, picture.subarray(1000));
    expect(space.reservedBytes).toBe(0);
  });
});
