import { expect, test } from 'vitest';
import { type AudioTrack, type IdentifiedFile, parseIdentified, type VideoTrack } from './identified.ts';
import { fitInside, fitVideo, type PlannedVideo, planRenditions } from './plan.ts';
import { defaultPresets } from './presets/presets.ts';

function source(changes: Partial<Record<keyof IdentifiedFile, unknown>> = {}): IdentifiedFile {
  return parseIdentified({
    kind: 'image',
    format: 'jpeg',
    contentType: 'image/jpeg',
    extension: 'jpg',
    bytes: 1,
    width: 4000,
    height: 3000,
    durationMs: null,
    frames: 1,
    codecs: { image: 'jpeg' },
    hasAlpha: false,
    orientation: 1,
    colorSpace: 'srgb',
    bitDepth: 8,
    icc: false,
    tracks: null,
    warnings: [],
    ...changes,
  });
}

test('a large image fits the box of each preset and keeps its shape', () => {
  const plan = planRenditions(source(), [...defaultPresets]);
  const sizes = plan
    .filter(({ state }) => state !== 'not_applicable')
    .map(({ name, extension, width, height, state }) => [`${name}.${extension}`, width, height, state]);
  expect(sizes).toEqual([
    ['thumb.webp', 320, 240, 'make'],
    ['small.webp', 640, 480, 'make'],
    ['medium.webp', 1280, 960, 'make'],
    ['medium.avif', 1280, 960, 'make'],
    ['medium.jpg', 1280, 960, 'make'],
    ['large.webp', 2048, 1536, 'make'],
  ]);
});

test('a small image is made at its own size, never enlarged', () => {
  const pictures = defaultPresets.filter(({ source_kinds: kinds }) => kinds.includes('image'));
  for (const planned of planRenditions(source({ width: 24, height: 24 }), pictures)) {
    expect(planned).toMatchObject({ state: 'make', width: 24, height: 24 });
  }
});

test('for a video with a varying frame rate, the plan names the rate of the rendition', () => {
  const rates = (changes: Partial<VideoTrack>) =>
    planRenditions(video(changes), defaultPresets).filter((each) => each.video !== null);
  for (const { video: made, reason } of rates({ variableFrameRate: true, frameRate: { num: 30, den: 1 } })) {
    expect(made?.frameRate).toEqual({ num: 30, den: 1 });
    expect(reason).toMatch(
      /\. The source's frame rate varies; the rendition has a constant 30 frames per second, .*\.$/,
    );
  }
  for (const { reason } of rates({ frameRate: { num: 30, den: 1 } })) expect(reason).not.toMatch(/frame rate/);
});

test('an image a thousand times as wide as high keeps a row of pixels', () => {
  expect(fitInside({ width: 10_000, height: 2 }, { width: 320, height: 320 })).toEqual({ width: 320, height: 1 });
});

test('an animation moves in WebP, is still in JPEG, and is skipped for AVIF', () => {
  const plan = planRenditions(source({ format: 'gif', frames: 12, durationMs: 1200 }), [...defaultPresets]);
  const states = Object.fromEntries(plan.map(({ name, extension, state }) => [`${name}.${extension}`, state]));
  expect(states).toMatchObject({ 'medium.webp': 'make', 'medium.jpg': 'make', 'medium.avif': 'skip' });
  expect(plan.find(({ extension }) => extension === 'avif')?.reason).toMatch(/animation/);
  expect(plan.find(({ extension }) => extension === 'jpg')?.reason).toMatch(/First frame/);
});

test('the plan names the media kinds of a preset that does not apply', () => {
  const [planned] = planRenditions(audioSource(), [...defaultPresets]);
  expect(planned).toMatchObject({ state: 'not_applicable', reason: expect.stringMatching(/this is audio/) });
});

test('identified facts survive storage as JSON, and invented ones are refused', () => {
  const identified = source();
  expect(parseIdentified(JSON.parse(JSON.stringify(identified)))).toEqual(identified);
  expect(() => parseIdentified({ ...identified, frames: 0 })).toThrow();
  expect(() => parseIdentified({ ...identified, codecs: { picture: 'x' } })).toThrow();
});

const videoTrack: VideoTrack = {
  ...{ startMs: 0, durationMs: 10_000, index: 0, codec: 'h264', profile: 'High', level: 40, pixelFormat: 'yuv420p' },
  ...{ codedWidth: 1920, codedHeight: 1080, sampleAspect: { num: 1, den: 1 }, rotation: 0 },
  ...{ frameRate: { num: 30, den: 1 }, variableFrameRate: false, frames: 300, bitrate: 5_000_000 },
  ...{ interlaced: false, hasAlpha: false, hdr: null },
};

const audioTrack: AudioTrack = {
  ...{ startMs: 0, durationMs: 10_000, index: 1, codec: 'aac', profile: 'LC', channels: 2, sampleRate: 48_000 },
  ...{ bitrate: 128_000, language: null, isDefault: true },
};

function video(changes: Partial<VideoTrack> = {}, audio: readonly AudioTrack[] = [audioTrack]): IdentifiedFile {
  const track = { ...videoTrack, ...changes };
  const turned = track.rotation % 180 === 90;
  const tracks = { video: track, audio: [...audio], coverArt: false, bitrate: 6_000_000 };
  return source({
    ...{ kind: 'video', format: 'mp4', durationMs: 10_000, tracks },
    width: turned ? track.codedHeight : track.codedWidth,
    height: turned ? track.codedWidth : track.codedHeight,
  });
}

function audioSource(): IdentifiedFile {
  const tracks = { video: null, audio: [audioTrack], coverArt: true, bitrate: 128_000 };
  return source({ kind: 'audio', format: 'm4a', width: 0, height: 0, tracks });
}

/** The plan of the default ladder, or of the MP4 preset, for a source. */
function planned(identified: IdentifiedFile, name: 'hls' | 'mp4' = 'hls'): PlannedVideo {
  const found = planRenditions(identified, [...defaultPresets]).find((each) => each.name === name);
  if (!found?.video) throw new Error(`${name} is not made: ${found?.reason}`);
  return found.video;
}

const sizes = ({ rungs }: PlannedVideo) => rungs.map(({ name, width, height }) => `${name} ${width}x${height}`);

test('a ladder has only rungs that are no larger than the source, largest first', () => {
  expect(sizes(planned(video()))).toEqual(['1080p 1920x1080', '720p 1280x720', '480p 854x480', '360p 640x360']);
  expect(sizes(planned(video({ codedWidth: 1280, codedHeight: 720 })))).toEqual([
    '720p 1280x720',
    '480p 854x480',
    '360p 640x360',
  ]);
  expect(sizes(planned(video({ codedWidth: 320, codedHeight: 180 })))).toEqual(['360p 320x180']);
});

test('portrait video has portrait rungs', () => {
  const upright = video({ rotation: 90 });
  expect(sizes(planned(upright))).toEqual(['1080p 1080x1920', '720p 720x1280', '480p 480x854', '360p 360x640']);
  expect(sizes(planned(upright, 'mp4'))).toEqual(['mp4 720x1280']);
});

test('video sizes are even and never larger than the source', () => {
  expect(fitVideo({ width: 321, height: 181 }, { width: 1920, height: 1080 })).toEqual({ width: 320, height: 180 });
  expect(fitVideo({ width: 1, height: 1 }, { width: 1920, height: 1080 })).toEqual({ width: 2, height: 2 });
  for (let width = 2; width < 2_000; width += 37) {
    const size = fitVideo({ width, height: 701 }, { width: 640, height: 360 });
    expect(size.width % 2 || size.height % 2, `${width}`).toBe(0);
    expect(size.width).toBeLessThanOrEqual(width);
  }
});

test('only video that plays everywhere is copied, and only to the rung of its size', () => {
  const copies = (changes: Partial<VideoTrack>) =>
    planned(video(changes)).rungs.map(({ encodedBecause }) => encodedBecause === null);
  expect(copies({})).toEqual([true, false, false, false]);
  const unfit: Array<Partial<VideoTrack>> = [
    { codec: 'hevc' },
    { bitrate: 9_000_000 },
    { bitrate: null },
    { pixelFormat: 'yuv422p' },
    { profile: 'High 4:4:4 Predictive' },
    { level: 51 },
    { interlaced: true },
    { variableFrameRate: true },
    { hdr: 'pq' },
    { sampleAspect: { num: 2, den: 1 } },
    { rotation: 180 },
  ];
  for (const changes of unfit) expect(copies(changes), JSON.stringify(changes)).toEqual([false, false, false, false]);
});

test('a frame rate is kept up to 60', () => {
  expect(planned(video({ frameRate: { num: 30_000, den: 1_001 } })).frameRate).toEqual({ num: 30_000, den: 1_001 });
  expect(planned(video({ frameRate: { num: 120, den: 1 } })).frameRate).toEqual({ num: 60, den: 1 });
});

test('the default audio track is used, and copied if it is plain AAC', () => {
  expect(planned(video()).audio).toBe('copy');
  expect(planned(video({}, [])).audio).toBe('none');
  expect(planned(video({}, [{ ...audioTrack, profile: 'HE-AAC' }])).audio).toBe('encode');
  const surround = { ...audioTrack, codec: 'ac3', channels: 6, isDefault: false };
  expect(planned(video({}, [surround, audioTrack])).audio).toBe('copy');
  expect(planned(video({}, [surround, { ...audioTrack, isDefault: false }])).audio).toBe('encode');
});

test('the plan has a reason for each encode, so an operator can improve the export', () => {
  const of = (changes: Partial<VideoTrack>) => planned(video(changes)).rungs[0]?.encodedBecause;
  expect(of({ codec: 'hevc' })).toBe('it is not H.264');
  expect(of({ bitrate: 9_000_000 })).toBe('its 9 Mb/s are more than the 6 Mb/s of this rung');
  expect(of({ rotation: 180 })).toBe('it has to be rotated');
  expect(of({ level: 51 })).toBe('its level, 5.1, is above 4.2');
  expect(planned(video()).rungs[1]?.encodedBecause).toBe('the source has another size, 1920 x 1080');
  const heard = (changes: Partial<AudioTrack>) => planned(video({}, [{ ...audioTrack, ...changes }])).audioBecause;
  expect(heard({ bitrate: 320_000 })).toBe('its 320 kb/s are more than 192');
  expect(heard({ profile: 'HE-AAC' })).toBe('it is HE-AAC, not AAC-LC');
  expect(heard({ bitrate: null })).toBeNull();
});

test('an audio source has a ladder with only its audio, and no MP4', () => {
  expect(planned(audioSource())).toEqual({ rungs: [], frameRate: null, audio: 'copy', audioBecause: null });
  const states = planRenditions(audioSource(), [...defaultPresets]).map(({ name, state }) => `${name} ${state}`);
  expect(states).toContain('mp4 not_applicable');
  expect(states).toContain('audio make');
});
