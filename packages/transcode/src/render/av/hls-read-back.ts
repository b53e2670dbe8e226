import { RenderError } from '../../errors.ts';
import { checkingOutput } from './failure.ts';
import type { MediaPlaylist } from './hls-playlist.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';
import type { StepContext } from './step.ts';

/** Playlists have microseconds, and ffprobe also rounds. */
const toleranceSeconds = 0.000_05;

/**
 * Reads a playlist back through ffprobe, as a player does. Every sample must be present at its time, and video segments must
 * begin with a keyframe at the times in the playlist.
 * @throws RenderError `output_failed`
 */
export async function readBackPlaylist(
  context: StepContext,
  path: string,
  playlist: MediaPlaylist,
  track: Mp4Track,
): Promise<void> {
  const { samples, kind } = track;
  const fail = (what: string): never => {
    throw new RenderError('output_failed', `The playlist ${playlist.name} is defective: ${what}.`);
  };
  const found = { packets: 0, width: 0, height: 0, codec: '' };
  const keyframes: number[] = [];
  const take = (line: string) => {
    const [section, ...fields] = line.split('|');
    const values = new Map(fields.map((field) => field.split('=', 2) as [string, string]));
    if (section === 'stream') {
      found.codec = values.get('codec_name') ?? '';
      found.width = Number(values.get('width') ?? 0);
      found.height = Number(values.get('height') ?? 0);
    }
    if (section !== 'packet') return;
    const time = Number(values.get('pts_time'));
    found.packets += 1;
    if (values.get('flags')?.startsWith('K')) keyframes.push(time);
  };
  let rest = '';
  const argv = ['-protocol_whitelist', 'file', '-f', 'hls', '-of', 'compact'];
  const entries = 'packet=pts_time,flags:stream=codec_name,width,height';
  await checkingOutput(`its playlist ${playlist.name} could not be read back after writing`, () =>
    context.ffprobe([...argv, '-show_entries', entries, '-i', path], {
      onOutput(piece) {
        const lines = (rest + piece.toString('latin1')).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) take(line);
      },
    }),
  );
  take(rest);

  if (found.packets !== samples.count) fail(`it has ${found.packets} samples instead of ${samples.count}`);
  const seconds = playlist.segments.reduce((sum, segment) => sum + segment.seconds, 0);
  const end = timeAt(track, samples.count);
  if (Math.abs(seconds - end) > toleranceSeconds) fail(`its duration is ${seconds} s instead of ${end} s`);
  if (kind === 'audio') {
    if (found.codec !== 'aac') fail(`it has ${found.codec}`);
    return;
  }
  if (found.codec !== 'h264' || found.width !== track.width || found.height !== track.height) {
    fail(`it has ${found.codec} at ${found.width} x ${found.height} instead of ${track.width} x ${track.height}`);
  }
  const tolerance = toleranceSeconds + 1 / track.timescale;
  let start = 0;
  let at = 0;
  for (const segment of playlist.segments) {
    while ((keyframes[at] ?? Infinity) < start - tolerance) at += 1;
    if (Math.abs((keyframes[at] ?? Infinity) - start) > tolerance) fail(`there is no keyframe at ${start} s`);
    start += segment.seconds;
  }
}
