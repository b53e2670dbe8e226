import { expect, test } from 'vitest';
import { parsePresets } from '../../presets/presets.ts';
import { storyboardIndex, storyboardLayout, timestamp } from './storyboard-layout.ts';

const [preset] = parsePresets([{ type: 'storyboard', name: 's', container: 'jpeg', columns: 3, max_tiles: 7 }]);
if (preset?.type !== 'storyboard') throw new Error('expected a storyboard preset');
const planned = { preset, width: 160, height: 90 };

test('tiles are at least a second apart, and at most as many as the preset allows', () => {
  const of = (durationMs: number | null) => {
    const { tiles, columns, rows } = storyboardLayout(planned, durationMs);
    return [tiles, columns, rows];
  };
  expect([null, 40, 999, 2_999, 5_000, 7_000, 3_600_000].map(of)).toEqual([
    ...[
      [1, 1, 1],
      [1, 1, 1],
      [1, 1, 1],
      [2, 2, 1],
      [5, 3, 2],
    ],
    ...[
      [7, 3, 3],
      [7, 3, 3],
    ],
  ]);
});

test('cues follow each other without gap or overlap to the end, for any duration', () => {
  for (const durationMs of [1, 40, 1_001, 6_999, 10_007, 14_399_993]) {
    const cues = storyboardIndex(storyboardLayout(planned, durationMs), 's.0a1b2c3d.jpg').split('\n\n').slice(1);
    let reached = timestamp(0);
    for (const cue of cues) {
      const [, from, to] = /^(\S+) --> (\S+)\ns\.0a1b2c3d\.jpg#xywh=/.exec(cue) ?? [];
      expect(from).toBe(reached);
      expect((to ?? '') > (from ?? '')).toBe(true);
      reached = to ?? '';
    }
    expect(reached).toBe(timestamp(durationMs));
  }
});

test('a timestamp has hours, minutes, seconds and milliseconds', () => {
  expect(timestamp(0)).toBe('00:00:00.000');
  expect(timestamp(3_661_007)).toBe('01:01:01.007');
  expect(timestamp(360_000_000)).toBe('100:00:00.000');
});
