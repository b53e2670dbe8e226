import { expect, test } from 'vitest';
import { languageTag } from './hls.ts';
import { bandwidthOf, masterPlaylist, mediaPlaylist, targetDuration } from './hls-playlist.ts';

const segment = (seconds: number, bytes: number) => ({ uri: 'a/1.m4s', seconds, bytes });

test('no rounded segment duration exceeds the target duration', () => {
  expect(targetDuration([{ segments: [segment(4, 1), segment(4.49, 1)] }])).toBe(4);
  expect(targetDuration([{ segments: [segment(4, 1)] }, { segments: [segment(4, 1), segment(5.5, 1)] }])).toBe(6);
  expect(targetDuration([{ segments: [segment(0.04, 1)] }])).toBe(1);
});

test('the bandwidth is that of the worst segments, without a very short last one', () => {
  const segments = [segment(4, 1_000_000), segment(4, 2_000_000), segment(0.1, 500_000)];
  expect(bandwidthOf(segments, 4)).toEqual({
    peak: Math.ceil((2_500_000 * 8) / 4.1),
    average: Math.ceil(28_000_000 / 8.1),
  });
  expect(bandwidthOf([segment(0.04, 5_000)], 1)).toEqual({ peak: 1_000_000, average: 1_000_000 });
  expect(bandwidthOf([], 1)).toEqual({ peak: 0, average: 0 });
});

test('a media playlist has the required lines', () => {
  const segments = [segment(4, 1), segment(0.5, 1)];
  const text = mediaPlaylist({ name: 'a', initUri: 'a/init.mp4', codec: '', segments }, 4);
  expect(text.split('\n')).toEqual([
    ...[
      '#EXTM3U',
      '#EXT-X-VERSION:7',
      '#EXT-X-TARGETDURATION:4',
      '#EXT-X-MEDIA-SEQUENCE:1',
      '#EXT-X-PLAYLIST-TYPE:VOD',
    ],
    ...['#EXT-X-INDEPENDENT-SEGMENTS', '#EXT-X-MAP:URI="a/init.mp4"', '#EXTINF:4.000000,', 'a/1.m4s'],
    ...['#EXTINF:0.500000,', 'a/1.m4s', '#EXT-X-ENDLIST', ''],
  ]);
});

test('the bandwidth of a rung includes its audio', () => {
  const video = { name: '720p', initUri: 'i', codec: 'avc1.64001f', segments: [segment(4, 1_000_000)] };
  const audio = { name: 'audio', initUri: 'i', codec: 'mp4a.40.2', segments: [segment(4, 64_000)] };
  const master = masterPlaylist(
    [{ ...video, width: 1280, height: 720, framesPerSecond: 30_000 / 1_001 }],
    { ...audio, channels: 2, label: 'Audio', language: null },
    'hls.0123abcd',
  );
  expect(master).toContain('BANDWIDTH=2128000,AVERAGE-BANDWIDTH=2128000,CODECS="avc1.64001f,mp4a.40.2"');
  expect(master).toContain('FRAME-RATE=29.970');
  expect(master).not.toContain('LANGUAGE');
});

test('languages have their shortest code', () => {
  expect(['eng', 'ger', 'deu', 'und', 'xyz', null, 'x"y'].map(languageTag)).toEqual([
    ...['en', 'de', 'de', null, 'xyz', null, null],
  ]);
});
