import { describe, expect, it } from 'vitest';
import {
  buildDeliveryPath,
  type DeliveryPath,
  isRenditionFile,
  parseDeliveryPath,
  renditionPath,
} from './delivery-path.ts';

const id = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';

describe('delivery paths', () => {
  const paths: [string, DeliveryPath][] = [
    [`/media/${id}/thumb.webp`, { kind: 'rendition', id, name: 'thumb', extension: 'webp', revision: null }],
    [
      `/media/${id}/medium.0a1b2c3d.avif`,
      { kind: 'rendition', id, name: 'medium', extension: 'avif', revision: '0a1b2c3d' },
    ],
    [`/media/${id}/medium`, { kind: 'negotiated', id, name: 'medium' }],
    [`/media/${id}/manifest.json`, { kind: 'manifest', id }],
    [`/media/${id}/hls/master.m3u8`, { kind: 'file', id, name: 'hls', revision: null, file: 'master.m3u8' }],
    [
      `/media/${id}/hls.0a1b2c3d/720p/00001.m4s`,
      { kind: 'file', id, name: 'hls', revision: '0a1b2c3d', file: '720p/00001.m4s' },
    ],
  ];
  it.each(paths)('%s is parsed and built alike by server and client', (path, value) => {
    expect(parseDeliveryPath(path)).toEqual(value);
    expect(buildDeliveryPath(value)).toBe(path);
  });

  it.each([
    `/media/${id}/../../etc/passwd`,
    `/media/${id}/%2e%2e/thumb.webp`,
    `/media/${id}/%252e%252e`,
    `/media/${id}/thumb%2ewebp`,
    `/media/${id}/thumb.webp/`,
    `/media/${id}/thumb.webp\u0000`,
    `/media/${id}/thumb.webp\n`,
    `/media/${id.toUpperCase()}/thumb.webp`,
    `/media/${id}/Thumb.webp`,
    `/media/${id}/`,
    `/media/${id}`,
    `/media/con/thumb.webp`,
    `/media/${id}/manifest.0a1b2c3d.json`,
    `/media//thumb.webp`,
    `/media/${id}/hls/../master.m3u8`,
    `/media/${id}/hls/./master.m3u8`,
    `/media/${id}/hls//master.m3u8`,
    `/media/${id}/hls/.master.m3u8`,
    `/media/${id}/hls/720p/`,
    `/media/${id}/hls/720p`,
    `/media/${id}/hls/720p/..%2fmaster.m3u8`,
    `/media/${id}/hls/a/b/c/d/master.m3u8`,
    `/media/${id}/hls.m3u8/720p/00001.m4s`,
    `/media/${id}/hls/master.tar.gz`,
    `/media/${id}/hls/master.m3u8\n`,
  ])('%j is no delivery path, so no such name ever reaches a file', (path) => {
    expect(parseDeliveryPath(path)).toBeNull();
  });
});

describe('where a rendition is', () => {
  const rendition = { id, revision: null };
  it('of one file: by name and extension', () => {
    const path = renditionPath({ ...rendition, name: 'thumb', extension: 'webp' });
    expect(buildDeliveryPath(path)).toBe(`/media/${id}/thumb.webp`);
  });

  it('of several files: at the one that a player opens', () => {
    const path = renditionPath({ ...rendition, name: 'hls', extension: 'm3u8', revision: '0a1b2c3d' });
    expect(buildDeliveryPath(path)).toBe(`/media/${id}/hls.0a1b2c3d/master.m3u8`);
  });
});

it.each([
  ['master.m3u8', true],
  ['720p/00001.m4s', true],
  ['../secret.txt', false],
  ['720p/../a.m4s', false],
  ['/etc/passwd', false],
  ['Master.m3u8', false],
  ['', false],
])('%j as the name of a file within a rendition: %s', (name, valid) => {
  expect(isRenditionFile(name)).toBe(valid);
});
