import { describe, expect, it } from 'vitest';
import { createClient, type Manifest, type Media, type Rendition } from '../src/index.ts';
import { sendJson, startServer } from './http-server.ts';

const id = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';
const client = createClient({ baseUrl: 'https://media.example.com/mds/' });
const base = `https://media.example.com/mds/media/${id}`;
const media: Media = {
  id,
  created_at: '2026-01-31T08:15:00Z',
  content_type: 'image/jpeg',
  bytes: 1,
  width: 4000,
  height: 3000,
  status: 'ready',
};

describe('url()', () => {
  it('returns the address of a rendition, given a media object or its id', () => {
    expect(client.url(media, 'thumb', { extension: 'webp' })).toBe(`${base}/thumb.webp`);
    expect(client.url(id, 'medium', { extension: 'avif', revision: '0a1b2c3d' })).toBe(`${base}/medium.0a1b2c3d.avif`);
    expect(client.url(id, 'medium')).toBe(`${base}/medium`);
  });

  it.each([
    ['hls', {}, 'hls/master.m3u8'],
    ['hls', { extension: 'm3u8' }, 'hls/master.m3u8'],
    ['hls', { revision: '0a1b2c3d' }, 'hls.0a1b2c3d/master.m3u8'],
    ['mp4', {}, 'mp4.mp4'],
    ['mp4', { revision: '0a1b2c3d' }, 'mp4.0a1b2c3d.mp4'],
    ['audio', {}, 'audio.m4a'],
    ['poster', {}, 'poster'],
    ['poster', { extension: 'jpg' }, 'poster.jpg'],
    ['preview', {}, 'preview'],
    ['storyboard', {}, 'storyboard.vtt'],
    ['storyboard', { extension: 'jpg' }, 'storyboard.jpg'],
    ['waveform', { extension: 'json' }, 'waveform.json'],
    ['constructor', {}, 'constructor'],
  ])('of %s %j is the path that players and pages use: %s', (name, options, path) => {
    expect(client.url(id, name, options)).toBe(`${base}/${path}`);
  });

  it.each([
    ['../../etc', 'thumb', {}],
    [id, '../thumb', {}],
    [id, 'thumb', { extension: 'webp?x=1' }],
    [id, 'thumb', { extension: 'webp', revision: 'latest' }],
    [id, 'thumb', { revision: '0a1b2c3d' }],
    ['', 'thumb', {}],
  ])('rejects a value that cannot be part of an address: %j %j %j', (bad, name, options) => {
    expect(() => client.url(bad, name, options)).toThrow(/delivery path|extension/);
  });
});

describe('srcset()', () => {
  it('of an id contains the presets at their nominal widths', () => {
    expect(client.srcset(id)).toBe(
      `${base}/thumb.webp 320w, ${base}/small.webp 640w, ${base}/medium.webp 1280w, ${base}/large.webp 2048w`,
    );
    expect(client.srcset(id, { extension: 'avif' })).toBe(`${base}/medium.avif 1280w`);
  });

  it('of a media object contains the widths that the service scales to', () => {
    expect(client.srcset({ ...media, width: 3000, height: 4000 })).toBe(
      `${base}/thumb.webp 240w, ${base}/small.webp 480w, ${base}/medium.webp 960w, ${base}/large.webp 1536w`,
    );
  });

  it("never exceeds the media object's own width, because presets never enlarge", () => {
    expect(client.srcset({ ...media, width: 500, height: 400 })).toBe(
      `${base}/thumb.webp 320w, ${base}/small.webp 500w`,
    );
    expect(client.srcset({ ...media, width: 10, height: 4000 })).toContain(`${base}/thumb.webp 1w`);
  });

  it('uses the given presets of a deployment', () => {
    const preset = (name: string, width: number | null, change: Partial<Rendition> = {}): Rendition => ({
      name,
      kind: 'image',
      source_kinds: ['image'],
      container: 'webp',
      codecs: null,
      content_type: 'image/webp',
      extension: 'webp',
      width,
      height: null,
      fit: 'inside',
      quality: 80,
      bitrate: null,
      revision: '0a1b2c3d',
      path: '',
      ...change,
    });
    const presets = [
      preset('huge', null),
      preset('card', 400),
      preset('card', 400, { extension: 'avif' }),
      preset('poster', 900, { source_kinds: ['video'] }),
    ];
    expect(client.srcset(media, { presets })).toBe(`${base}/card.webp 400w, ${base}/huge.webp 4000w`);
  });

  it('of a manifest contains its ready images at their true widths', () => {
    const picture = (name: string, width: number, extension = 'webp') => ({
      name,
      extension,
      content_type: `image/${extension}`,
      bytes: 1,
      width,
      height: 1,
      url: `/media/${id}/${name}.${extension}`,
      immutable_url: `https://cdn.example.com/media/${id}/${name}.0a1b2c3d.${extension}`,
    });
    const manifest: Manifest = {
      object: 'manifest',
      id,
      kind: 'image',
      width: 1000,
      height: 500,
      duration: null,
      thumbhash: null,
      poster: null,
      storyboard: null,
      renditions: [picture('medium', 1000), picture('thumb', 320), picture('medium', 1000, 'avif')],
    };
    expect(client.srcset(manifest)).toBe(`${base}/thumb.webp 320w, ${base}/medium.webp 1000w`);
    expect(client.srcset(manifest, { extension: 'avif', immutable: true })).toBe(
      `https://cdn.example.com/media/${id}/medium.0a1b2c3d.avif 1000w`,
    );
    expect(client.srcset({ ...manifest, kind: 'video' })).toBe('');
  });

  it('is empty for a media object that is no image', () => {
    expect(client.srcset({ ...media, content_type: 'video/mp4' })).toBe('');
  });
});

it('manifest() requests the manifest of a media object', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, { object: 'manifest', id }));
  const manifest = await createClient({ baseUrl: server.url }).manifest(media);
  expect(manifest.id).toBe(id);
  expect(server.requests).toEqual([`GET /media/${id}/manifest.json`]);
});
