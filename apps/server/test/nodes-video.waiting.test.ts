import { openAsBlob } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Client, MediaRendition } from '@mds/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  collectEvents,
  delivered,
  FILM_PRESETS,
  FRAME_RATE,
  familyOf,
  livingOf,
  makeFilm,
  objectsBelow,
  played,
  programsIn,
} from './support/nodes-video.ts';
import { readTillStopped } from './support/nodes-video-reader.ts';
import type { ServiceProcess } from './support/service-process.ts';
import { describeNodes, type SeveralNodes, startSeveralNodes, type WorkerProcess } from './support/several-nodes.ts';

/** `MDS_TEST_VIDEO_SECONDS=600 npm test -- apps/server/test/nodes-video.waiting.test.ts` for a video of ten minutes. */
const SECONDS = Number(process.env['MDS_TEST_VIDEO_SECONDS'] ?? 24);
/** The queues to test. The usual run takes BullMQ. */
const QUEUES = SECONDS >= 120 ? ['bullmq', 'embedded'] : ['bullmq'];
/** The worker of a long video is killed in its middle; that of a short one as soon as the ladder has begun. */
const KILL_AT = SECONDS >= 120 ? 0.5 : 0;
/** For one attempt, on a busy machine. */
const FILM_MS = 300_000 + SECONDS * 3_000;

describeNodes('a video on several nodes', (bin) => {
  describe.each(QUEUES)('with the queue "%s"', (queue) => {
    let all: SeveralNodes;
    let api: ServiceProcess;
    let env: Record<string, string>;
    let client: Client;
    let workers: Record<'first' | 'second', WorkerProcess>;
    beforeAll(async () => {
      all = await startSeveralNodes(bin);
      const MDS_PRESETS = join(all.folder, 'film-presets.json');
      await writeFile(MDS_PRESETS, JSON.stringify(FILM_PRESETS));
      env = { MDS_QUEUE: queue, MDS_PRESETS, MDS_WORKER_CONCURRENCY: '1' };
      const [node, first, second] = await Promise.all([
        all.startApi('api', env),
        all.startWorker('first', env),
        all.startWorker('second', env),
      ]);
      api = node;
      workers = { first, second };
      client = all.clientOf(api);
    }, 240_000);
    afterAll(() => all?.stop());

    it(
      'fault 13: another worker completes the video of a killed one within 60 s',
      async () => {
        const film = join(all.folder, 'film.mp4');
        await makeFilm(film, SECONDS);
        const following = await collectEvents(client);
        const { media } = await client.control.media.ingest(await openAsBlob(film), { filename: 'film.mp4' });
        const { id } = media;
        const renditions = async () => (await client.control.media.get(id)).renditions;
        const ready = async () => (await renditions()).filter(({ state }) => state === 'ready');

        // The quick renditions are ready, and the ladder has begun.
        const stateOf = async (name: string) => (await renditions()).filter((each) => each.name === name)[0]?.state;
        await expect.poll(() => stateOf('storyboard'), { interval: 50, timeout: FILM_MS }).toBe('ready');
        const progress = async () => (await client.control.media.get(id)).progress ?? 0;
        await expect.poll(progress, { interval: 50, timeout: FILM_MS }).toBeGreaterThanOrEqual(KILL_AT);
        const { attempts } = await client.control.media.explain(id);
        expect(attempts).toHaveLength(1);
        const busy = attempts[0]?.worker.includes(`:${workers.first.child.pid}:`) ? 'first' : 'second';
        const encoding = async () => (await programsIn(join(all.folder, busy))).filter((line) => line.includes('x264'));
        await expect.poll(encoding, { interval: 20, timeout: 30_000 }).not.toEqual([]);

        const finished = await ready();
        expect(finished.map(nameOf).sort()).toEqual(
          expect.arrayContaining(['poster.jpg', 'poster.webp', 'preview.webp', 'storyboard.jpg']),
        );
        expect(await stateOf('hls')).toBe('pending');
        const seen = await Promise.all(finished.map(async (each) => [each, await look(each)] as const));
        const stored = await objectsBelow(all.s3, 'media/renditions/');
        const reader = readTillStopped(api, id, new Map(seen.map(([each, { sha256 }]) => [pathOf(each), sha256])));
        const family = await familyOf(workers[busy].child.pid ?? 0);
        expect(family.length).toBeGreaterThan(2);

        const killedAt = performance.now();
        await workers[busy].end('SIGKILL');
        await expect.poll(() => livingOf(family), { timeout: 5_000, interval: 20 }).toEqual([]);
        const endedMs = performance.now() - killedAt;
        expect(await programsIn(join(all.folder, busy))).toEqual([]);

        const attempt = async () => (await client.control.media.explain(id)).attempts[1]?.worker;
        const other = busy === 'first' ? 'second' : 'first';
        await expect
          .poll(attempt, { timeout: 60_000, interval: 50 })
          .toMatch(new RegExp(`:${workers[other].child.pid}:`));
        const takenUpMs = performance.now() - killedAt;
        expect(takenUpMs).toBeLessThan(60_000);

        // As a service manager does.
        await all.startWorker(busy, env);
        const done = await client.control.media.waitUntilReady(id, { timeoutMs: FILM_MS });
        const read = await reader.stop();
        const doneMs = performance.now() - killedAt;
        expect(done.renditions.map(({ state }) => state)).toEqual(Array(FILM_PRESETS.length).fill('ready'));
        expect(read.failures).toEqual([]);
        expect(read.requests).toBeGreaterThan(100);

        // Not made again: the same bytes and time, in the store and for a reader.
        for (const [each, before] of seen) expect(await look(each), nameOf(each)).toEqual(before);
        const after = await objectsBelow(all.s3, 'media/renditions/');
        for (const [key, object] of stored) expect([key, after.get(key)]).toEqual([key, object]);
        const explained = await client.control.media.explain(id);
        expect(explained.attempts.map(({ outcome }) => outcome)).toEqual(['lost', 'ready']);
        const steps = explained.attempts[1]?.runs.map(({ step }) => step) ?? [];
        expect(steps).toContain('ladder');
        for (const step of ['preview.webp', 'storyboard.jpg']) expect(steps).not.toContain(step);
        const kept = explained.attempts[1]?.notes.flatMap(
          (note) => /^Kept, as it was there: (.+)\.$/.exec(note)?.[1] ?? [],
        );
        expect(kept?.[0]?.split(', ').sort()).toEqual(finished.map(nameOf).sort());
        // One event each, from the worker that made it.
        const readyEvents = following.events.flatMap((event) =>
          event.type === 'rendition.ready' && event.data.id === id ? [nameOf(event.data)] : [],
        );
        expect(readyEvents.sort()).toEqual(done.renditions.map(nameOf).sort());
        const completions = following.events.filter((event) => event.type === 'media.ready' && event.data.id === id);
        expect(completions).toHaveLength(1);
        await following.stop();

        // The unfinished files of the killed worker, and its copy of the video, are removed.
        const leftIn = (name: string) => readdir(join(all.folder, name, 'scratch'), { recursive: true });
        await expect.poll(() => leftIn(busy), { timeout: 120_000, interval: 200 }).toEqual([expect.any(String)]);
        await workers[other].end('SIGTERM');
        expect(await leftIn(other)).toEqual([]);

        const hls = done.renditions.find(({ name }) => name === 'hls');
        const { seconds, frames, complaints } = await played(new URL(hls?.immutable_url ?? '', api.url).href);
        expect(complaints).toBe('');
        expect(Math.abs(seconds - SECONDS)).toBeLessThan(0.5);
        expect(Math.abs(frames - SECONDS * FRAME_RATE)).toBeLessThanOrEqual(2);
        console.log(
          `fault 13, ${queue}: film of ${SECONDS} s, worker killed with ${finished.length} of ${FILM_PRESETS.length} renditions ready; its programs gone after ${Math.round(endedMs)} ms, taken up after ${(takenUpMs / 1000).toFixed(1)} s, ready after ${(doneMs / 1000).toFixed(1)} s; ${read.requests} reads meanwhile, none failed; ${read.hlsFiles} files of HLS at first sight, ${frames} frames played`,
        );

        function look(rendition: MediaRendition) {
          return delivered(api, pathOf(rendition));
        }
      },
      4 * FILM_MS + 120_000,
    );
  });
});

const nameOf = ({ name, extension }: { name: string; extension: string }) => `${name}.${extension}`;
const pathOf = ({ immutable_url }: MediaRendition) => new URL(immutable_url, 'http://any').pathname;
