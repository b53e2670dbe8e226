import { type FileHandle, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { RenderError } from '../../errors.ts';
import { plainOutput } from '../../ffmpeg/argv/ladder.ts';
import type { ReadyRendition } from '../result.ts';
import { checkingOutput } from './failure.ts';
import type { PlannedMp4 } from './ladder.ts';
import { boxHeader } from './mp4-boxes.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';
import type { StepContext } from './step.ts';
import type { Streams } from './streams.ts';

/** Combines the streams into one MP4 file with its index first. */
export async function makeMp4(context: StepContext, planned: PlannedMp4, streams: Streams): Promise<ReadyRendition> {
  const { scratch, outDir } = context;
  const { name, extension, revision } = planned;
  const [video] = streams.videosOf(planned);
  if (!video) throw new RangeError(`${name}.${extension} has no video.`);
  const audio = streams.audioOf(planned);
  const temporary = join(scratch, `${name}.${extension}`);
  const inputs = [video.path, ...(audio ? [audio.path] : [])];
  await checkingOutput('its streams could not be combined', () =>
    context.ffmpeg([
      ...inputs.flatMap((path) => ['-f', 'mov', '-i', path]),
      ...inputs.flatMap((_, index) => ['-map', `${index}:0`]),
      ...['-c', 'copy', ...plainOutput, '-movflags', '+faststart', '-f', 'mp4', temporary],
    ]),
  );
  const bytes = await readBack(context, temporary, video, audio);
  const path = join(outDir, `${name}.${extension}`);
  await rename(temporary, path);
  const seconds = Math.max(secondsOf(video), audio ? secondsOf(audio) : 0);
  return {
    ...{ name, extension, revision, state: 'ready', path, bytes },
    ...{ width: video.width, height: video.height, frames: video.samples.count },
    durationMs: Math.round(seconds * 1_000),
    files: null,
    notes: streams.notesOf(planned),
  };
}

function secondsOf(track: Mp4Track): number {
  return timeAt(track, track.samples.count);
}

const Probed = z.object({
  streams: z.array(
    z.object({
      codec_name: z.string(),
      width: z.int().optional(),
      height: z.int().optional(),
      nb_frames: z.coerce.number(),
      start_time: z.coerce.number(),
      duration: z.coerce.number(),
    }),
  ),
});

/** One frame at 25 per second: the largest accepted difference of a duration. */
const toleranceSeconds = 0.04;

/** Compares the file with its input streams. @returns its size */
async function readBack(context: StepContext, path: string, video: Mp4Track, audio: Mp4Track | null): Promise<number> {
  const fail = (what: string): never => {
    throw new RenderError('output_failed', `The file is defective: ${what}.`);
  };
  const output = await checkingOutput('it could not be read back after writing', () =>
    context.ffprobe(['-f', 'mov', '-of', 'json', '-show_streams', '-i', path]),
  );
  const { streams } = Probed.parse(JSON.parse(output.toString('utf8')));
  const expected = [video, ...(audio ? [audio] : [])];
  if (streams.length !== expected.length) fail(`it has ${streams.length} streams instead of ${expected.length}`);
  for (const [index, track] of expected.entries()) {
    const stream = streams[index];
    if (stream?.codec_name !== (track.kind === 'video' ? 'h264' : 'aac')) fail(`it has ${stream?.codec_name}`);
    else if (stream.nb_frames !== track.samples.count) {
      fail(`it has ${stream.nb_frames} ${track.kind} samples instead of ${track.samples.count}`);
    } else if (Math.abs(stream.duration - secondsOf(track)) > toleranceSeconds || Math.abs(stream.start_time) > 0.001) {
      fail(`its ${track.kind} begins at ${stream.start_time} s and lasts ${stream.duration} s`);
    } else if (track.kind === 'video' && (stream.width !== track.width || stream.height !== track.height)) {
      fail(`it is ${stream.width} x ${stream.height}`);
    }
  }
  const file = await open(path, 'r');
  try {
    const boxes = await topLevelBoxes(file);
    if (boxes.indexOf('moov') > boxes.indexOf('mdat')) fail('its index does not come first');
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

async function topLevelBoxes(file: FileHandle): Promise<string[]> {
  const types: string[] = [];
  const header = Buffer.alloc(16);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(header, 0, header.length, at);
    if (bytesRead === 0) return types;
    const { type, size, headerSize } = boxHeader(header.subarray(0, bytesRead));
    types.push(type);
    if (size < headerSize) return types;
    at += size;
  }
}
