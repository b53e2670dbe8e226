import { describe, expect, it } from 'vitest';
import { buildDeliveryPath, type DeliveryPath, parseDeliveryPath } from './delivery-path.ts';

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
  ];
  it.each(paths)('%s is read and built alike by server and client', (path, value) => {
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
  ])('%j is nothing that delivery knows, so that no such name ever reaches a file', (path) => {
    expect(parseDeliveryPath(path)).toBeNull();
  });
});
