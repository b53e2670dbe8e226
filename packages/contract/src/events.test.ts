import { describe, expect, it } from 'vitest';
import { Event } from './events.ts';

const id = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';
const stored = { id: '17', created_at: '2026-01-31T08:15:00Z' };

describe('events', () => {
  it.each([
    { ...stored, type: 'media.ready', data: { id, status: 'ready', error: null } },
    {
      ...stored,
      type: 'media.failed',
      data: { id, status: 'failed', error: { code: 'corrupt_media', message: 'It is damaged.', retryable: false } },
    },
    { ...stored, type: 'rendition.ready', data: { id, name: 'hls', extension: 'm3u8', revision: '0a1b2c3d' } },
    {
      ...stored,
      type: 'rendition.failed',
      data: { id, name: 'hls', extension: 'm3u8', revision: '0a1b2c3d', reason: 'The program was killed.' },
    },
    { ...stored, type: 'region.status_changed', data: { code: 'fra1', status: 'operational' } },
    { type: 'media.progress', data: { id, progress: 0.5 } },
  ])('$type is parsed as its own type', (event) => {
    expect(Event.parse(event)).toEqual(event);
  });

  it.each([
    { ...stored, type: 'media.progress', data: { id, progress: 0.5 } },
    { ...stored, type: 'media.progress', data: { id, progress: 1.5 } },
    { type: 'media.ready', data: { id, status: 'ready', error: null } },
    { ...stored, type: 'media.exploded', data: { id } },
  ])('an invalid event is refused: %j', (event) => {
    expect(Event.safeParse(event).success).toBe(false);
  });
});
