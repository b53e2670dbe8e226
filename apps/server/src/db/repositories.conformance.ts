import { createHash } from 'node:crypto';
import { ulid } from 'ulid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KEPT_ATTEMPTS, type Lease, MAX_LOST_LEASES } from '../jobs/job-queue.ts';
import { originalKey } from '../storage/object-store.ts';
import type { NewMedia, NewRenditionFile, ProcessingResult } from './media-repository.ts';
import type { Repositories } from './repositories.ts';

type RenditionRow = ProcessingResult['renditions'][number];

const EXISTING = { duplicate: 'existing', idempotencyKey: null } as const;
const ALLOW = { duplicate: 'allow', idempotencyKey: null } as const;

/**
 * What the repositories must do, whatever database they keep things in.
 * @param open repositories over an empty database; the suite closes them
 */
export function repositoriesConformance(adapter: string, open: () => Promise<Repositories>): void {
  describe(`${adapter}: repositories conformance`, () => {
    let repositories: Repositories;
    let clockMs: number;
    beforeEach(async () => {
      repositories = await open();
      clockMs = Date.UTC(2026, 0, 31, 8, 15);
    });
    afterEach(() => repositories.close());

    const tick = (ms: number) => {
      clockMs += ms;
      return clockMs;
    };
    /** A medium, a second younger than the one before. Equal `content`, equal bytes. */
    const newMedium = (content: string, overrides: Partial<NewMedia> = {}): NewMedia => ({
      id: `med_${ulid(tick(1000)).toLowerCase()}`,
      projectId: 'default',
      createdAtMs: clockMs,
      contentType: 'image/png',
      bytes: 70,
      width: 640,
      height: 480,
      filename: 'picture ☃.png',
      sha256: createHash('sha256').update(content).digest('hex'),
      kind: 'image',
      format: 'png',
      durationMs: null,
      codecs: ['png'],
      warnings: ['The file has a strange end.'],
      identified: { kind: 'image', nested: { icc: true } },
      ...overrides,
    });
    const accept = async (content: string, overrides: Partial<NewMedia> = {}) => {
      const { media } = await repositories.media.accept(newMedium(content, overrides), EXISTING);
      return media;
    };
    const claim = async (): Promise<Lease> => {
      const lease = await repositories.jobs.claim('worker-1');
      if (lease === null) throw new Error('There is nothing to claim.');
      return lease;
    };
    const row = (overrides: Partial<RenditionRow> = {}): RenditionRow => ({
      name: 'thumb',
      extension: 'webp',
      contentType: 'image/webp',
      revision: '0000000a',
      current: true,
      state: 'pending',
      reason: null,
      objectKey: 'renditions/thumb.0000000a.webp',
      sha256: null,
      bytes: null,
      files: null,
      width: null,
      height: null,
      ...overrides,
    });
    const ready = (overrides: Partial<RenditionRow> = {}) =>
      row({ state: 'ready', sha256: 'f'.repeat(64), bytes: 10, files: 1, width: 320, height: 240, ...overrides });
    const result = (...renditions: RenditionRow[]): ProcessingResult => ({
      renditions,
      thumbhash: 'aGFzaA==',
      warnings: ['Recovered.'],
    });
    const thumbOf = (mediaId: string, revision: string | null = null) =>
      repositories.media.findRendition({ mediaId, name: 'thumb', extension: 'webp', revision });
    const crash = { code: 'engine_crashed', message: 'It crashed.', retryable: true };
    const failure = { code: 'corrupt_media', message: 'It is damaged.', retryable: false };

    describe('accepting', () => {
      it('keeps every field of a medium and puts it in the queue', async () => {
        const medium = newMedium('a', { durationMs: 1234, codecs: ['h264', 'aac'], kind: 'video' });
        const accepted = await repositories.media.accept(medium, { ...EXISTING, idempotencyKey: 'key' });
        const expected = { ...medium, status: 'queued', failure: null, attempts: 0, thumbhash: null };
        expect(accepted.created).toBe(true);
        expect(accepted.media).toMatchObject(expected);
        expect(await repositories.media.find(medium.id)).toMatchObject(expected);
        expect(await repositories.media.findBySha256('default', medium.sha256)).toMatchObject(expected);
        expect(await repositories.media.findByIdempotencyKey('default', 'key')).toMatchObject(expected);
        expect(await repositories.jobs.counts()).toMatchObject({ queued: 1, running: 0 });
      });

      it('has null for what is not there', async () => {
        expect(await repositories.media.find('med_none')).toBeNull();
        expect(await repositories.media.findBySha256('default', 'none')).toBeNull();
        expect(await repositories.media.findByIdempotencyKey('default', 'none')).toBeNull();
        expect(await thumbOf('med_none')).toBeNull();
        expect(await repositories.media.delete('med_none')).toBeNull();
        expect(await repositories.media.retry('med_none')).toBe(false);
        expect(await repositories.jobs.claim('worker-1')).toBeNull();
      });

      it('the same bytes twice are one medium and one job, unless the caller wants another', async () => {
        const first = await accept('a');
        const again = await repositories.media.accept(newMedium('a'), EXISTING);
        expect(again).toMatchObject({ created: false, media: { id: first.id } });
        expect((await repositories.jobs.counts()).queued).toBe(1);
        const another = await repositories.media.accept(newMedium('a'), ALLOW);
        expect(another.created).toBe(true);
        expect((await repositories.media.findBySha256('default', first.sha256))?.id).toBe(first.id);
      });

      it('two uploads of the same bytes at once are one medium', async () => {
        const outcomes = await Promise.all(
          Array.from({ length: 8 }, () => repositories.media.accept(newMedium('a'), EXISTING)),
        );
        expect(new Set(outcomes.map(({ media }) => media.id)).size).toBe(1);
        expect(outcomes.filter(({ created }) => created).length).toBe(1);
      });

      it("another project's medium of the same bytes is its own", async () => {
        await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
        await accept('a');
        const theirs = await repositories.media.accept(newMedium('a', { projectId: 'other' }), EXISTING);
        expect(theirs.created).toBe(true);
      });

      it('an idempotency key that is taken gives back the medium it made, whatever comes with it', async () => {
        const keyed = { ...EXISTING, idempotencyKey: 'key' };
        const { media } = await repositories.media.accept(newMedium('a'), keyed);
        for (const duplicate of ['existing', 'allow'] as const) {
          const again = await repositories.media.accept(newMedium('b'), { ...keyed, duplicate });
          expect(again).toMatchObject({ created: false, media: { id: media.id } });
        }
        await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
        const theirs = await repositories.media.accept(newMedium('c', { projectId: 'other' }), keyed);
        expect(theirs.created).toBe(true);
      });
    });

    describe('pages', () => {
      const walk = async (limit: number, onPage?: (ids: string[]) => Promise<unknown>) => {
        const seen: string[] = [];
        for (let before: string | null = null; ; ) {
          const page = await repositories.media.page({ projectId: 'default', limit, before });
          const publicPage = await repositories.media.publicPage({ projectId: 'default', limit, before });
          expect(page).toMatchObject(publicPage);
          expect(publicPage).toHaveLength(page.length);
          if (page.length === 0) return seen;
          const ids = page.map(({ id }) => id);
          seen.push(...ids);
          before = ids.at(-1) ?? null;
          await onPage?.(ids);
        }
      };

      it('walk through all media once, newest first', async () => {
        const ids: string[] = [];
        for (let n = 0; n < 7; n++) ids.unshift((await accept(`m${n}`)).id);
        expect(await walk(3)).toEqual(ids);
        expect(await walk(7)).toEqual(ids);
      });

      it('go on after the medium that the cursor names was deleted, and after new ones came', async () => {
        const ids: string[] = [];
        for (let n = 0; n < 6; n++) ids.unshift((await accept(`m${n}`)).id);
        const seen = await walk(2, async (page) => {
          await repositories.media.delete(page.at(-1) ?? '');
          await accept(`new-${page[0]}`);
        });
        expect(seen).toEqual(ids);
      });

      it("show no other project's media, and one status alone where asked", async () => {
        await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
        await accept('theirs', { projectId: 'other' });
        const failed = await accept('a');
        const queued = await accept('b');
        await repositories.media.fail(await claimFor(failed.id), failure);
        const page = (status?: 'failed' | 'queued') =>
          repositories.media.page({ projectId: 'default', limit: 10, before: null, ...(status && { status }) });
        expect((await page()).map(({ id }) => id)).toEqual([queued.id, failed.id]);
        expect((await page('failed')).map(({ id }) => id)).toEqual([failed.id]);
        expect((await page('queued')).map(({ id }) => id)).toEqual([queued.id]);
      });
    });

    /** Claims until the lease of that medium comes. */
    const claimFor = async (mediaId: string): Promise<Lease> => {
      for (;;) {
        const lease = await claim();
        if (lease.mediaId === mediaId) return lease;
      }
    };

    describe('jobs', () => {
      it('are handed out once each: the most urgent first, then the oldest', async () => {
        const low = await repositories.media.accept(newMedium('low'), { ...EXISTING, priority: 200 });
        const first = await accept('first');
        const second = await accept('second');
        const high = await repositories.media.accept(newMedium('high'), { ...EXISTING, priority: 1 });
        const order = [await claim(), await claim(), await claim(), await claim()];
        expect(order.map(({ mediaId }) => mediaId)).toEqual([high.media.id, first.id, second.id, low.media.id]);
        expect(new Set(order.map(({ token }) => token)).size).toBe(4);
        expect(order.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
        expect(await repositories.jobs.claim('worker-2')).toBeNull();
        expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 4, oldestDueMs: 0 });
      });

      it('are handed out in the order of acceptance, also those of one millisecond', async () => {
        const ids: string[] = [];
        for (let i = 0; i < 30; i++) ids.push((await accept(`${i}`)).id);
        const order: string[] = [];
        for (const _ of ids) order.push((await claim()).mediaId);
        expect(order).toEqual(ids);
      });

      it('a lease that is renewed shows it by its beat, without any clock', async () => {
        await accept('a');
        const lease = await claim();
        const [before] = await repositories.jobs.held();
        expect(await repositories.jobs.renew(lease)).toBe(true);
        const [after] = await repositories.jobs.held();
        expect(before).toMatchObject({ token: lease.token, worker: 'worker-1', mediaId: lease.mediaId });
        expect(after?.beat).toBeGreaterThan(before?.beat ?? Number.POSITIVE_INFINITY);
      });

      it('a lease that was taken away writes nothing: its worker may be alive, and late', async () => {
        const { id } = await accept('a');
        const late = await claim();
        expect(await repositories.jobs.reclaim(late.token, { counted: true })).toBe(true);
        expect(await repositories.jobs.reclaim(late.token, { counted: true })).toBe(false);
        const lease = await claim();
        expect(lease).toMatchObject({ mediaId: id, attempt: 1 });

        expect(await repositories.jobs.renew(late)).toBe(false);
        expect(await repositories.media.start(late, [row()])).toBe(false);
        expect(await repositories.media.publish(late, result(ready()))).toBe(false);
        expect(await repositories.media.fail(late, failure)).toBe(false);
        await repositories.jobs.giveBack(late, { kind: 'released' });
        expect(await repositories.media.renditions(id)).toEqual([]);
        expect((await repositories.media.find(id))?.status).toBe('queued');

        expect(await repositories.jobs.renew(lease)).toBe(true);
        expect(await repositories.media.publish(lease, result(ready()))).toBe(true);
        expect(await repositories.media.publish(lease, result(ready()))).toBe(false);
      });

      it('a job given back on shutdown is due at once and counts for nothing', async () => {
        const { id } = await accept('a');
        for (let n = 0; n < 5; n++) {
          const lease = await claim();
          expect(lease.attempt).toBe(1);
          await repositories.media.start(lease, [row()]);
          await repositories.jobs.giveBack(lease, { kind: 'released' });
          expect((await repositories.media.find(id))?.status).toBe('queued');
        }
      });

      it('a job to be retried counts, and waits', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [row()]);
        await repositories.jobs.giveBack(lease, { kind: 'retry', delayMs: 1_000, failure: crash });
        expect(await repositories.media.find(id)).toMatchObject({ status: 'queued', attempts: 1 });
        expect(await repositories.jobs.claim('worker-1')).toBeNull();
        const due = expect.poll(() => repositories.jobs.claim('worker-1'), { interval: 10, timeout: 10_000 });
        await due.toMatchObject({ attempt: 2 });
      });

      it('a medium whose workers keep vanishing fails in the end, and never for a restart of the service', async () => {
        const { id } = await accept('a');
        for (let n = 0; n < MAX_LOST_LEASES + 2; n++) {
          await repositories.jobs.reclaim((await claim()).token, { counted: false });
        }
        for (let n = 1; n <= MAX_LOST_LEASES; n++) {
          expect((await repositories.media.find(id))?.status, `lost ${n - 1}`).toBe('queued');
          await repositories.jobs.reclaim((await claim()).token, { counted: true });
        }
        expect(await repositories.media.find(id)).toMatchObject({
          status: 'failed',
          failure: { code: 'worker_lost', retryable: true },
        });
        expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
      });

      it('tell how long the oldest has been waiting', async () => {
        expect((await repositories.jobs.counts()).oldestDueMs).toBe(0);
        await accept('a');
        await expect.poll(async () => (await repositories.jobs.counts()).oldestDueMs).toBeGreaterThan(0);
      });

      it('workers announce themselves, beat, and sign off', async () => {
        const worker = { id: 'worker-1', pid: 4711, concurrency: 2 };
        await repositories.jobs.workerBeat(worker);
        const [first] = await repositories.jobs.workers();
        expect(first).toMatchObject(worker);
        await repositories.jobs.workerBeat(worker);
        const [second] = await repositories.jobs.workers();
        expect(second?.beat).toBeGreaterThan(first?.beat ?? Number.POSITIVE_INFINITY);
        await repositories.jobs.workerGone(worker.id);
        await repositories.jobs.workerGone(worker.id);
        expect(await repositories.jobs.workers()).toEqual([]);
      });
    });

    describe('processing', () => {
      it('a medium is processing from its start, and nothing of it is delivered before it is published', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        const skipped = row({ name: 'large', state: 'skipped', reason: 'Too small.', objectKey: null });
        expect(await repositories.media.start(lease, [row(), skipped])).toBe(true);
        expect(await repositories.media.find(id)).toMatchObject({ status: 'processing', attempts: 1 });
        const states = (await repositories.media.renditions(id)).map(({ name, state }) => [name, state]);
        expect(states.sort()).toEqual([
          ['large', 'skipped'],
          ['thumb', 'pending'],
        ]);
        expect(await thumbOf(id)).toBeNull();
        expect(await thumbOf(id, '0000000a')).toBeNull();

        expect(await repositories.media.publish(lease, result(ready(), skipped))).toBe(true);
        expect(await repositories.media.find(id)).toMatchObject({
          status: 'ready',
          thumbhash: 'aGFzaA==',
          warnings: ['Recovered.'],
          failure: null,
        });
        expect(await thumbOf(id)).toMatchObject({ mediaId: id, state: 'ready', bytes: 10, width: 320 });
        expect(await repositories.jobs.counts()).toMatchObject({ queued: 0, running: 0 });
        expect(await repositories.jobs.held()).toEqual([]);
      });

      it('a failed medium says why, with its renditions, and can be tried again', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [row()]);
        expect(await repositories.media.fail(lease, failure)).toBe(true);
        expect(await repositories.media.find(id)).toMatchObject({ status: 'failed', failure, attempts: 1 });
        expect(await repositories.media.renditions(id)).toMatchObject([{ state: 'failed', reason: failure.message }]);
        expect(await repositories.jobs.claim('worker-1')).toBeNull();

        expect(await repositories.media.retry(id)).toBe(true);
        expect(await repositories.media.retry(id)).toBe(false);
        expect(await repositories.media.find(id)).toMatchObject({ status: 'queued', failure: null, attempts: 0 });
        const again = await claim();
        expect(again).toMatchObject({ mediaId: id, attempt: 1 });
        await repositories.media.start(again, [row()]);
        expect(await repositories.media.renditions(id)).toMatchObject([{ state: 'pending', reason: null }]);
      });

      it('a new start leaves alone what is ready', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [ready()]);
        await repositories.media.start(lease, [row(), row({ name: 'small' })]);
        expect((await thumbOf(id))?.bytes).toBe(10);
      });

      it('the old revision is delivered until the new one is ready, and by its own name for ever', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        const b = { revision: '0000000b', objectKey: 'renditions/thumb.0000000b.webp' };
        await repositories.media.start(lease, [ready()]);
        await repositories.media.start(lease, [row(b)]);
        expect((await thumbOf(id))?.revision).toBe('0000000a');
        expect(await thumbOf(id, '0000000b')).toBeNull();
        await repositories.media.publish(lease, result(ready(b)));
        expect((await thumbOf(id))?.revision).toBe('0000000b');
        expect((await thumbOf(id, '0000000a'))?.objectKey).toBe('renditions/thumb.0000000a.webp');
        const current = (await repositories.media.renditions(id)).filter((rendition) => rendition.current);
        expect(current.map(({ revision }) => revision)).toEqual(['0000000b']);
      });

      it('a new revision that fails leaves the old one delivered', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        const failed = row({ revision: '0000000b', state: 'failed', reason: 'No memory.' });
        await repositories.media.start(lease, [ready()]);
        await repositories.media.publish(lease, result(failed));
        expect((await thumbOf(id))?.revision).toBe('0000000a');
      });

      it('the renditions of a whole page of media come at once', async () => {
        const ids: string[] = [];
        for (const content of ['a', 'b', 'c']) {
          ids.push((await accept(content)).id);
          await repositories.media.publish(await claim(), result(ready(), ready({ name: 'small' })));
        }
        const rows = await repositories.media.renditionsOf(ids.slice(0, 2));
        expect(rows.map(({ mediaId }) => mediaId).sort()).toEqual([ids[0], ids[0], ids[1], ids[1]].sort());
        expect(await repositories.media.renditionsOf([])).toEqual([]);
      });
    });

    describe('deleting', () => {
      it('takes rows and job away at once, and names the objects that nothing needs any more', async () => {
        const { id, sha256 } = await accept('a');
        const lease = await claim();
        // Pending, too: a worker may have stored the object already.
        await repositories.media.start(lease, [row(), row({ name: 'large', state: 'skipped', objectKey: null })]);
        const deleted = await repositories.media.delete(id);
        expect(deleted?.media.id).toBe(id);
        expect(deleted?.orphans.sort()).toEqual([originalKey(sha256), 'renditions/thumb.0000000a.webp'].sort());
        expect(await repositories.media.find(id)).toBeNull();
        expect(await repositories.media.renditions(id)).toEqual([]);
        expect(await repositories.jobs.held()).toEqual([]);
        expect(await repositories.jobs.renew(lease)).toBe(false);
        expect(await repositories.media.publish(lease, result(ready()))).toBe(false);
        expect(await repositories.media.find(id)).toBeNull();
      });

      it('an object that another medium of the same bytes uses stays', async () => {
        const first = await accept('a');
        await repositories.media.publish(await claim(), result(ready()));
        const second = await repositories.media.accept(newMedium('a'), ALLOW);
        await repositories.media.publish(await claim(), result(ready()));
        const keys = [originalKey(first.sha256), 'renditions/thumb.0000000a.webp'];

        expect((await repositories.media.delete(first.id))?.orphans).toEqual([]);
        for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(true);
        expect((await repositories.media.delete(second.media.id))?.orphans.sort()).toEqual(keys.sort());
        for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(false);
      });
    });

    describe('piece digests', () => {
      const LARGE = 3 * 1024 * 1024;
      const digests = Buffer.alloc(96, 7);
      const large = (sha256: string, name = 'mp4') =>
        ready({ name, sha256, bytes: LARGE, objectKey: `renditions/${name}` });
      const shaA = 'a'.repeat(64);

      it('are found by the content, whoever writes them again; unknown content has none', async () => {
        await repositories.pieceDigests.put(shaA, digests);
        await repositories.pieceDigests.put(shaA, digests);
        expect((await repositories.pieceDigests.find(shaA))?.equals(digests)).toBe(true);
        expect(await repositories.pieceDigests.find('b'.repeat(64))).toBeNull();
      });

      it('go with the last medium that has the content, so that the table does not outgrow the media', async () => {
        const ids: string[] = [];
        for (const content of ['a', 'b']) {
          ids.push((await accept(content)).id);
          const lease = await claim();
          await repositories.pieceDigests.put(shaA, digests);
          await repositories.media.publish(lease, result(large(shaA)));
        }
        await repositories.media.delete(ids[0] as string);
        expect(await repositories.pieceDigests.find(shaA)).not.toBeNull();
        await repositories.media.delete(ids[1] as string);
        expect(await repositories.pieceDigests.find(shaA)).toBeNull();
      });

      it('stay while a file of a rendition has the content', async () => {
        const first = await accept('a');
        await repositories.pieceDigests.put(shaA, digests);
        await repositories.media.publish(await claim(), result(large(shaA)));
        const second = await accept('b');
        const lease = await claim();
        const hls = ready({ name: 'hls', extension: 'm3u8', objectKey: 'hls/master.m3u8', bytes: LARGE });
        await repositories.media.start(lease, [hls]);
        const file = { file: '1.m4s', contentType: 'video/mp4', objectKey: 'hls/1.m4s', sha256: shaA, bytes: LARGE };
        await repositories.media.reserveFiles(lease, hls, [file]);
        await repositories.media.publish(lease, result(hls));
        await repositories.media.delete(first.id);
        expect(await repositories.pieceDigests.find(shaA)).not.toBeNull();
        await repositories.media.delete(second.id);
        expect(await repositories.pieceDigests.find(shaA)).toBeNull();
      });
    });

    describe('renditions of several files', () => {
      const hls = (overrides: Partial<RenditionRow> = {}): RenditionRow =>
        row({
          name: 'hls',
          extension: 'm3u8',
          contentType: 'application/vnd.apple.mpegurl',
          objectKey: 'renditions/hls.0000000a/master.m3u8',
          ...overrides,
        });
      const readyHls = (overrides: Partial<RenditionRow> = {}) =>
        hls({ state: 'ready', sha256: 'a'.repeat(64), bytes: 30, files: 2, width: 320, height: 240, ...overrides });
      const file = (name: string, revision = '0000000a'): NewRenditionFile => ({
        file: name,
        contentType: name.endsWith('m3u8') ? 'application/vnd.apple.mpegurl' : 'video/mp4',
        objectKey: `renditions/hls.${revision}/${name}`,
        sha256: 'a'.repeat(64),
        bytes: 15,
      });
      const both = (revision?: string) => [file('master.m3u8', revision), file('720p/00001.m4s', revision)];
      const find = (mediaId: string, name: string, revision: string | null = null) =>
        repositories.media.findFile({ mediaId, name: 'hls', revision, file: name });

      it('invariant 2: none of the files is delivered before all are there', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        const { media } = repositories;
        await media.start(lease, [hls()]);
        expect(await media.reserveFiles(lease, hls(), both())).toBe(true);
        for (const revision of [null, '0000000a']) expect(await find(id, 'master.m3u8', revision)).toBeNull();
        expect(await media.publishRendition(lease, readyHls())).toBe(true);
        expect(await media.find(id)).toMatchObject({ status: 'processing' });
        for (const revision of [null, '0000000a']) {
          expect(await find(id, '720p/00001.m4s', revision)).toMatchObject(file('720p/00001.m4s'));
        }
        expect(await find(id, '720p/00002.m4s')).toBeNull();
        expect(await find(id, '720p/00001.m4s', '0000000b')).toBeNull();
        expect((await media.renditions(id))[0]).toMatchObject({ state: 'ready', files: 2, bytes: 30 });
      });

      it('a rendition that was published early is left as it is by what is published in the end', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [hls(), row()]);
        await repositories.media.reserveFiles(lease, hls(), both());
        await repositories.media.publishRendition(lease, readyHls());
        const [early] = (await repositories.media.renditions(id)).filter(({ name }) => name === 'hls');
        await new Promise((resolve) => setTimeout(resolve, 5));
        await repositories.media.publish(lease, result(readyHls(), ready()));
        const rows = await repositories.media.renditions(id);
        expect(rows.find(({ name }) => name === 'hls')).toEqual(early);
        expect(rows.find(({ name }) => name === 'thumb')).toMatchObject({ state: 'ready' });
      });

      it('an attempt that makes other files than the one before it leaves none of the old names', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [hls()]);
        await repositories.media.reserveFiles(lease, hls(), [...both(), file('720p/00002.m4s')]);
        await repositories.media.reserveFiles(lease, hls(), both());
        const names = (await repositories.media.files(id)).map((found) => found.file);
        expect(names.sort()).toEqual(['720p/00001.m4s', 'master.m3u8']);
      });

      it('the old revision is delivered until the new one is ready, and by its own name for ever', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        const b = { revision: '0000000b', objectKey: 'renditions/hls.0000000b/master.m3u8' };
        await repositories.media.start(lease, [hls()]);
        await repositories.media.reserveFiles(lease, hls(), both());
        await repositories.media.publishRendition(lease, readyHls());
        await repositories.media.start(lease, [hls(b)]);
        await repositories.media.reserveFiles(lease, hls(b), both('0000000b'));
        expect((await find(id, 'master.m3u8'))?.revision).toBe('0000000a');
        expect(await find(id, 'master.m3u8', '0000000b')).toBeNull();
        await repositories.media.publishRendition(lease, readyHls(b));
        expect((await find(id, 'master.m3u8'))?.revision).toBe('0000000b');
        expect((await find(id, 'master.m3u8', '0000000a'))?.objectKey).toBe('renditions/hls.0000000a/master.m3u8');
      });

      it('files are referred to from before they are stored until their last medium goes', async () => {
        const first = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [hls()]);
        await repositories.media.reserveFiles(lease, hls(), both());
        const keys = both().map(({ objectKey }) => objectKey);
        for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(true);
        await repositories.media.publish(lease, result(readyHls()));

        const second = await repositories.media.accept(newMedium('a'), ALLOW);
        const another = await claim();
        await repositories.media.start(another, [hls()]);
        const found = await repositories.media.findReadyObject('renditions/hls.0000000a/master.m3u8');
        expect(found?.rendition).toMatchObject({ mediaId: first.id, name: 'hls', bytes: 30 });
        expect(found?.files).toHaveLength(2);
        await repositories.media.reserveFiles(another, hls(), both());

        expect((await repositories.media.delete(first.id))?.orphans).toEqual([]);
        expect((await repositories.media.delete(second.media.id))?.orphans.sort()).toEqual(
          [originalKey(first.sha256), ...keys].sort(),
        );
        for (const key of keys) expect(await repositories.media.isReferenced(key), key).toBe(false);
        expect(await repositories.media.findReadyObject('renditions/hls.0000000a/master.m3u8')).toBeNull();
      });

      it('fault 18: one lost file of many has the whole rendition made again', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        await repositories.media.start(lease, [hls(), row()]);
        await repositories.media.reserveFiles(lease, hls(), both());
        await repositories.media.publish(lease, result(readyHls(), ready()));
        expect(await repositories.media.rederive([file('720p/00001.m4s').objectKey])).toEqual([id]);
        expect(await find(id, 'master.m3u8')).toBeNull();
        expect(await repositories.media.renditions(id)).toMatchObject(
          expect.arrayContaining([
            expect.objectContaining({ name: 'hls', state: 'pending', files: null }),
            expect.objectContaining({ name: 'thumb', state: 'ready' }),
          ]),
        );
        expect(await claim()).toMatchObject({ mediaId: id });
      });

      it('a lease that was taken away names no file and publishes nothing', async () => {
        const { id } = await accept('a');
        const late = await claim();
        await repositories.media.start(late, [hls()]);
        await repositories.jobs.reclaim(late.token, { counted: true });
        expect(await repositories.media.reserveFiles(late, hls(), both())).toBe(false);
        expect(await repositories.media.publishRendition(late, readyHls())).toBe(false);
        expect(await repositories.media.files(id)).toEqual([]);
        expect((await repositories.media.renditions(id))[0]?.state).toBe('pending');
      });
    });

    it('what failed of a medium that is ready can be made again, and it stays ready meanwhile', async () => {
      const { id } = await accept('a');
      const failed = row({ name: 'large', state: 'failed', reason: 'No memory.' });
      await repositories.media.publish(await claim(), result(ready(), failed));
      expect(await repositories.media.retry(id)).toBe(true);
      expect((await repositories.media.find(id))?.status).toBe('ready');
      // At once, and not when a worker comes: whoever waits for them looks for what is pending.
      const large = async () => (await repositories.media.renditions(id)).find(({ name }) => name === 'large');
      expect(await large()).toMatchObject({ state: 'pending', reason: null });
      expect(await repositories.media.retry(id)).toBe(false);
      await repositories.media.publish(await claim(), result(ready(), ready({ name: 'large' })));
      expect(await repositories.media.retry(id)).toBe(false);
    });

    describe('where a job stands', () => {
      const standing = async (id: string) => (await repositories.jobs.standings([id]))[0] ?? null;

      it('in the queue, under way and how far, to be tried again and why, or nowhere', async () => {
        const { jobs, media } = repositories;
        const first = await accept('a');
        const second = await accept('b');
        expect(await standing(first.id)).toMatchObject({ worker: null, attempt: 1, progress: null, dueInMs: 0 });
        expect([await jobs.ahead(first.id), await jobs.ahead(second.id)]).toEqual([0, 1]);

        const lease = await claim();
        expect([await jobs.ahead(first.id), await jobs.ahead(second.id)]).toEqual([null, 0]);
        expect(await jobs.underWay()).toEqual([]);
        expect(await jobs.progress(lease, 0.25)).toBe(true);
        expect(await standing(first.id)).toMatchObject({ worker: 'worker-1', progress: 0.25 });
        expect(await jobs.underWay()).toEqual([{ mediaId: first.id, projectId: 'default', progress: 0.25 }]);

        await jobs.giveBack(lease, { kind: 'retry', delayMs: 60_000, failure: crash });
        const waiting = await standing(first.id);
        expect(waiting).toMatchObject({ worker: null, attempt: 2, progress: null, lastReason: 'It crashed.' });
        expect(waiting?.dueInMs).toBeGreaterThan(50_000);
        expect(await jobs.ahead(second.id)).toBe(0);
        await media.fail(await claim(), failure);
        expect(await standing(second.id)).toBeNull();
        expect(await jobs.ahead(second.id)).toBeNull();
      });

      it('a lease tells whether it stands, and notes no progress once it does not', async () => {
        const { id } = await accept('a');
        const lease = await claim();
        expect(await repositories.jobs.stands(lease)).toBe(true);
        await repositories.media.delete(id);
        expect(await repositories.jobs.stands(lease)).toBe(false);
        expect(await repositories.jobs.progress(lease, 0.5)).toBe(false);
      });

      it('no unfinished medium has a job less: there is none to adopt, whatever came before', async () => {
        await accept('a');
        await repositories.media.start(await claim(), [row()]);
        await accept('b');
        await accept('c');
        await repositories.media.fail(await claim(), failure);
        expect(await repositories.jobs.adoptStranded()).toBe(0);
      });
    });

    describe('attempts', () => {
      const report = {
        notes: ['The stream was copied.'],
        timings: { total: 12 },
        runs: [
          {
            step: 'ladder',
            argv: ['ffmpeg', '-i', 'SOURCE'],
            ms: 10,
            cpuMs: 9,
            maxMemoryBytes: null,
            outcome: 'ok',
            stderrTail: ['frame=1'],
          },
        ],
      };

      it('are remembered with how they ended, also where their worker vanished, and numbered as they came', async () => {
        const { id } = await accept('a');
        const { jobs, media } = repositories;
        const lost = await claim();
        expect(await jobs.attempts(id)).toMatchObject([{ attempt: 1, worker: 'worker-1', outcome: 'running' }]);
        await jobs.reclaim(lost.token, { counted: true });
        await jobs.giveBack(await claim(), { kind: 'released' }, report);
        await jobs.giveBack(await claim(), { kind: 'retry', delayMs: 0, failure: crash }, report);
        await media.fail(await claim(), failure, report);
        await media.retry(id);
        await media.publish(await claim(), result(ready()), report);
        const attempts = await jobs.attempts(id);
        expect(attempts.map(({ outcome, attempt }) => `${attempt} ${outcome}`)).toEqual([
          '1 lost',
          '2 released',
          '3 retried',
          '4 failed',
          '5 ready',
        ]);
        expect(attempts[0]).toMatchObject({ endedAtMs: null, report: null, failure: null });
        expect(attempts[2]).toMatchObject({ failure: crash, report });
        expect(attempts[3]).toMatchObject({ failure });
        expect(attempts[4]).toMatchObject({ failure: null, report });
        for (const { startedAtMs, endedAtMs, outcome } of attempts) {
          if (outcome !== 'lost') expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs);
        }
      });

      it('are kept up to ten a medium, and go with it', async () => {
        const { id } = await accept('a');
        for (let n = 0; n < KEPT_ATTEMPTS + 3; n++) {
          await repositories.jobs.giveBack(await claim(), { kind: 'released' });
        }
        const numbers = (await repositories.jobs.attempts(id)).map(({ attempt }) => attempt);
        expect(numbers).toEqual(Array.from({ length: KEPT_ATTEMPTS }, (_, index) => index + 4));
        await repositories.media.delete(id);
        expect(await repositories.jobs.attempts(id)).toEqual([]);
      });
    });

    describe('events', () => {
      const all = (projectId: string | null = null, seq = 0) =>
        repositories.events.after(seq, { projectId, limit: 1000 });

      it('tell of every change of a medium, in order, with the change itself', async () => {
        const { id } = await accept('a');
        const { media, jobs } = repositories;
        const lease = await claim();
        await media.start(lease, [row()]);
        await media.publishRendition(lease, ready());
        await media.publish(lease, result(ready()));
        await media.rederive(['renditions/thumb.0000000a.webp']);
        await media.publish(await claim(), result(ready()));
        await media.delete(id);
        const failing = await accept('b');
        const late = await claim();
        await media.start(late, [row()]);
        await jobs.reclaim(late.token, { counted: true });
        await media.start(late, [row()]);
        await media.fail(late, failure);
        await media.fail(await claim(), failure);

        const events = await all();
        expect(events.map(({ type, data }) => `${type} ${data['status'] ?? data['name']}`)).toEqual([
          'media.created queued',
          'media.processing processing',
          'rendition.ready thumb',
          'media.ready ready',
          'rendition.ready thumb',
          'media.deleted ready',
          'media.created queued',
          'media.processing processing',
          'rendition.failed thumb',
          'media.failed failed',
        ]);
        expect(events[0]).toMatchObject({ projectId: 'default', data: { id, status: 'queued', error: null } });
        expect(events[2]?.data).toEqual({ id, name: 'thumb', extension: 'webp', revision: '0000000a' });
        expect(events.at(-1)?.data).toEqual({ id: failing.id, status: 'failed', error: failure });
        const numbers = events.map(({ seq }) => seq);
        expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
        expect(await repositories.events.latest()).toBe(numbers.at(-1));
        expect(await all(null, numbers[8])).toHaveLength(1);
      });

      it('tell of every rendition that failed, once, and why: nobody has to look for it in a medium that is ready', async () => {
        const { media, jobs } = repositories;
        const { id } = await accept('a');
        const lost = { ...row({ name: 'hls', extension: 'm3u8' }), state: 'failed' as const, reason: 'It was killed.' };
        const first = await claim();
        await media.start(first, [row(), { ...lost, state: 'pending', reason: null }]);
        await media.publishRendition(first, lost);
        await media.publish(first, result(ready(), lost));
        await media.retry(id);
        const second = await claim();
        await media.start(second, [row(), { ...lost, state: 'pending', reason: null }]);
        await media.fail(second, failure);
        expect(await media.find(id)).toMatchObject({ status: 'ready', failure });
        await media.retry(id);
        expect(await media.find(id)).toMatchObject({ status: 'ready', failure: null });
        // Its preset went meanwhile.
        await media.publish(await claim(), result(ready()));
        await media.rederive(['renditions/thumb.0000000a.webp']);
        await media.publish(await claim(), result(ready({ revision: '0000000b', objectKey: 'renditions/new.webp' })));

        const events = (await all()).filter(({ type }) => type === 'rendition.failed');
        const data = { id, name: 'hls', extension: 'm3u8', revision: lost.revision };
        expect(events.map((event) => event.data)).toEqual([
          { ...data, reason: 'It was killed.' },
          { ...data, reason: failure.message },
          { ...data, reason: 'Its preset does not exist any more.' },
          { ...data, name: 'thumb', extension: 'webp', reason: 'Its preset does not exist any more.' },
        ]);
        expect(new Set(events.map(({ projectId }) => projectId))).toEqual(new Set(['default']));
        expect(await media.find(id)).toMatchObject({ status: 'ready', failure: null });
        expect(await jobs.counts()).toMatchObject({ queued: 0, running: 0 });
      });

      it("show no other project's media, and everybody what concerns everybody", async () => {
        await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
        await accept('a', { projectId: 'other' });
        const data = { code: 'fra1', status: 'operational' };
        await repositories.events.append({ projectId: null, type: 'region.status_changed', data });
        expect((await all('other')).map(({ type }) => type)).toEqual(['media.created', 'region.status_changed']);
        expect(await all('default')).toMatchObject([{ type: 'region.status_changed', data }]);
      });

      it('wake whoever waits for them, until they no longer want to be', async () => {
        let woken = 0;
        const forget = repositories.events.onAppended(() => {
          woken += 1;
        });
        await accept('a');
        await expect.poll(() => woken).toBe(1);
        forget();
        await accept('b');
        await new Promise((resolve) => setTimeout(resolve, 20));
        expect(woken).toBe(1);
      });
    });

    it('the version changes with every write that a reader of media could see, and with no other', async () => {
      const { media, jobs } = repositories;
      let last = await media.version();
      const expectChange = async (changes: boolean, what: string) => {
        const now = await media.version();
        expect(now !== last, what).toBe(changes);
        last = now;
      };
      const { id } = await accept('a');
      await expectChange(true, 'accept');
      await accept('a');
      await expectChange(false, 'accept of known bytes');
      let lease = await claim();
      await jobs.renew(lease);
      await expectChange(false, 'claim and renew');
      await media.start(lease, [row()]);
      await expectChange(true, 'start');
      await jobs.giveBack(lease, { kind: 'released' });
      await expectChange(true, 'giving back');
      lease = await claim();
      await media.start(lease, [row()]);
      await expectChange(true, 'start');
      await jobs.reclaim(lease.token, { counted: true });
      await expectChange(true, 'reclaim');
      await media.publish(lease, result(ready()));
      await expectChange(false, 'publish without a lease');
      await media.fail(await claim(), failure);
      await expectChange(true, 'fail');
      await media.retry(id);
      await expectChange(true, 'retry');
      await media.publish(await claim(), result(ready()));
      await expectChange(true, 'publish');
      await media.delete(id);
      await expectChange(true, 'delete');
    });

    describe('assets', () => {
      const delivered = (path: string, overrides = {}) => ({
        region: 'fra1',
        path,
        bytes: 10,
        cacheStatus: 'MISS' as const,
        atMs: tick(10),
        ...overrides,
      });
      const paths = async (query: { limit: number; region: string | null }) =>
        (await repositories.assets.latest(query)).map(({ path }) => path);

      it('one record for a path in a region: the latest request decides, the first one dates it', async () => {
        await repositories.assets.record([delivered('/media/a'), delivered('/media/b')], 100);
        const [, first] = await repositories.assets.latest({ limit: 10, region: null });
        await repositories.assets.record([delivered('/media/a', { bytes: 20, cacheStatus: 'HIT' })], 100);
        const [a, b, ...rest] = await repositories.assets.latest({ limit: 10, region: null });
        expect(rest).toEqual([]);
        expect(b?.path).toBe('/media/b');
        expect(a).toMatchObject({ path: '/media/a', bytes: 20, cacheStatus: 'HIT' });
        expect(a).toMatchObject({ id: first?.id, createdAtMs: first?.createdAtMs });
        expect(a?.id).toMatch(/^ast_[0-9a-z]+$/);
      });

      it('are listed latest first, of all regions or of one', async () => {
        const london = { region: 'lon1' };
        await repositories.assets.record([delivered('/1'), delivered('/2', london), delivered('/1', london)], 100);
        expect(await paths({ limit: 10, region: null })).toEqual(['/1', '/2', '/1']);
        expect(await paths({ limit: 10, region: 'lon1' })).toEqual(['/1', '/2']);
        expect(await paths({ limit: 1, region: 'lon1' })).toEqual(['/1']);
        expect(await paths({ limit: 10, region: 'ams1' })).toEqual([]);
      });

      it('are kept up to a number a region, those requested longest ago going first', async () => {
        await repositories.assets.record([delivered('/1'), delivered('/2'), delivered('/3')], 3);
        await repositories.assets.record([delivered('/1'), delivered('/4'), delivered('/5', { region: 'lon1' })], 3);
        expect(await paths({ limit: 10, region: 'fra1' })).toEqual(['/4', '/1', '/3']);
        expect(await paths({ limit: 10, region: 'lon1' })).toEqual(['/5']);
      });

      it('have a version that changes with every record', async () => {
        const before = await repositories.assets.version();
        await repositories.assets.record([], 3);
        expect(await repositories.assets.version()).toBe(before);
        await repositories.assets.record([delivered('/1')], 3);
        expect(await repositories.assets.version()).not.toBe(before);
      });
    });

    describe('regions', () => {
      const frankfurt = { code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', maintenance: false };

      it('are added, changed and listed by code', async () => {
        await repositories.regions.put({ ...frankfurt, code: 'lon1', name: 'London' });
        await repositories.regions.put(frankfurt);
        await repositories.regions.put({ ...frankfurt, maintenance: true });
        expect((await repositories.regions.list()).map(({ code }) => code)).toEqual(['fra1', 'lon1']);
        expect(await repositories.regions.find('fra1')).toEqual({ ...frankfurt, maintenance: true });
        expect(await repositories.regions.find('ams1')).toBeNull();
      });

      it('nodes beat, say goodbye, and are forgotten when they have been away for long', async () => {
        await repositories.regions.put(frankfurt);
        await repositories.regions.heartbeat({ id: 'node-1', region: 'fra1', atMs: 1000 });
        await repositories.regions.heartbeat({ id: 'node-2', region: 'fra1', atMs: 2000 });
        await repositories.regions.heartbeat({ id: 'node-3', region: 'fra1', atMs: 2000 });
        const beatOf = async (id: string) => (await repositories.regions.nodes()).find((node) => node.id === id)?.beat;
        const before = (await beatOf('node-2')) ?? Number.POSITIVE_INFINITY;
        await repositories.regions.heartbeat({ id: 'node-2', region: 'fra1', atMs: 3000 });
        expect(await beatOf('node-2')).toBeGreaterThan(before);
        await repositories.regions.removeNodesSeenBefore(2000);
        await repositories.regions.removeNode('node-3');
        expect(await repositories.regions.nodes()).toMatchObject([{ id: 'node-2', seenAtMs: 3000 }]);
      });
    });

    it('proofs of formats are those of one engine', async () => {
      const proofs = [
        { formatId: 'jpeg', ok: true, reason: null },
        { formatId: 'heic', ok: false, reason: 'No decoder.' },
      ];
      await repositories.formatProofs.save('engine-1', proofs);
      expect(await repositories.formatProofs.load('engine-1')).toEqual(expect.arrayContaining(proofs));
      expect(await repositories.formatProofs.load('engine-2')).toEqual([]);
      await repositories.formatProofs.save('engine-2', proofs.slice(0, 1));
      expect(await repositories.formatProofs.load('engine-2')).toEqual(proofs.slice(0, 1));
      expect(await repositories.formatProofs.load('engine-1')).toEqual([]);
    });

    describe('projects', () => {
      it('a request belongs to the project that claims its host, and to `default` otherwise', async () => {
        await repositories.projects.put({ id: 'shop', name: 'Shop', hosts: ['Media.Shop.Example', 'm.shop.example'] });
        expect(await repositories.projects.byHost('media.shop.example')).toEqual({ id: 'shop', name: 'Shop' });
        expect((await repositories.projects.byHost('unknown.example')).id).toBe('default');
        await repositories.projects.put({ id: 'shop', name: 'New name', hosts: ['m.shop.example'] });
        expect((await repositories.projects.byHost('media.shop.example')).id).toBe('default');
        expect(await repositories.projects.byHost('m.shop.example')).toEqual({ id: 'shop', name: 'New name' });
        expect(await repositories.projects.find('shop')).toEqual({ id: 'shop', name: 'New name' });
        expect(await repositories.projects.find('none')).toBeNull();
      });

      it('a token is found by the hash of its text, with its scope', async () => {
        const token = { name: 'first', projectId: 'default', scope: 'ingest' as const };
        await repositories.projects.putToken({ ...token, sha256: 'a'.repeat(64) });
        await repositories.projects.putToken({ ...token, scope: 'operate', sha256: 'a'.repeat(64) });
        expect(await repositories.projects.findToken('a'.repeat(64))).toEqual({ ...token, scope: 'operate' });
        expect(await repositories.projects.findToken('b'.repeat(64))).toBeNull();
      });
    });

    it('a probe of a healthy database passes', async () => {
      await repositories.probe();
      await repositories.probe();
    });
  });
}
