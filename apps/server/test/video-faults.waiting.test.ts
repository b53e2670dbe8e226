import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPrograms } from '@mds/transcode';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStoreOf } from './support/backends.ts';
import { makeClip } from './support/clips.ts';
import { childrenOf } from './support/process-tree.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { type VideoService, videoService } from './support/video-service.ts';

let service: ServiceFixture;
let video: VideoService;
let clip: string;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-video-faults-'));
  // Long enough that its ladder takes seconds on any machine.
  clip = await makeClip({ width: 1280, height: 720, seconds: 6, frameRate: 30, sound: true });
});
afterAll(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  service = await startService({ MDS_WORKER_CONCURRENCY: '1' });
  video = videoService(service);
});
afterEach(() => service.stop());

const statusOf = async (path: string) => (await fetch(`${service.url}${path}`)).status;
const objects = async (prefix = '') => {
  await using store = await openStoreOf(service.dataDir);
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) keys.push(key);
  return keys.sort();
};

describe('a video during processing', () => {
  it('fault 13: kill -9 of its worker keeps what is finished, the next makes the rest', async () => {
    const id = await video.accept(clip, 'film.mp4');
    await video.rendition(id, 'storyboard', 'ready');
    const before = await video.detail(id);
    expect(before.status).toBe('processing');
    const finished = before.renditions.filter(({ state }) => state === 'ready').map(({ name }) => name);
    expect(finished).not.toContain('hls');
    expect((await video.explain(id)).waiting_for).toMatch(/^Worker \S+ works on it: attempt 1/);
    expect(await statusOf(`/media/${id}/hls/master.m3u8`)).toBe(404);
    expect(await statusOf(`/media/${id}/poster.jpg`)).toBe(200);
    const poster = await fetch(`${service.url}/media/${id}/poster.jpg`);

    const pid = await video.workerPid();
    process.kill(pid, 'SIGKILL');
    await expect.poll(async () => video.programs(), { timeout: 5_000 }).toEqual([]);
    expect(await statusOf(`/media/${id}/hls/master.m3u8`)).toBe(404);
    expect(await statusOf(`/media/${id}/poster.jpg`)).toBe(200);

    const after = await video.ended(id);
    expect(after).toMatchObject({ status: 'ready', error: null });
    expect(after.thumbhash).not.toBeNull();
    expect(after.renditions.map(({ state }) => state)).toEqual(Array(7).fill('ready'));
    expect(await statusOf(`/media/${id}/hls/master.m3u8`)).toBe(200);
    const again = await fetch(`${service.url}/media/${id}/poster.jpg`);
    for (const field of ['etag', 'last-modified']) expect(again.headers.get(field)).toBe(poster.headers.get(field));

    const { attempts } = await video.explain(id);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['lost', 'ready']);
    // The preview and the storyboard were ready before.
    const steps = attempts[1]?.runs.map(({ step }) => step) ?? [];
    expect(steps).toContain('ladder');
    for (const step of ['preview.webp', 'storyboard.jpg']) expect(steps).not.toContain(step);
  }, 90_000);

  it('is aborted within 3 s of its deletion, with its programs and files', async () => {
    const id = await video.accept(clip, 'film.mp4');
    await video.rendition(id, 'storyboard', 'ready');
    await expect.poll(() => video.programs()).not.toEqual([]);
    expect((await video.control(`/media/${id}`, { method: 'DELETE' })).status).toBe(204);
    await expect.poll(() => video.programs(), { timeout: 3_000, interval: 50 }).toEqual([]);
    await expect.poll(() => objects(), { timeout: 3_000 }).toEqual([]);
    expect(await statusOf(`/media/${id}/poster.jpg`)).toBe(404);
    // The worker continues with the next job.
    const next = await video.accept(
      await makeClip({ width: 160, height: 90, seconds: 1, frameRate: 10, sound: false }),
      'b.mp4',
    );
    expect((await video.ended(next)).status).toBe('ready');
  }, 60_000);

  it('fault 14: that crashes every engine fails after 3 attempts; the next one is made', async () => {
    const id = await video.accept(clip, 'killer.mp4');
    const next = await video.accept(
      await makeClip({ width: 160, height: 90, seconds: 1, frameRate: 10, sound: false }),
      'b.mp4',
    );
    const worker = await expect
      .poll(() => video.workerPid().catch(() => null), { timeout: 20_000 })
      .not.toBeNull()
      .then(() => video.workerPid());
    let deaths = 0;
    const killer = (async () => {
      while ((await video.detail(id)).status !== 'failed') {
        const { status } = await video.detail(id);
        if (status === 'processing') {
          for (const pid of await childrenOf(worker)) {
            // The engine child that renders has a child process.
            if ((await childrenOf(pid)).length === 0) continue;
            if (killed(pid)) deaths += 1;
          }
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    })();
    const failed = await video.ended(id);
    await killer;
    expect(deaths).toBeGreaterThanOrEqual(3);
    expect(failed).toMatchObject({
      status: 'failed',
      attempts: 3,
      error: { code: 'engine_crashed', retryable: true, message: expect.stringMatching(/^[A-Z].*\.$/) },
    });
    const explanation = await video.explain(id);
    expect(explanation.attempts.map(({ outcome }) => outcome)).toEqual(['retried', 'retried', 'failed']);
    expect(explanation.waiting_for).toBeNull();
    expect((await video.ended(next)).status).toBe('ready');
    expect(await video.programs()).toEqual([]);

    // The file is intact, so a retry succeeds.
    expect((await video.control(`/media/${id}/retry`, { method: 'POST' })).status).toBe(202);
    expect((await video.ended(id)).status).toBe('ready');
  }, 120_000);
});

describe('fault 22: damaged files', () => {
  it('are refused, ready with a warning, or failed with a reason; none hangs', async () => {
    const small = await makeClip({ width: 320, height: 180, seconds: 2, frameRate: 15, sound: true });
    const whole = await readFile(small);
    const { ffmpeg } = await findPrograms({});
    const run = async (name: string, ...argv: string[]) => {
      const path = join(folder, name);
      await promisify(execFile)(ffmpeg.path, ['-nostdin', '-loglevel', 'error', '-y', ...argv, path]);
      return readFile(path);
    };
    const ts = await run('a.ts', '-i', small, '-c', 'copy');
    const mp3 = await run('a.mp3', '-f', 'lavfi', '-i', 'sine=duration=2');
    const damaged: [string, Buffer][] = [
      ['empty.mp4', Buffer.alloc(0)],
      ['no-index.mp4', whole.subarray(0, Math.floor(whole.length * 0.6))],
      ['noise-inside.mp4', Buffer.from(whole).fill(0xa5, 5_000, 25_000)],
      ['cut.ts', ts.subarray(0, Math.floor(ts.length * 0.55))],
      ['noise.ts', Buffer.from(ts).fill(0x5a, 20_000, 40_000)],
      ['cut.mp3', mp3.subarray(0, 9_001)],
      ['polyglot.mp4', Buffer.concat([whole, Buffer.from('<html><script>alert(1)</script></html>')])],
      ['playlist.mp4', Buffer.from('#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n')],
    ];
    const accepted: string[] = [];
    const outcomes: Record<string, string> = {};
    for (const [name, bytes] of damaged) {
      const response = await video.upload(bytes, name);
      const body = (await response.json()) as { id: string; detail?: string };
      if (response.status === 422) {
        expect(body.detail, name).toMatch(/^[A-Z].*\.$/s);
        outcomes[name] = '422';
        continue;
      }
      expect([name, response.status]).toEqual([name, 201]);
      accepted.push(body.id);
      outcomes[name] = body.id;
    }
    expect([outcomes['empty.mp4'], outcomes['no-index.mp4'], outcomes['playlist.mp4']]).toEqual(['422', '422', '422']);
    for (const id of accepted) {
      const detail = await video.ended(id);
      const { error, renditions } = detail;
      if (detail.status === 'failed') expect(error?.message).toMatch(/^[A-Z].*\.$/s);
      for (const { state, reason } of renditions) if (state !== 'ready') expect(reason).toMatch(/^\S.*\S$/s);
      const text = JSON.stringify([detail, await video.explain(id)]);
      expect(text).not.toContain(service.dataDir);
    }
    expect((await video.detail(outcomes['polyglot.mp4'] ?? '')).status).toBe('ready');
    const next = await video.accept(small, 'whole.mp4');
    expect((await video.ended(next)).status).toBe('ready');
    expect(await video.programs()).toEqual([]);
  }, 180_000);
});

/** Kills a process. @returns false if it had ended already */
function killed(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}
