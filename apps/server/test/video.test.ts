import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Event, Manifest, MediaVerification } from '@mds/contract';
import { findPrograms } from '@mds/transcode';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { damageObject, openStoreOf } from './support/backends.ts';
import { makeClip } from './support/clips.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { readEvents, type VideoService, videoService } from './support/video-service.ts';

let service: ServiceFixture;
let video: VideoService;
let clip: string;
let id: string;
let following: Promise<Event[]>;
/** The progress in each detail that was read. */
const progress: (number | null)[] = [];

beforeAll(async () => {
  service = await startService();
  video = videoService(service);
  clip = await makeClip({ width: 1280, height: 720, seconds: 5, frameRate: 25, sound: true });
  const stream = await video.control('/events');
  expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  following = readEvents(stream, (events) => events.some(({ type }) => type === 'media.ready'));
  id = await video.accept(clip, 'film.mp4');
  for (;;) {
    const detail = await video.detail(id);
    if (detail.status === 'processing') progress.push(detail.progress);
    if (detail.status === 'ready' || detail.status === 'failed') break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}, 120_000);
afterAll(() => service.stop());

const get = (path: string, headers: Record<string, string> = {}) => fetch(new URL(path, service.url), { headers });
const linesOf = (playlist: string) => playlist.split('\n').filter((line) => line !== '' && !line.startsWith('#'));

describe('a video', () => {
  it('is ready with every rendition that applies to it, each with its size', async () => {
    const detail = await video.detail(id);
    expect(detail).toMatchObject({
      status: 'ready',
      kind: 'video',
      duration: 5,
      codecs: ['h264', 'aac'],
      progress: null,
    });
    expect(detail.thumbhash).toMatch(/^[\w+/]{10,}=*$/);
    const rows = detail.renditions.map(({ name, extension, state }) => `${name}.${extension} ${state}`);
    expect(rows).toEqual(
      ['hls.m3u8', 'mp4.mp4', 'poster.jpg', 'poster.webp', 'preview.webp', 'storyboard.jpg', 'storyboard.vtt'].map(
        (name) => `${name} ready`,
      ),
    );
    for (const rendition of detail.renditions) {
      const response = await get(rendition.url);
      expect([rendition.url, response.status, response.headers.get('content-type')]).toEqual([
        rendition.url,
        200,
        rendition.content_type,
      ]);
      const bytes = (await response.arrayBuffer()).byteLength;
      if (rendition.files === 1) expect(bytes).toBe(rendition.bytes);
      else expect(bytes).toBeLessThan(rendition.bytes ?? 0);
      expect((await get(rendition.immutable_url)).headers.get('cache-control')).toMatch(/immutable/);
    }
  });

  it('plays from its master playlist to the last segment; segments are immutable', async () => {
    const hls = (await video.detail(id)).renditions.find(({ name }) => name === 'hls');
    for (const [url, caching] of [
      [hls?.url ?? '', /max-age=300/],
      [hls?.immutable_url ?? '', /max-age=31536000, immutable/],
    ] as const) {
      const master = await get(url);
      expect(master.headers.get('cache-control')).toMatch(caching);
      expect(master.headers.get('content-type')).toBe('application/vnd.apple.mpegurl');
      const text = await master.text();
      const audio = [...text.matchAll(/URI="([^"]+)"/g)].map(([, uri]) => uri ?? '');
      const variants = linesOf(text);
      expect(variants.length).toBeGreaterThanOrEqual(3);
      let files = 1;
      let bytes = Buffer.byteLength(text);
      for (const variant of new Set([...variants, ...audio])) {
        const playlist = await get(new URL(variant, master.url).href);
        const body = await playlist.text();
        expect([variant, playlist.status, playlist.headers.get('content-type')]).toEqual([
          variant,
          200,
          'application/vnd.apple.mpegurl',
        ]);
        files += 1;
        bytes += Buffer.byteLength(body);
        const maps = [...body.matchAll(/URI="([^"]+)"/g)].map(([, uri]) => uri ?? '');
        for (const segment of new Set([...maps, ...linesOf(body)])) {
          const response = await get(new URL(segment, playlist.url).href);
          expect([segment, response.status]).toEqual([segment, 200]);
          expect(response.headers.get('content-type')).toMatch(/^(video|audio)\/mp4$/);
          // Playlists name their revision, whatever their own URL.
          expect(response.headers.get('cache-control')).toMatch(/max-age=31536000, immutable/);
          expect(response.headers.get('access-control-allow-origin')).toBe('*');
          files += 1;
          bytes += (await response.arrayBuffer()).byteLength;
        }
      }
      expect([files, bytes]).toEqual([hls?.files, hls?.bytes]);
    }
  });

  it('is read by ffmpeg from its URL without a warning', async () => {
    const { ffmpeg } = await findPrograms({});
    const url = `${service.url}/media/${id}/hls/master.m3u8`;
    const { stderr } = await promisify(execFile)(ffmpeg.path, [
      ...['-nostdin', '-loglevel', 'warning', '-i', url, '-map', '0:v:0', '-map', '0:a:0', '-f', 'null', '-'],
    ]);
    expect(stderr).toBe('');
  });

  it('supports ranges and conditional requests for MP4 and segments', async () => {
    const base = `/media/${id}`;
    const media = await (await get(`${base}/hls/master.m3u8`)).text();
    const variant = linesOf(media)[0] ?? '';
    const segment = linesOf(await (await get(`${base}/hls/${variant}`)).text())[0] ?? '';
    const segmentPath = new URL(segment, `${service.url}${base}/hls/${variant}`).pathname;
    for (const path of [`${base}/mp4.mp4`, segmentPath]) {
      const whole = await get(path);
      const bytes = Buffer.from(await whole.arrayBuffer());
      const etag = whole.headers.get('etag') ?? '';
      expect(etag).toMatch(/^"[0-9a-f]{64}"$/);
      const part = await get(path, { range: 'bytes=100-199' });
      expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 100-199/${bytes.length}`]);
      expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(100, 200))).toBe(true);
      expect((await get(path, { 'if-none-match': etag })).status).toBe(304);
      expect((await get(path, { range: `bytes=${bytes.length}-` })).status).toBe(416);
    }
    await expect
      .poll(async () => (await (await get('/api/v1/assets?limit=100')).text()).includes(segmentPath), {
        timeout: 3_000,
      })
      .toBe(true);
  });

  it('answers 404 with the HLS path to a single-file request, or with what is missing', async () => {
    const detailOf = async (path: string) => {
      const response = await get(`/media/${id}/${path}`);
      expect([path, response.status]).toEqual([path, 404]);
      return ((await response.json()) as { detail: string }).detail;
    };
    expect(await detailOf('hls.m3u8')).toContain(`/media/${id}/hls/master.m3u8`);
    expect(await detailOf('hls/9999p/00001.m4s')).toBe('hls has no file 9999p/00001.m4s.');
    expect(await detailOf('hls.ffffffff/master.m3u8')).toMatch(
      /no such revision of hls.*hls\.[0-9a-f]{8}\/master\.m3u8/,
    );
    expect(await detailOf('hls/..%2f..%2fetc/passwd')).toMatch(/not a delivery path/);
    expect(await detailOf('thumb/a.webp')).toMatch(/no rendition thumb/);
  });

  it('has a manifest with everything that a page needs', async () => {
    const manifest = Manifest.parse(await (await get(`/media/${id}/manifest.json`)).json());
    const base = `${service.url}/media/${id}`;
    expect(manifest).toMatchObject({
      ...{ kind: 'video', width: 1280, height: 720, duration: 5 },
      ...{ poster: `${base}/poster.jpg`, storyboard: `${base}/storyboard.vtt` },
    });
    expect(manifest.renditions.find(({ name }) => name === 'hls')).toMatchObject({
      url: `${base}/hls/master.m3u8`,
      immutable_url: expect.stringMatching(/\/hls\.[0-9a-f]{8}\/master\.m3u8$/),
    });
    const vtt = await (await get(manifest.storyboard ?? '')).text();
    const sprite = /^(\S+)#xywh=/m.exec(vtt)?.[1] ?? '';
    const picture = await get(new URL(sprite, manifest.storyboard ?? '').href);
    expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/jpeg']);
  });

  it('reports its progress, never backwards, and its events as they happen', async () => {
    for (const [index, value] of progress.entries()) {
      expect(value).toBeGreaterThanOrEqual(progress[index - 1] ?? 0);
      expect(value).toBeLessThanOrEqual(1);
    }
    expect(progress.some((value) => (value ?? 0) > 0)).toBe(true);
    const events = (await following).filter((event) => event.type !== 'region.status_changed');
    const types = events.map(({ type }) => type);
    expect(types.slice(0, 2)).toEqual(['media.created', 'media.processing']);
    expect(types.at(-1)).toBe('media.ready');
    expect(types.filter((type) => type === 'rendition.ready')).toHaveLength(7);
    expect(types).toContain('media.progress');
    // One by one: some were ready before others.
    expect(types.indexOf('rendition.ready')).toBeLessThan(types.lastIndexOf('media.progress'));

    // A client that reconnects gets the missed events only.
    const [created, processing] = events;
    const seen = created && 'id' in created ? created.id : '';
    const ended = (list: readonly Event[]) => list.some(({ type }) => type === 'media.ready');
    const after = await readEvents(await video.control(`/events?after=${seen}`), ended);
    expect(after[0]).toEqual(processing);
    const resumed = await readEvents(await video.control('/events', { headers: { 'last-event-id': seen } }), ended);
    expect(resumed).toEqual(after);
  });

  it('is explained: streams, decisions and programs, without a path or a secret', async () => {
    const explanation = await video.explain(id);
    expect(explanation).toMatchObject({ id, kind: 'video', status: 'ready', waiting_for: null, error: null });
    expect(explanation.probe).toMatchObject({
      kind: 'video',
      width: 1280,
      height: 720,
      tracks: { video: { codec: 'h264' } },
    });
    const decision = (name: string) => explanation.plan.find((planned) => planned.name === name);
    expect(decision('hls')?.rungs.map(({ name }) => name)).toEqual(['720p', '480p', '360p']);
    expect(decision('thumb')).toMatchObject({
      decision: 'not_applicable',
      reason: expect.stringMatching(/^[A-Z].*\.$/),
    });
    const [attempt] = explanation.attempts;
    expect(attempt).toMatchObject({ attempt: 1, outcome: 'ready', error: null });
    expect(attempt?.runs.length).toBeGreaterThan(2);
    for (const run of attempt?.runs ?? []) {
      expect([run.step, run.outcome]).toEqual([run.step, 'ok']);
      expect(run.argv[0]).toMatch(/^ff(mpeg|probe)$/);
    }
    expect(attempt?.timings['total']).toBeGreaterThan(100);
    const text = JSON.stringify(explanation);
    for (const needle of [service.dataDir, service.token, tmpdir(), process.cwd()]) expect(text).not.toContain(needle);
  });

  it('fault 18: a lost segment and a flipped byte are found and repaired', async () => {
    await using store = await openStoreOf(service.dataDir);
    const keys: string[] = [];
    for await (const { key } of store.list('renditions/')) if (key.endsWith('.m4s')) keys.push(key);
    const [lost = '', flipped = ''] = keys.filter((key) => key.includes('/hls.')).sort();
    await store.delete(lost);
    await damageObject(service.dataDir, flipped);
    const verify = async (repair: boolean) =>
      MediaVerification.parse(
        await (await video.control(`/media/${id}/verify?repair=${repair}`, { method: 'POST' })).json(),
      );
    const found = await verify(true);
    expect(found).toMatchObject({ original: 'sound', repair: 'queued' });
    expect(found.renditions.filter(({ health }) => health !== 'sound')).toMatchObject([
      { name: 'hls', health: 'missing' },
    ]);
    await video.rendition(id, 'hls', 'ready');
    await expect.poll(async () => (await video.explain(id)).waiting_for, { timeout: 30_000 }).toBeNull();
    expect((await verify(false)).renditions.map(({ health }) => health)).toEqual(Array(7).fill('sound'));
    // Intact files were left alone.
    expect((await video.explain(id)).attempts.at(-1)?.runs.map(({ step }) => step)).not.toContain('preview.webp');
  }, 60_000);

  it('a second media object of its bytes is ready at once, and survives its deletion', async () => {
    const twin = await video.accept(clip, 'copy.mp4', '&duplicate=allow');
    const { status, thumbhash } = await video.ended(twin);
    expect([status, thumbhash]).toEqual(['ready', (await video.detail(id)).thumbhash]);
    expect((await video.explain(twin)).attempts[0]?.runs).toEqual([]);
    expect((await get(`/media/${twin}/hls/master.m3u8`)).status).toBe(200);
    expect((await video.control(`/media/${twin}`, { method: 'DELETE' })).status).toBe(204);
    expect((await get(`/media/${twin}/hls/master.m3u8`)).status).toBe(404);
    expect((await get(`/media/${id}/hls/master.m3u8`)).status).toBe(200);
  });

  it('is deleted with every file of every rendition', async () => {
    expect((await video.control(`/media/${id}`, { method: 'DELETE' })).status).toBe(204);
    const left: string[] = [];
    await using store = await openStoreOf(service.dataDir);
    for await (const { key } of store.list('')) left.push(key);
    expect(left).toEqual([]);
    expect((await get(`/media/${id}/hls/master.m3u8`)).status).toBe(404);
  });
});

describe('an audio file', () => {
  it('is ready with its renditions, plays as HLS, and has no poster', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-sound-'));
    const { ffmpeg } = await findPrograms({});
    const path = join(folder, 'tone.wav');
    await promisify(execFile)(ffmpeg.path, [
      ...['-nostdin', '-loglevel', 'error', '-f', 'lavfi', '-i', 'sine=frequency=330:duration=3', path],
    ]);
    const sound = await video.accept(path, 'tone.wav');
    const detail = await video.ended(sound);
    expect(detail).toMatchObject({ status: 'ready', kind: 'audio', width: 0, height: 0 });
    expect(detail.duration).toBeCloseTo(3, 1);
    const rows = detail.renditions.map(({ name, extension, state }) => `${name}.${extension} ${state}`);
    expect(rows).toEqual(['audio.m4a', 'hls.m3u8', 'waveform.json', 'waveform.webp'].map((name) => `${name} ready`));
    for (const { url, content_type } of detail.renditions) {
      const response = await get(url);
      expect([url, response.status, response.headers.get('content-type')]).toEqual([url, 200, content_type]);
    }
    const manifest = Manifest.parse(await (await get(`/media/${sound}/manifest.json`)).json());
    expect(manifest).toMatchObject({ kind: 'audio', poster: null, storyboard: null });
    await rm(folder, { recursive: true });
  });
});
