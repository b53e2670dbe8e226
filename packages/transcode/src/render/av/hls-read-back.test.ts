import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { scratch } from '../../../test/scratch.ts';
import { clipMaker, fastVideo, picture, programsForTests } from '../../../test/video-clips.ts';
import type { Programs } from '../../ffmpeg/programs.ts';
import { defaultLimits } from '../../limits.ts';
import { packageTrack } from './hls-package.ts';
import { type MediaPlaylist, mediaPlaylist } from './hls-playlist.ts';
import { readBackPlaylist } from './hls-read-back.ts';
import { type Mp4Track, readMp4Track } from './mp4-track.ts';
import { runSteps } from './run-steps.ts';
import type { StepContext } from './step.ts';

const files = scratch();
let programs: Programs;
let path: string;
let track: Mp4Track;
beforeAll(async () => {
  programs = await programsForTests();
  path = clipMaker(programs, files.folder)('clip.mp4', ...picture('64x36', 3), ...fastVideo, '-g', '25');
  track = await readMp4Track(path);
});

/** Packages the clip, damages something, and reads it back. */
async function readBackAfter(
  starts: readonly number[],
  damage: (folder: string, playlist: MediaPlaylist) => MediaPlaylist,
): Promise<void> {
  const folder = files.outDir();
  await mkdir(folder);
  const { playlist } = await packageTrack(track, starts, folder, 'rung');
  const damaged = damage(folder, playlist);
  writeFileSync(join(folder, 'rung.m3u8'), mediaPlaylist(damaged, 2));
  const identified = identifyForTests(path, programs);
  if (identified.tracks === null) throw new Error('A clip has tracks.');
  const source = { ...identified, tracks: identified.tracks };
  let problem: unknown = null;
  const run = async (context: StepContext) => {
    await readBackPlaylist(context, join(folder, 'rung.m3u8'), damaged, track).catch((error) => {
      problem = error;
    });
  };
  const steps = [{ name: 'read', renditions: [], weight: 1, run }];
  await runSteps(path, source, steps, [], files.outDir(), { limits: defaultLimits, programs });
  if (problem !== null) throw problem;
}

const untouched = (_: string, playlist: MediaPlaylist) => playlist;

test('an intact playlist passes the read-back', async () => {
  await expect(readBackAfter([0, 25, 50], untouched)).resolves.toBeUndefined();
});

test('a segment without a keyframe at its start is detected', async () => {
  await expect(readBackAfter([0, 30, 50], untouched)).rejects.toMatchObject({
    code: 'output_failed',
    message: expect.stringMatching(/no keyframe at 1\.2 s/),
  });
});

test('a missing segment is detected', async () => {
  const damage = (_: string, playlist: MediaPlaylist) => ({ ...playlist, segments: playlist.segments.slice(0, 2) });
  await expect(readBackAfter([0, 25, 50], damage)).rejects.toMatchObject({
    code: 'output_failed',
    message: expect.stringMatching(/50 samples instead of 75/),
  });
});

test('a wrong duration is detected', async () => {
  const damage = (_: string, playlist: MediaPlaylist) => ({
    ...playlist,
    segments: playlist.segments.map((segment, i) => ({ ...segment, seconds: segment.seconds + (i === 2 ? 0.01 : 0) })),
  });
  await expect(readBackAfter([0, 25, 50], damage)).rejects.toMatchObject({ code: 'output_failed' });
});

test('a cut segment is detected', async () => {
  const damage = (folder: string, playlist: MediaPlaylist) => {
    const segment = join(folder, 'rung/00002.m4s');
    writeFileSync(segment, readFileSync(segment).subarray(0, 300));
    return playlist;
  };
  await expect(readBackAfter([0, 25, 50], damage)).rejects.toMatchObject({ code: 'output_failed' });
});
