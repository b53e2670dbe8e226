import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { playedAudio } from '../../plan.ts';
import type { ReadyRendition, RenderedFile } from '../result.ts';
import { type Packaged, packageTrack } from './hls-package.ts';
import {
  type AudioPlaylist,
  masterPlaylist,
  mediaPlaylist,
  targetDuration,
  type VideoPlaylist,
} from './hls-playlist.ts';
import { readBackPlaylist } from './hls-read-back.ts';
import { audioStarts, startsAtFrames } from './keyframes.ts';
import type { PlannedHls } from './ladder.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';
import type { StepContext } from './step.ts';
import type { Streams } from './streams.ts';

const playlistType = 'application/vnd.apple.mpegurl';

/** Cuts the streams into segments and writes the playlists: `master.m3u8`, one for each rung, and one for the audio. */
export async function makeHls(context: StepContext, planned: PlannedHls, streams: Streams): Promise<ReadyRendition> {
  const { scratch, outDir, source } = context;
  const { name, extension, revision, preset } = planned;
  const { frameRate } = streams;
  const framesPerSecond = frameRate ? frameRate.num / frameRate.den : 1;
  const folder = join(scratch, name);
  await mkdir(folder);
  const packaged: Array<Packaged & { track: Mp4Track }> = [];
  const rungs: VideoPlaylist[] = [];
  let startTimes: readonly number[] = [0];
  const tracks = streams.videosOf(planned);
  for (const [index, track] of tracks.entries()) {
    const rung = planned.video.rungs[index];
    if (rung === undefined) throw new RangeError('There are more streams than rungs.');
    const starts = startsAtFrames(track, streams.starts, framesPerSecond);
    startTimes = starts.map((start) => timeAt(track, start));
    const result = await packageTrack(track, starts, folder, rung.name);
    packaged.push({ ...result, track });
    rungs.push({ ...result.playlist, width: track.width, height: track.height, framesPerSecond });
  }
  let audio: AudioPlaylist | null = null;
  const audioTrack = streams.audioOf(planned);
  if (audioTrack) {
    const starts = audioStarts(audioTrack, startTimes, preset.segment_seconds);
    const result = await packageTrack(audioTrack, starts, folder, 'audio');
    packaged.push({ ...result, track: audioTrack });
    const language = languageTag(playedAudio(source.tracks.audio)?.language ?? null);
    audio = { ...result.playlist, channels: audioTrack.channels, language, label: labelOf(language) };
  }
  const playlists: RenderedFile[] = [];
  const writePlaylist = async (file: string, text: string) => {
    const path = join(folder, file);
    await writeFile(path, text);
    playlists.push({ name: file, path, contentType: playlistType, bytes: Buffer.byteLength(text) });
  };
  await writePlaylist(`master.${extension}`, masterPlaylist(rungs, audio, `${name}.${revision}`));
  const target = targetDuration(packaged.map(({ playlist }) => playlist));
  for (const { playlist, track } of packaged) {
    const file = `${playlist.name}.${extension}`;
    await writePlaylist(file, mediaPlaylist(playlist, target));
    await readBackPlaylist(context, join(folder, file), playlist, track);
  }

  const place = join(outDir, name);
  await rm(place, { recursive: true, force: true });
  await rename(folder, place);
  const files = [...playlists, ...packaged.flatMap((each) => each.files)].map((file) => ({
    ...file,
    path: join(place, file.name),
  }));
  const [largest] = rungs;
  const seconds = Math.max(...packaged.map(({ playlist }) => playlist.segments.reduce((sum, s) => sum + s.seconds, 0)));
  return {
    ...{ name, extension, revision, state: 'ready' },
    path: join(place, `master.${extension}`),
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    ...{ width: largest?.width ?? 0, height: largest?.height ?? 0 },
    frames: Math.max(1, ...tracks.map(({ samples }) => samples.count)),
    durationMs: Math.round(seconds * 1_000),
    files,
    notes: streams.notesOf(planned),
  };
}

/** The BCP 47 tag of `eng` or `ger` (RFC 5646: the shortest code). Null for `und` and for codes that are no language. */
export function languageTag(iso639: string | null): string | null {
  if (iso639 === null || !/^[a-z]{2,3}$/.test(iso639) || ['und', 'mis', 'mul', 'zxx'].includes(iso639)) return null;
  return new Intl.Locale(iso639).language;
}

/** The name that a player shows in its menu. */
function labelOf(language: string | null): string {
  const name = language && new Intl.DisplayNames('en', { type: 'language' }).of(language);
  return (name ?? 'Audio').replaceAll(/["\r\n]/g, '');
}
